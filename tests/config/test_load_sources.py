"""Layers over one another, job bodies, sections, and input of every odd kind."""

import tomllib
from typing import Any

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, load, load_mapping, load_text

# --- what is beaten


def beaten(loaded) -> dict[str, str]:
    return {item.key: item.why for item in loaded.warnings if item.code == "beaten"}


def test_one_note_a_key_with_all_values_and_places(small) -> None:
    loaded = small(
        "training.seed=4",
        text=SMALL + "seed = 1\n",
        environ={"RLTUI__TRAINING__SEED": "2"},
        overrides={"training.seed": 3},
    )
    assert loaded.config.training.seed == 4
    [note] = [item for item in loaded.warnings if item.code == "beaten"]
    assert (note.line, note.key, note.value) == (22, "training.seed", "1")
    assert note.why == ("beaten by --set: 4; so is 2 from env RLTUI__TRAINING__SEED, 3 from override training.seed")


def test_equal_values_are_not_beaten(small) -> None:
    assert small("training.seed=1", text=SMALL + "seed = 1\n").warnings == []


def test_inside_tables_the_key_is_named(small) -> None:
    text = SMALL + "[rollout.env_config]\nlevel = 1\ndeep = { a = 1, b = 2 }\n"
    loaded = small("rollout.env_config.level=2", "rollout.env_config.deep.a=9", text=text)
    assert loaded.config.rollout.env_config == {"level": 2, "deep": {"a": 9, "b": 2}}
    assert set(beaten(loaded)) == {"rollout.env_config.level", "rollout.env_config.deep.a"}


def test_an_old_spelling_in_a_strong_layer_beats_a_new_one_in_a_weak(small) -> None:
    loaded = small("lora.r=4", text=SMALL + "[training.lora]\nr = 8\n")
    assert loaded.config.training.lora.r == 4
    assert beaten(loaded) == {"training.lora.r": "beaten by --set: 4"}


def test_a_model_override_clears_the_source_and_says_so(small) -> None:
    text = SMALL.replace('model_name = "builtin:tiny"', 'source = "ft:job"')
    loaded = small(text=text, overrides={"model": "org/name"})
    assert (loaded.config.policy.model_name, loaded.config.policy.source) == ("org/name", None)
    assert beaten(loaded) == {"policy.source": "beaten by override model: unset"}


@pytest.mark.parametrize(
    ("was", "given"),
    [("policy.model_name", "policy.source"), ("policy.source", "policy.model_name")],
)
def test_start_weights_that_are_set_replace_those_of_weaker_sources(small, was: str, given: str) -> None:
    line, blank = 'model_name = "builtin:tiny"\n', SMALL.replace('model_name = "builtin:tiny"\n', "")
    in_file = {"text": SMALL.replace(line, f'{was.partition(".")[2]} = "old"\n')}
    in_variable = {"text": blank, "environ": {f"RLTUI__{was.upper().replace('.', '__')}": "old"}}
    for weaker in (in_file, in_variable, {"text": blank, "overrides": {was: "old"}}):
        loaded = small(f"{given}=new", **weaker)
        assert loaded.values["policy"].items() >= {was.partition(".")[2]: None, given.partition(".")[2]: "new"}.items()
        assert beaten(loaded) == {was: "beaten by --set: unset"}
    assert small("model.source=new").config.policy.model_name is None


@pytest.mark.parametrize("prefix", ["ft:", "fft:", "qft:", "rl:"])
def test_a_model_override_with_a_prefix_is_a_source(small, prefix: str) -> None:
    assert small(overrides={"model": f"{prefix}x"}).config.policy.source == f"{prefix}x"


def test_several_sets_below_one_table_add_up(small) -> None:
    loaded = small("rollout.env_config.a=1", "rollout.env_config.b=2", "tags.x=1", "tags.y=2")
    assert loaded.config.rollout.env_config == {"a": 1, "b": 2} and loaded.config.tags == {"x": 1, "y": 2}
    overrides = {"rollout.env_config.a": 1, "rollout": {"env_config": {"b": 2}}}
    assert small(overrides=overrides).config.rollout.env_config == {"a": 1, "b": 2}
    environ = {"RLTUI__ROLLOUT__ENV_CONFIG__A": "1", "RLTUI__ROLLOUT__ENV_CONFIG__B": "2"}
    assert small(environ=environ).config.rollout.env_config == {"a": 1, "b": 2}


def test_lists_are_replaced_and_not_merged(small) -> None:
    text = SMALL + "[training.lora]\ntarget_modules = ['a', 'b']\n"
    assert small("training.lora.target_modules=['c']", text=text).config.training.lora.target_modules == ["c"]


