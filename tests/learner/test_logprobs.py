"""Against the naive way: all logits in fp32, log_softmax, gather."""

from __future__ import annotations

import pytest
import torch

from trainer.learner import logprobs
from trainer.learner.logprobs import token_logprobs


def naive(hidden, weight, targets, temperature):
    logp = torch.log_softmax(hidden.float() @ weight.float().t() / temperature.unsqueeze(-1), dim=-1)
    return logp.gather(-1, targets.unsqueeze(-1)).squeeze(-1), -(logp.exp() * logp).sum(-1)


@pytest.fixture
def data():
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(23, 16, generator=g).requires_grad_()
    weight = torch.randn(101, 16, generator=g).requires_grad_()
    return hidden, weight, torch.randint(0, 101, (23,), generator=g), 0.3 + torch.rand(23, generator=g)


@pytest.mark.parametrize("chunk", [7, 100, 101, 4096])
@pytest.mark.parametrize("rows", [5, 2048])
def test_values_and_gradients(data, chunk: int, rows: int, monkeypatch) -> None:
    monkeypatch.setattr(logprobs, "MAX_ROWS", rows)
    hidden, weight = data[:2]
    upstream = torch.linspace(-1, 1, len(hidden))
    expected, expected_entropy = naive(*data)
    actual, entropy = token_logprobs(*data, chunk=chunk)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, expected_entropy, rtol=1e-4, atol=1e-5)
    for got, wanted in zip(
        torch.autograd.grad((actual * upstream).sum(), (hidden, weight)),
        torch.autograd.grad((expected * upstream).sum(), (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_sure_token_keeps_its_small_gradient() -> None:
    """Where p is near 1 the gradient is a difference of nearly equal rows; it must not be rounded away."""
    hidden = torch.zeros(1, 4).requires_grad_()
    weight = torch.eye(4)[[0, 1]]
    with torch.no_grad():
        hidden[0, 0] = 12.0
    args = (hidden, weight, torch.tensor([0]), torch.ones(1))
    (got,) = torch.autograd.grad(token_logprobs(*args)[0].sum(), hidden)
    p_other = 1 / (1 + torch.tensor(12.0).exp())
    torch.testing.assert_close(got[0, :2], torch.stack([p_other, -p_other]), rtol=1e-3, atol=0)


def test_bf16_input_gives_fp32_values(data) -> None:
    hidden, weight, targets, temperature = data
    hidden, weight = hidden.detach().bfloat16().requires_grad_(), weight.detach().bfloat16()
    actual, _ = token_logprobs(hidden, weight, targets, temperature)
    torch.testing.assert_close(actual, naive(hidden, weight, targets, temperature)[0], rtol=1e-5, atol=1e-5)
    assert torch.autograd.grad(actual.sum(), hidden)[0].dtype == torch.bfloat16


def test_a_target_far_above_all_others_is_not_nan() -> None:
    hidden = torch.tensor([[1000.0, 0.0]]).requires_grad_()
    logp, entropy = token_logprobs(hidden, torch.eye(2), torch.tensor([0]), torch.ones(1))
    (grad,) = torch.autograd.grad(logp.sum(), hidden)
    assert (logp.item(), entropy.item()) == (0.0, 0.0) and not grad.any()
    assert token_logprobs(hidden, torch.eye(2), torch.tensor([1]), torch.ones(1))[0].item() == -1000.0
