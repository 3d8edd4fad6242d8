"""The [vllm] table as vLLM's command line, and vLLM's last words as a sentence."""

import json
from pathlib import Path

import pytest

from tests.inference.vllm_tools import needs_vllm
from trainer.config.engine_options import why_refused
from trainer.config.vllm_parsers import OURS, vllm_parsers
from trainer.inference.tool_parsers import _PARSERS
from trainer.inference.vllm.chats import VLLM_PARSERS
from trainer.inference.vllm.explain import explain, refused_option
from trainer.inference.vllm.options import GUARD, OptionRefused, VllmSettings, arguments, flags, lora_rank
from trainer.inference.vllm.process import environment


def settings(tiny, **fields) -> VllmSettings:
    defaults = {"dtype": "bfloat16", "seed": 7, "max_model_len": 512, "sync": "full"}
    return VllmSettings(model=tiny.path, name=tiny.name, **(defaults | fields))


def options(tiny, **fields) -> dict[str, str | bool]:
    """Flags to values; one without a value is True."""
    words = arguments(settings(tiny, **fields), "base", "/s")
    found: dict[str, str | bool] = {}
    for word in words:
        name, equals, value = word.partition("=")
        found[name] = value if equals else True
    return found


def test_what_the_gateway_depends_on_is_always_there(tiny):
    given = options(tiny)
    assert given["--model"] == str(tiny.path) and given["--uds"] == "/s" and given["--seed"] == "7"
    assert given["--logprobs-mode"] == "processed_logprobs" and given["--enable-scale-out"] is True
    assert given["--generation-config"] == "vllm" and given["--dtype"] == "bfloat16"
    assert json.loads(given["--weight-transfer-config"]) == {"backend": "rltui_files"}
    assert given["--enforce-eager"] is True and "--gpu-memory-utilization" not in given  # on a CPU


def test_on_a_gpu_the_share_of_memory_and_the_replica_s_size_are_given(tiny):
    given = options(tiny, cuda_devices=("2", "3"), gpu_memory_utilization=0.45, max_num_seqs=32, images_per_prompt=2)
    assert (given["--tensor-parallel-size"], given["--gpu-memory-utilization"]) == ("2", "0.45")
    assert given["--max-num-seqs"] == "32" and json.loads(given["--limit-mm-per-prompt"]) == {"image": 2}
    assert "--enforce-eager" not in given and "--kv-cache-memory-bytes" not in given
    assert environment(settings(tiny, cuda_devices=("2", "3")), "/f", 4)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_on_a_cpu_the_cache_has_room_for_every_sequence_and_cores_are_bound(tiny):
    token = 2 * 4 * 2 * 32 * 4  # keys and values, layers, heads, width, bytes
    wide = options(tiny, dtype="float32", max_num_seqs=512, max_model_len=1000)
    assert int(wide["--kv-cache-memory-bytes"]) == token * 1024 * 512
    assert "--kv-cache-memory-bytes" not in options(tiny, extra={"gpu_memory_utilization": 0.2})
    assert wide["--no-enable-chunked-prefill"] is True and wide["--max-num-batched-tokens"] == "4096"
    with pytest.raises(OptionRefused, match="on a CPU"):
        options(tiny, extra={"enable_chunked_prefill": True})
    env = environment(settings(tiny, cores=(0, 3)), "/f", 4)
    assert (env["VLLM_CPU_OMP_THREADS_BIND"], env["CUDA_VISIBLE_DEVICES"]) == ("0,3", "")


def test_adapters_get_the_smallest_rank_that_vllm_allows(tiny):
    given = options(tiny, sync="lora", lora_r=12, pins=True)
    assert (given["--max-lora-rank"], given["--max-loras"]) == ("16", "2") and given["--enable-lora"] is True
    assert options(tiny, sync="lora", versioned=True, pins=True)["--max-loras"] == "3"
    assert "--weight-transfer-config" not in given
    assert [lora_rank(r) for r in (1, 2, 8, 9, 129, 257, 321, 512)] == [1, 8, 8, 16, 256, 320, 512, 512]
    with pytest.raises(OptionRefused, match=r"training\.lora\.r = 513"):
        lora_rank(513)


def test_without_syncs_nothing_of_them_is_asked_for(tiny):
    assert not {"--worker-extension-cls", "--weight-transfer-config", "--enable-lora"} & set(options(tiny, sync="none"))


def test_values_of_every_kind():
    table = {"a_b": 1, "on": True, "off_it": False, "none": None, "t": {"x": [1]}, "l": ["p", 2]}
    assert flags(table) == ["--a-b=1", "--on", "--no-off-it", '--t={"x": [1]}', "--l", "p", "2"]


def test_no_value_becomes_an_option():
    assert flags({"a": "--trust-remote-code"}) == ["--a=--trust-remote-code"]
    with pytest.raises(OptionRefused, match="no word of a list begins with a dash"):
        flags({"a": ["x", "--trust-remote-code"]})


def test_other_options_are_passed_on_and_win(tiny):
    given = options(tiny, extra={"block_size": 32, "enable_prefix_caching": False, "max_num_batched_tokens": 99})
    assert given["--block-size"] == "32" and given["--no-enable-prefix-caching"] is True