def test_a_variable_that_is_no_toml_is_an_error_with_its_name(errors) -> None:
    [problem] = errors(environ={"RLTUI__EVALUATION__SEEDS": "[1"})
    assert problem.file == "env RLTUI__EVALUATION__SEEDS" and problem.key == "evaluation.seeds" and problem.fix


# --- sections


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        ("[compute]\n", ["compute.gpu_type", "compute.gpu_count"]),
        ("[compute]\ngpu_count = 1\n", ["compute.gpu_type"]),
        ("[compute]\nlauncher = 'local'\ngpu_type = 'H100'\n", ["compute.gpu_count"]),
        ("[evaluation]\n", ["evaluation.instances", "evaluation.every_n_iters", "evaluation.seeds"]),
        ("[evaluation]\nrollouts_per_seed = 2\nseeds = [1]\n", ["evaluation.every_n_iters"]),
    ],
)
def test_a_section_that_is_there_must_have_its_required_keys(errors, table: str, missing: list[str]) -> None:
    [problem] = errors(text=SMALL + table)
    assert problem.code == "missing" and problem.why.endswith(f"missing: {', '.join(missing)}")
    block = tomllib.loads("\n".join(problem.fix.splitlines()[1:]))
    assert [f"{section}.{key}" for section, keys in block.items() for key in keys] == missing


@pytest.mark.parametrize(
    "table",
    ["[compute.topology]\ntype = 'cpu'\n", "[compute]\ngpu_type = 'H100:1'\n", "[topology]\ngpu_type = 'H100:2'\n"],
)
def test_what_makes_no_compute_section_or_a_whole_one(small, table: str) -> None:
    small(text=SMALL + table)


def test_a_count_by_set_needs_no_section(small) -> None:
    assert small("compute.gpu_count=0").config.compute.gpu_count == 0


def test_everything_missing_is_one_error(errors) -> None:
    [problem] = errors(text="")
    assert "16 required keys are missing" in problem.why
    block = tomllib.loads("\n".join(problem.fix.splitlines()[1:]))
    loaded = load_mapping(block, environ={}, device="cpu")
    assert loaded.config.policy.label


# --- job bodies


def body(**sections: Any) -> dict[str, Any]:
    return tomllib.loads(SMALL) | sections


@pytest.mark.parametrize(
    "sections",
    [
        {"compute": {"topology": {"reference_placement": "none"}}, "topology": {"reference_placement": "shared"}},
        {"compute": {"topology": {"reference_placement": "none"}}, "reference": {"placement": "shared"}},
        {"reference": {"placement": "none"}, "topology": {"reference_placement": "shared"}},
        {"reference": {"placement": "none"}, "compute": {"topology": {"reference_placement": "shared"}}},
        {
            "compute": {"topology": {"reference_placement": "none"}},
            "reference": {"placement": "none"},
            "topology": {"reference_placement": "shared"},
        },
    ],
)
def test_a_placement_that_the_builder_injects_gives_way(sections: dict[str, Any]) -> None:
    loaded = load_mapping(body(**sections), environ={}, device="cpu")
    assert loaded.config.compute.topology.reference_placement == "shared"


@pytest.mark.parametrize(
    "sections",
    [
        {
            "compute": {"topology": {"reference_placement": "none", "tensor_parallel": 1}},
            "topology": {"reference_placement": "shared"},
        },
        {"reference": {"placement": "none", "port": 1}, "topology": {"reference_placement": "shared"}},
    ],
)
def test_one_that_stands_beside_others_was_meant(sections: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="means the same key"):
        load_mapping(body(**sections), environ={}, device="cpu")


def test_a_file_has_no_such_exception(errors) -> None:
    text = SMALL + "[reference]\nplacement = 'none'\n[topology]\nreference_placement = 'shared'\n"
    assert errors(text=text)[0].code == "migration_conflict"


def test_an_injected_placement_alone_stays() -> None:
    loaded = load_mapping(body(reference={"placement": "none"}), environ={}, device="cpu")
    assert loaded.config.compute.topology.reference_placement == "none"


def test_null_in_a_body_is_unset_and_pointers_are_escaped() -> None:
    data = body(tags={"a/b": {"x": 1}})
    data["training"]["max_turns"] = None
    with pytest.raises(ConfigError) as caught:
        load_mapping(data, environ={})
    assert [item.file for item in caught.value.problems] == ["body#/tags/a~1b"]


# --- odd input


def problems(text: str, **options: Any) -> list:
    with pytest.raises(ConfigError) as caught:
        load_text(text, "my.toml", environ={}, device="cpu", **options)
    return caught.value.problems


