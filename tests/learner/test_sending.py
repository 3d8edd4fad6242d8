"""What the learner sends from device to device, up to the device: names, order, values. No GPU, so nothing is sent."""

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("vllm")  # its trainer ends are what sends

from tests.weights.rig import settings
from trainer.learner.policy import Policy
from trainer.learner.sending import PolicySource, Sender
from trainer.models import resolve_model


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def policy(request) -> Policy:
    policy = Policy(settings(resolve_model("builtin:tiny"), "full", request.param))
    with torch.no_grad():
        for tensor in policy.trainable.values():
            tensor.add_(0.1)
    policy.refresh()
    return policy


def test_what_is_declared_is_what_comes_in_that_order_again_and_again(policy):
    source = PolicySource(policy)
    declared = [(item.name, item.dtype, item.shape) for item in source.metadata()]
    for _ in range(2):
        assert [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in source] == declared
    groups = [name for names, _ in source.iter_groups() for name in names]  # as vLLM buckets them
    assert groups == [name for name, _, _ in declared]


def test_it_is_what_the_files_would_hold_and_all_of_the_model(policy, tmp_path):
    policy.export(tmp_path)
    written, sent = load_file(tmp_path / "model.safetensors"), dict(PolicySource(policy))
    assert written.keys() == sent.keys()
    assert all(torch.equal(written[name], sent[name]) for name in sent)
    start = load_file(resolve_model("builtin:tiny").path / "model.safetensors")
    assert start.keys() == sent.keys()


def test_over_ipc_the_tensors_are_the_learners_own(policy):
    """No copy of the model is made, and they stay alive while the engine reads them."""
    first, second = dict(PolicySource(policy)), dict(PolicySource(policy))
    assert all(first[name].data_ptr() == second[name].data_ptr() and first[name].is_contiguous() for name in first)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(policy):
    with pytest.raises(RuntimeError, match="no GPU"):
        Sender(policy).layout()