@pytest.mark.parametrize(
    "key",
    [
        "port",
        "logprobs-mode",
        "enable_lora",
        "seed",
        "tokenizer",
        "generation_config",
        "no_enable_lora",
        "worker_ext",
        "served-model",
    ],
)
def test_options_that_the_gateway_depends_on_are_refused_with_the_reason(tiny, key):
    with pytest.raises(OptionRefused, match=rf"vllm\.{key} cannot be set: .{{10,}}; delete it"):
        arguments(settings(tiny, extra={key: "x"}), "base", "/s")


def test_every_option_that_is_set_here_is_refused_there(tiny):
    """Else a user's value would silently win over one that training depends on."""
    allowed = {"--max-num-seqs", "--kv-cache-memory-bytes", "--enforce-eager", "--disable-uvicorn-access-log"}
    allowed |= {"--no-enable-chunked-prefill", "--max-num-batched-tokens"}
    allowed |= {"--max-model-len", "--tensor-parallel-size"}  # rows of the table: never in `extra`
    shared = options(tiny, cuda_devices=("0",), shares_gpus=True)
    assert shared["--enable-sleep-mode"] is True and "--enable-sleep-mode" not in options(tiny, cuda_devices=("0",))
    for flag in {*options(tiny), *options(tiny, sync="lora"), "--enable-sleep-mode"} - allowed:
        assert why_refused(flag.removeprefix("--")), flag


USAGE = "api_server.py: error: "


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (
            ["(EngineCore pid=7) ERROR 11-29 18:07:10 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried"],
            1,
            r"not enough memory \(torch\.OutOfMemoryError: CUDA out of memory\. Tried\); lower",
        ),
        (["ValueError: No available memory for the cache blocks. Try"], 1, r"lower vllm\.max_model_len"),
        (
            ["ValueError: Model architectures ['XForCausalLM'] are not supported for now."],
            1,
            r"cannot serve this model .*XForCausalLM.*policy\.model_name",
        ),
        (["KeyError: 'a'", "RuntimeError: Engine core initialization failed. See root cause above."], 1, "KeyError"),
        (["X: RuntimeError: no offset", "EngineDeadError: an issue. See stack trace (above) for"], 0, "no offset"),
        (["loading"], -9, r"was killed \(signal 9\); if nobody ended it, memory may have run out"),
        (
            ["(APIServer pid=3) WARNING 11-29 [u.py:2] Found ulimit: errors like `OSError: [Errno 24] Too many`"],
            0,
            r"^vLLM ended \(exit 0\)$",
        ),
        (
            ["(EngineCore pid=7) ERROR 11-29 [m.py:3] Worker proc VllmWorker-0 died unexpectedly (exit code: -9)"],
            0,
            r"^vLLM's worker proc VllmWorker-0 was killed \(signal 9\)",
        ),
        (["EngineDeadError: EngineCore encountered an issue. See stack trace (above)"], 0, "engine core died"),
        ([], -4, r"vLLM ended \(signal 4\)"),
    ],
)
def test_the_end_of_vllm_is_told_in_a_sentence_that_names_the_key(lines, code, said):
    import re

    text = explain(["INFO something", *lines, "  warnings.warn("], code)
    assert re.search(said, text) and "Traceback" not in text and "\n" not in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (USAGE + "unrecognized arguments: --foo-bar 3", r"knows no option --foo-bar; delete vllm\.foo_bar"),
        (USAGE + "unrecognized arguments: --no-foo-baz", r"delete vllm\.foo_baz"),
        (
            USAGE + "argument --max-num-seqs: invalid int value: 'x'",
            r"value of vllm\.max_num_seqs: invalid int value: 'x'; change or delete it",
        ),
        (USAGE + "argument --compilation-config/-cc: 1 validation error", r"vllm\.compilation_config"),
        (
            "KeyError: 'invalid tool call parser: foo (chose from { b,a })'",
            r"vllm\.tool_call_parser = 'foo' .* set it to one of a, b$",
        ),
    ],
)
def test_an_option_that_vllm_does_not_take_is_named_with_its_key(line, said):
    import re

    assert re.search(said, refused_option(["INFO something", line]) or "")
    assert refused_option(["RuntimeError: no offset"]) is None


@needs_vllm
def test_the_parsers_of_the_installed_vllm_are_read_from_its_source():
    known = vllm_parsers()
    assert known is not None and {*VLLM_PARSERS.values(), "mistral"} <= set(known)


def test_our_parsers_are_those_that_the_config_allows():
    assert tuple(_PARSERS) == OURS == tuple(VLLM_PARSERS)


def test_the_names_of_the_worker_module_are_those_on_the_command_line():
    """options.py cannot import worker.py, which imports vLLM."""
    from trainer.inference.vllm import options as module

    path, _, name = module.EXTENSION.rpartition(".")
    source = Path(module.__file__).with_name(path.rpartition(".")[2] + ".py").read_text()
    assert f"class {name}:" in source and f'BACKEND = "{module.BACKEND}"' in source


def test_at_a_port_every_call_is_guarded_and_at_a_socket_there_is_no_port(tiny):
    words = arguments(settings(tiny), "base", ("10.0.0.1", 4711))
    at = words.index("--host=10.0.0.1")
    assert words[at : at + 3] == ["--host=10.0.0.1", "--port=4711", f"--middleware={GUARD}"]
    assert not any(word.startswith("--uds") for word in words)
    assert not {"--host", "--port", "--middleware"} & options(tiny).keys()