@pytest.mark.parametrize(
    ("line", "key", "fix"),
    [
        ('max_turns = "one"', "rollout.max_turns", "max_turns = 1"),
        ('max_turns = "12"', "rollout.max_turns", "max_turns = 12"),
        ("max_turns = 2.0", "rollout.max_turns", "max_turns = 2"),
        ("max_turns = true", "rollout.max_turns", "max_turns = 10"),
        ("max_turns = { a = 1 }", "rollout.max_turns", "max_turns = 10"),
        ("max_turns.x = 1", "rollout.max_turns", "max_turns = 10"),
        ("max_turns = 1979-05-27", "rollout.max_turns", "max_turns = 10"),
        (f"max_turns = {2**63}", "rollout.max_turns", "max_turns = 10"),
        ("max_turns = 2\nmax_retries = 50", "rollout.max_retries", "max_retries = 10"),
        ('max_turns = 2\nuse_vision = "yes"', "rollout.use_vision", "use_vision = true"),
        ("max_turns = 2\nuse_vision = 1", "rollout.use_vision", "use_vision = true"),
        ('max_turns = 2\nops = "agent"', "rollout.ops", 'ops = ["agent"]'),
        ("max_turns = 2\ntimeout_s = nan", "rollout.timeout_s", "timeout_s = 600.0"),
        ("max_turns = 2\ntimeout_s = -inf", "rollout.timeout_s", "timeout_s = 600.0"),
        ("max_turns = 2\nthinking_mode = 3", "rollout.thinking_mode", 'thinking_mode = "3"'),
        ('max_turns = 2\non_done = "Reset"', "rollout.on_done", 'on_done = "reset"'),
    ],
)
def test_fixes_of_wrong_types_say_what_was_meant(line: str, key: str, fix: str) -> None:
    [problem] = problems(SMALL.replace("max_turns = 2", line))
    assert (problem.key, problem.code, problem.fix) == (key, "type", fix)


def test_the_item_of_a_list_and_the_key_of_a_table_are_named() -> None:
    text = (
        SMALL
        + "step_rewards_weights = { ok = 1, bad = 'x' }\n"
        + "[evaluation]\ninstances = 1\nevery_n_iters = 1\nseeds = [1, -2]\n"
    )
    table, seeds = problems(text)
    assert table.why == "the value of bad in it does not fit"
    assert (seeds.why, seeds.fix) == ("item 2, -2, does not fit", "seeds = [1]")


def test_int_is_accepted_for_float() -> None:
    loaded = load_text(SMALL.replace("1e-5", "1"), "my.toml", environ={}, device="cpu")
    assert loaded.config.training.learning_rate == 1.0


def test_numbers_of_thousands_of_digits_are_a_syntax_error() -> None:
    [problem] = problems(SMALL.replace("max_turns = 2", f"max_turns = {'9' * 6000}"))
    assert problem.code == "syntax"
    [problem] = problems(SMALL, sets=[f"training.seed={'9' * 6000}"])
    assert problem.key == "training.seed" or problem.file == "--set"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[training]\nseed = 1\nseed = 2\n", "my.toml:3:1"),
        ("training = 1\n[training]\nseed = 1\n", "my.toml:2:1"),
        ("a = [1,\n", "my.toml:1:5"),
    ],
)
def test_a_key_given_twice_or_as_value_and_table(text: str, place: str) -> None:
    [problem] = problems(text)
    assert problem.code == "syntax" and str(problem.place) == place and problem.fix


@pytest.mark.parametrize("depth", [200, 5000])
def test_deep_nesting_is_an_answer_and_no_crash(depth: int) -> None:
    for text in ("x = " + "[" * depth + "]" * depth, "x = " + "{a = " * depth + "1" + "}" * depth):
        assert problems(SMALL + text)
    dotted = ".".join("a" * depth) + " = 1"
    assert problems(SMALL + dotted)
    deep: Any = 1
    for _ in range(depth):
        deep = {"a": deep}
    with pytest.raises(ConfigError):
        load_mapping(body(rollout={"env_config": deep}), environ={})


def test_files_of_every_odd_kind(tmp_path) -> None:
    cases = {
        "directory": None,
        "empty.toml": b"",
        "bom.toml": b"\xef\xbb\xbf" + SMALL.encode(),
        "crlf.toml": SMALL.replace("\n", "\r\n").encode(),
        "binary.toml": bytes(range(256)),
        "nul.toml": b"a = 1\0",
        "huge.toml": b"#" * 17_000_000,
        "many.toml": SMALL.encode() + b"[tags]\n" + b"".join(b"k%d = %d\n" % (i, i) for i in range(20_000)),
    }
    codes = {}
    for name, content in cases.items():
        path = tmp_path / name
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        try:
            load(path, environ={}, device="cpu")
            codes[name] = "loads"
        except ConfigError as error:
            codes[name] = error.problems[0].code
    assert codes == {
        "directory": "file",
        "empty.toml": "missing",
        "bom.toml": "loads",
        "crlf.toml": "loads",
        "binary.toml": "encoding",
        "nul.toml": "syntax",
        "huge.toml": "file",
        "many.toml": "loads",
    }
    with pytest.raises(ConfigError, match="cannot be read"):
        load("a\0b", environ={})


