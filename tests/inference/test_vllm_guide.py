"""What docs/vllm.md says is what the code asks for: keys, options, routes, and words of messages."""

import re
import shlex
from pathlib import Path

from trainer.config import all_keys
from trainer.inference.chat import NO_PARSER
from trainer.inference.vllm.options import BACKEND, EXTENSION, TRANSFER_FLAGS, VllmSettings, arguments

GUIDE = (Path(__file__).parents[2] / "docs/vllm.md").read_text(encoding="utf-8")


def test_the_keys_it_names_exist():
    sections = {key.partition(".")[0] for key in all_keys()}
    named = {word.partition(" ")[0] for word in re.findall(r"`([a-z_]+\.[a-z_.]+[^`]*)`", GUIDE)}
    keys = {word for word in named if word.partition(".")[0] in sections}
    assert len(keys) > 8 and keys <= set(all_keys()), keys - set(all_keys())


def test_the_start_command_has_the_options_that_a_server_of_ours_gets(tiny):
    block = next(b for b in GUIDE.split("```") if "vllm serve MODEL" in b)
    words = shlex.split(block.replace("\\\n", " "))
    assert "VLLM_SERVER_DEV_MODE=1" in words and " ".join(shlex.split(TRANSFER_FLAGS)) in " ".join(words)
    settings = VllmSettings(model=tiny.path, name="m", dtype="bfloat16", seed=0, max_model_len=2048, sync="full")
    ours = arguments(settings, "m", "/s")
    for flag, value in (("--logprobs-mode", "processed_logprobs"), ("--generation-config", "vllm")):
        assert words[words.index(flag) + 1] == value and f"{flag}={value}" in ours
    assert "--enable-scale-out" in words and "--enable-scale-out" in ours
    assert f"--worker-extension-cls={EXTENSION}" in ours and BACKEND in GUIDE


def test_the_messages_it_explains_are_those_that_are_said():
    sources = " ".join(
        path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "trainer/inference").rglob("*.py")
    )
    for words in ("vLLM had not enough memory", "did not answer within", "knows no option --", "lacks "):
        assert words in GUIDE and words in sources
    assert "chat template has no tool calls that we can read" in NO_PARSER
    assert "chat template has no tool calls that we can read" in GUIDE
