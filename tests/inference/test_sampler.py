from __future__ import annotations

import pytest
import torch

from trainer.inference.sampler import Draw, likeliest, sample, uniform


def test_uniform_is_in_range_even_and_without_memory():
    values = torch.tensor([uniform(seed, i) for seed in range(50) for i in range(200)])
    assert 0 <= values.min() and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert torch.histc(values, 10, 0, 1).sub(1000).abs().max() < 150
    assert uniform(2**63 - 1, 5) == uniform(2**63 - 1, 5) != uniform(2**63 - 1, 6)


@pytest.mark.parametrize("vocabulary", [7, 259, 512])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_draws_follow_softmax(vocabulary, temperature):
    torch.manual_seed(0)
    logits = torch.randn(vocabulary) * 2
    n = 20_000
    # stratified uniforms: the counts are then within one of the exact shares
    draws = [Draw(temperature, (i + 0.5) / n) for i in range(n)]
    tokens, logps = sample(logits.repeat(n, 1), draws)
    expected = (logits / temperature).softmax(-1)
    counts = torch.bincount(torch.tensor(tokens), minlength=vocabulary)
    assert (counts - expected * n).abs().max() <= 1.5
    torch.testing.assert_close(torch.tensor(logps), expected.log()[tokens], atol=1e-5, rtol=0)


def test_greedy_and_sampled_rows_in_one_batch():
    torch.manual_seed(1)
    logits = torch.randn(3, 300)
    tokens, logps = sample(logits.clone(), [Draw(0, 0.9), Draw(1, 0.2), Draw(0, 0.1)])
    assert tokens[0] == logits[0].argmax() and tokens[2] == logits[2].argmax()
    assert logps[0] == pytest.approx(logits[0].log_softmax(-1).max().item(), abs=1e-6)


def test_the_likeliest_tokens_of_the_rows_that_ask():
    torch.manual_seed(2)
    logits = torch.randn(3, 50)
    before = logits.clone()
    found = likeliest(logits, [0, 3, 99])
    assert torch.equal(logits, before) and sorted(found) == [1, 2] and len(found[2]) == 50
    expected = logits[1].log_softmax(-1).topk(3)
    assert list(found[1]) == expected.indices.tolist()
    assert list(found[1].values()) == pytest.approx(expected.values.tolist())


def test_extremes_never_draw_what_has_no_mass():
    logits = torch.full((4, 1000), float("-inf"))
    logits[:, 300] = 5.0
    logits[:, 700] = 5.0
    tokens, logps = sample(logits, [Draw(1, 0.0), Draw(1, 0.4999), Draw(1, 0.5001), Draw(1, 1 - 2**-53)])
    assert tokens == [300, 300, 700, 700]
    assert logps == pytest.approx([-0.693147] * 4, abs=1e-5)


def test_filters_follow_hugging_face():
    from transformers import RepetitionPenaltyLogitsProcessor, TopKLogitsWarper, TopPLogitsWarper

    torch.manual_seed(2)
    logits, seen, t = torch.randn(1, 200) * 3, [3, 5, 199, 5], 0.8
    warped = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([seen]), logits.clone()) / t
    warped = TopPLogitsWarper(0.8)(None, TopKLogitsWarper(20)(None, warped))
    expected = warped.softmax(-1)[0]
    n = 4000
    draws = [Draw(t, (i + 0.5) / n, 0.8, 20, 1.3, seen) for i in range(n)]
    tokens, logps = sample(logits.repeat(n, 1), draws)
    counts = torch.bincount(torch.tensor(tokens), minlength=200)
    assert (counts - expected * n).abs().max() <= 1.5
    # what is reported is the full distribution, not the filtered one
    assert logps[0] == pytest.approx((logits[0] / t).log_softmax(-1)[tokens[0]].item(), abs=1e-5)