def test_enormous_counts_are_answered_at_once() -> None:
    big = 2**62 + 1
    [problem] = problems(SMALL.replace("episodes_per_batch = 32", f"episodes_per_batch = {big}"))
    assert problem.code == "batch_arithmetic" and problem.fix
    text = SMALL + f"[evaluation]\ninstances = 1\nevery_n_iters = 1\nseeds = [{', '.join(['1'] * 50_000)}]\n"
    assert load_text(text, "my.toml", environ={}, device="cpu").warnings


# --- what stops a launch


@pytest.mark.parametrize(
    ("sets", "code", "key"),
    [
        (["services.task_url=https://YOUR-tunnel.example"], "template_host", "services.task_url"),
        (["policy.trainer_mode=qlora"], "qlora", "policy.trainer_mode"),
        (["inference.engine=vllm"], "engine", "inference.engine"),
        (["vllm.tool_call_parser=foo"], "tool_parser", "vllm.tool_call_parser"),
        (["judge.enabled=true"], "judge_key", "judge.options.api_key_env"),
        (["judge.enabled=true", "judge.options.provider=groq"], "judge_key", "judge.options.api_key_env"),
        (["judge.enabled=true", "services.judge_url=https://judge.example"], "judge_key", "services.judge_url"),
    ],
)
def test_launch_problems_are_no_errors_of_the_file(small, monkeypatch, sets: list[str], code: str, key: str) -> None:
    from trainer.config import launch
    from trainer.config.launch import launch_problems

    monkeypatch.setattr(launch, "find_spec", lambda name: None)  # as where the package is not installed
    [problem] = launch_problems(small(*sets)._facts)
    assert (problem.code, problem.key, problem.level) == (code, key, "error") and problem.fix
    assert key in {item.key for item in small(*sets).launch_problems()}


def test_a_tool_parser_is_one_of_the_engine_that_serves(small, monkeypatch) -> None:
    from trainer.config import launch
    from trainer.config.launch import launch_problems

    monkeypatch.setattr(launch, "find_spec", lambda name: name)
    monkeypatch.setattr(launch, "vllm_parsers", lambda: ["mistral", "xlam"])
    vllm = ["inference.engine=vllm"]
    [problem] = launch_problems(small(*vllm, "vllm.tool_call_parser=foo")._facts)
    assert str(problem).startswith('--set: vllm.tool_call_parser = "foo"')
    assert problem.allowed == "hermes, llama-json or qwen; of the installed vLLM: mistral, xlam"
    fine = [[*vllm, "vllm.tool_call_parser=xlam"], [*vllm, "vllm.tool_call_parser=qwen"]]
    fine += [[*vllm, "vllm.tool_call_parser=foo", "vllm.tool_parser_plugin=/p.py"]]
    fine += [["inference.url=http://localhost:1", "vllm.tool_call_parser=foo"]]
    assert [launch_problems(small(*sets)._facts) for sets in fine] == [[]] * 4
    [problem] = launch_problems(small("vllm.tool_call_parser=xlam")._facts)  # the local engine reads three formats
    assert problem.allowed == "hermes, llama-json or qwen"


def test_a_judges_key_is_not_asked_for_where_it_is_set_or_not_needed(small) -> None:
    from trainer.config.launch import launch_problems

    judge = ["judge.enabled=true"]
    for sets, environ in (
        (judge, {"OPENAI_API_KEY": "x"}),
        ([*judge, "judge.type=rule"], {}),
        ([*judge, "judge.options.base_url=http://localhost:1", "judge.options.model=m"], {}),
        ([*judge, "rollout.task_app_origin_rewards_only=true"], {}),
        ([], {}),
    ):
        assert launch_problems(small(*sets, environ=environ)._facts) == []


def test_the_file_of_variables_is_not_named_by_a_variable(small) -> None:
    [problem] = [item for item in small(environ={"RLTUI__ENV_FILE_PATH": "x.env"}).warnings if item.key]
    assert problem.key == "env_file_path" and "--set env_file_path=PATH" in problem.fix


def test_an_override_unsets_a_section(small) -> None:
    text = f"{SMALL}[evaluation]\nevery_n_iters = 1\ninstances = 1\nseeds = [99]\n"
    environ = {"RLTUI__EVALUATION__INSTANCES": "2"}
    loaded = small(text=text, environ=environ, overrides={"evaluation": None})
    assert loaded.config.evaluation is None and small(text=text, environ=environ).config.evaluation is not None


def test_what_is_no_config_or_no_key(errors) -> None:
    with pytest.raises(ConfigError, match="not a config"):
        load_mapping([1], environ={})
    [problem] = errors(overrides={3: 4})
    assert (problem.key, problem.code) == ("3", "unknown_key")
