"""`config migrate`: every old spelling becomes the new one in place, and the file says the same as before."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.config.texts import SDK_EXAMPLE, SMALL
from trainer.config import ConfigError, Loaded, load_text
from trainer.config.migrations import MOVES, VALUE_SPELLINGS, Move
from trainer.config.rewrite import Rewritten, rewrite
from trainer.config.toml_values import format_value

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.toml"))
OLD_CODES = {"migrated", "old_value"}

# A value that fits where the new key's own default does not do.
VALUES: dict[str, Any] = {
    "topology.type": "single_node_split",
    "topology.gpu_type": "H100:4",
    "model.dtype": "float32",
    "rollout.ops_per_rollout": 20,
    "rubric.event": True,
    "rubric.outcome": True,
    "rubric.weights": {"event": 0.5, "outcome": 0.5},
    "rubric.reward_blend": {"env": 0.5, "outcome": 0.5},
    "rubric.event.criteria": [{"key": "a", "weight": 1.0}],
    "rubric.outcome.criteria": [{"key": "a", "weight": 1.0}],
    "judge.rubric.reward_blend": {"env": 0.5, "outcome": 0.5},
    "checkpoint.enabled": False,
    "policy.config": {"max_tokens": 5},
    "training.step_rewards_mode": "env_sparse",
    "training.event_rewards_kind": "unique",
}
# What must be taken out of, or added to, the small config for an old key to be the one that counts.
BASES: dict[str, str] = {
    "policy.model_name": 'model_name = "builtin:tiny"\n',
    "policy.trainer_mode": 'trainer_mode = "lora"\n',
    "policy.label": 'label = "small"\n',
    "policy.source": 'model_name = "builtin:tiny"\n',
    "rollout.max_turns": "max_turns = 2\n",
    "training.batch_size": "batch_size = 16\n",
    "training.group_size": "group_size = 4\n",
    "training.learning_rate": "learning_rate = 1e-5\n",
    "services.task_url": 'task_url = "http://localhost:8001"\n',
}


def loaded(text: str) -> Loaded | list[tuple[str, str]]:
    """The config; of one that is wrong, what is wrong."""
    try:
        return load_text(text, "my.toml", environ={}, device="cpu", allow_unknown=True)
    except ConfigError as error:
        return sorted((problem.key, problem.code) for problem in error.problems)


def check(text: str) -> Rewritten:
    """The rewritten text loads to the same values, and a second run has nothing to do."""
    result = rewrite(text, "my.toml")
    before, after = loaded(text), loaded(result.text.removeprefix("\ufeff"))
    if isinstance(before, Loaded):
        assert isinstance(after, Loaded), after
        assert after.values == before.values and after.config_hash == before.config_hash
        assert result.text == text or result.moved
    else:
        assert not isinstance(after, Loaded) and {code for _, code in after} == {code for _, code in before}
    again = rewrite(result.text, "my.toml")
    assert again.text == result.text and not again.moved
    assert not comments(text) - comments(result.text)
    return result


def comments(text: str) -> Counter[str]:
    """Those that hold no quotes, which are those that are surely none of a string."""
    return Counter(comment.strip() for comment in re.findall(r"#[^\"'\r\n]*$", text, re.MULTILINE))


def codes(text: str) -> set[str]:
    config = loaded(text)
    assert isinstance(config, Loaded), config
    return {problem.code for problem in config.warnings}


def value_of(move: Move) -> Any:
    if move.old in VALUES:
        return VALUES[move.old]
    from trainer.config import all_keys

    known = all_keys()[move.new]
    default = known.meta.get("example", known.default)
    if default is not None:
        return default
    return {bool: True, int: 4, float: 0.5, str: "x", list: ["x"], dict: {}}[known.types[0]]


def with_old_key(move: Move) -> str:
    """A small config in which the old key is given, with comments around it and an unknown key beside it."""
    text = SMALL
    for line in (BASES.get(move.new, ""), BASES.get("policy.model_name", "") if move.new == "policy.source" else ""):
        text = text.replace(line, "")
    section, _, name = move.old.rpartition(".")
    lines = f"# about it\n{name} = {format_value(value_of(move))}  # beside it\n"
    if not section:
        return f"# the file\n\n{lines}\n{text}"
    header = f"[{section}]\n"
    if header in text:
        return text.replace(header, f"{header}# of the section\nunknown_key = 1_0\n\n{lines}")
    return f"{text}\n# of the section\n{header}unknown_key = 1_0\n\n{lines}"


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.old)
def test_every_old_key(move: Move) -> None:
    text = with_old_key(move)
    if move.old == "hyperparams.kl_penalty":
        text += '[compute.topology]\nreference_placement = "shared"\n'
    result = check(text)
    assert (move.old, move.new) in [(old, new.partition(" and ")[0]) for old, new in result.moved]
    assert not result.left
    data = tomllib.loads(result.text)
    *tables, name = move.old.split(".")
    for table in tables:
        data = data.get(table, {})
    assert name not in data
    if isinstance(loaded(text), Loaded):
        assert not codes(result.text) & OLD_CODES
    assert "# beside it" in result.text and result.text.count("= 1_0\n") == text.count("= 1_0\n")


@pytest.mark.parametrize(
    ("key", "old"), [(key, old) for key, spellings in VALUE_SPELLINGS.items() for old in spellings]
)
def test_every_old_value(key: str, old: str) -> None:
    section, _, name = key.rpartition(".")
    text = SMALL.replace('method = "policy_gradient"\n', "") if key == "algorithm.method" else SMALL
    line = f"{name} = {format_value(old)}  # beside it\n"
    header = f"[{section}]\n"
    text = text.replace(header, header + line) if header in text else text + header + line
    result = check(text)
    assert result.moved and "# beside it" in result.text
    if isinstance(loaded(text), Loaded):
        assert not codes(result.text) & OLD_CODES


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_samples(path: Path) -> None:
    text = path.read_bytes().decode()
    result = check(text)
    assert not codes(result.text) & OLD_CODES
    crlf = rewrite(text.replace("\n", "\r\n"), "my.toml").text
    assert crlf == result.text.replace("\n", "\r\n")
    assert rewrite("\ufeff" + text, "my.toml").text == "\ufeff" + result.text


def test_the_sdk_example_keeps_its_order() -> None:
    result = check(SDK_EXAMPLE)
    assert len(result.moved) == 7
    renamed = SDK_EXAMPLE.replace("[topology]", "[compute.topology]").replace("[model]", "[policy]")
    renamed = renamed.replace('\nbase = "Qwen/Qwen3-4B"        #', '\nmodel_name = "Qwen/Qwen3-4B"  #')
    assert result.text == renamed


def test_lines_move_with_their_comments() -> None:
    text = SMALL + "# sync pace\n\n# dense rewards\nstep_rewards_enabled = true # on\nstep_rewards_beta = 5e-1\n"
    result = check(text)
    moved = "# dense rewards\nstep_rewards_enabled = true # on\nstep_rewards_beta = 5e-1\n"
    assert result.text == f"{SMALL}# sync pace\n\n[training.rewards]\n{moved}"


def test_a_section_that_cannot_go_as_a_whole_keeps_what_stays() -> None:
    text = SMALL + "\n[topology]\ntype = 'cpu' # T\nuse_rdma = true\n# mine\nodd_key = 1\n"
    result = check(text)
    assert "[topology]\nuse_rdma = true\n# mine\nodd_key = 1\n" in result.text
    assert "[compute.topology]\ntype = 'cpu' # T\n" in result.text


def test_a_conflict_is_left_as_it_is() -> None:
    text = SMALL + "\n[lora]\nr = 8\nalpha = 32\n[training.lora]\nr = 16\n"
    result = check(text)
    [problem] = result.left
    assert (problem.key, problem.code, problem.line) == ("lora.r", "migration_conflict", 24)
    assert tomllib.loads(result.text)["lora"] == {"r": 8}
    assert tomllib.loads(result.text)["training"]["lora"] == {"r": 16, "alpha": 32}


def test_two_old_spellings_in_conflict_are_both_left() -> None:
    text = SMALL + "max_completion_tokens = 5\n"
    text = text.replace("[rollout]\n", "[rollout]\nmax_tokens = 6\n")
    result = check(text)
    assert result.text == text and not result.moved
    assert {problem.key for problem in result.left} == {"training.max_completion_tokens", "rollout.max_tokens"}


def test_an_equal_old_line_goes() -> None:
    text = SMALL + "[lora]\nr = 8\n[training.lora]\nr = 8 # this one\n"
    assert check(text).text == SMALL + "[training.lora]\nr = 8 # this one\n"


def test_a_weak_old_key_that_lost_is_dropped_and_named() -> None:
    text = SMALL.replace("[rollout]", "[rollout]\nmax_concurrent_rollouts = 9") + "async_semaphore_max = 3\n"
    result = check(text)
    assert result.text == text.replace("async_semaphore_max = 3\n", "")
    assert [(item.key, item.level) for item in result.left] == [("training.async_semaphore_max", "note")]


def test_one_old_key_for_two_new_ones_fills_what_is_left() -> None:
    text = SMALL + "clip_eps_low = 1e-1\n[hyperparams]\nclip_epsilon = 3e-1 # both\n"
    assert check(text).text == SMALL + "clip_eps_low = 1e-1\nclip_eps_high = 3e-1 # both\n"
    text = SMALL + "[hyperparams]\nclip_epsilon = 3e-1 # both\n"
    assert check(text).text == SMALL + "clip_eps_low = 3e-1 # both\nclip_eps_high = 3e-1\n"


def test_a_gpu_type_without_a_count_stays_since_compute_needs_both() -> None:
    text = SMALL + '[topology]\ngpu_type = "H100"\n'
    result = check(text)
    assert result.text == text and [item.key for item in result.left] == ["topology.gpu_type"]
    assert 'gpu_type = "H100"\ngpu_count = 4\n' in check(text.replace("H100", "H100:4")).text
    assert check(SMALL + '[compute]\ngpu_type = "H100:4" # eight\n').text == (
        SMALL + '[compute]\ngpu_type = "H100" # eight\ngpu_count = 4\n'
    )


def test_zero_beta_is_written_out() -> None:
    text = SMALL + '[training.rewards]\nstep_rewards_mode = "decision_stepwise"\nstep_rewards_beta = 0.0 # no bonus\n'
    result = check(text)
    assert "step_rewards_beta = 1.0 # no bonus\n" in result.text
    assert result.moved == [("training.rewards.step_rewards_beta = 0.0", "training.rewards.step_rewards_beta = 1.0")]


def test_per_achievement_with_gspo_becomes_gspo_token() -> None:
    text = SMALL + 'step_rewards_strategy = "per_achievement"\n'
    result = check(text)
    assert 'variety = "gspo_token"' in result.text and 'step_rewards_strategy = "per_turn"' in result.text


def test_the_default_blend_of_an_old_rubric_is_written_out() -> None:
    result = check(SMALL + "[rubric]\nenabled = true\n")
    assert tomllib.loads(result.text)["judge"] == {"enabled": True, "reward_blend": {"env": 1.0}}


def test_criteria_keep_their_lines() -> None:
    criteria = 'criteria = [\n  { key = "a", weight = 0.50 }, # first\n  { key = "b", weight = 5e-1 },\n]\n'
    text = SMALL + f"[rubric]\nenabled = true\n# events\n[rubric.event]\n{criteria}"
    result = check(text)
    assert f"# events\n[judge.options.rubric_overrides.event]\n{criteria.replace('key', 'id')}" in result.text


def test_inline_tables_and_dotted_keys_are_no_hindrance() -> None:
    small = SMALL.replace('[policy]\nmodel_name = "builtin:tiny"\ntrainer_mode = "lora"\nlabel = "small"\n', "")
    top = 'model = { base = "builtin:tiny", trainer_mode = "lora", label = "small" } # my model\nlora.r = 0x8 # rank\n'
    result = check(top + small)
    data = tomllib.loads(result.text)
    assert "model" not in data and "lora" not in data
    assert data["policy"] == {"model_name": "builtin:tiny", "trainer_mode": "lora", "label": "small"}
    assert "# my model" in result.text and "r = 0x8 # rank\n" in result.text


def test_a_section_is_not_renamed_into_an_inline_table() -> None:
    text = "compute = { gpu_type = 'H100', gpu_count = 1 }\n" + SMALL + "[topology]\ntype = 'cpu'\n"
    assert tomllib.loads(check(text).text)["compute"]["topology"] == {"type": "cpu"}


def test_tables_with_headers_move_as_tables() -> None:
    text = SMALL + "# the app's\n[policy.config] # free\nx = 5e-5\n[policy.config.deep]\ny = [ 1 ]\n"
    assert check(text).text == text.replace("[policy.config", "[rollout.policy_config")


def test_no_comment_is_lost_where_both_spellings_say_the_same() -> None:
    both = "# above\nops = [ # inside\n  'agent' ] # beside\n"
    text = SMALL.replace("[training]\n", f"[training]\n{both}").replace("[rollout]\n", "[rollout]\nops = ['agent']\n")
    assert "# inside\n# beside\n" in check(text).text


def test_no_comment_is_lost_where_a_key_goes_into_an_inline_table() -> None:
    policy = "policy = { model_name = 'builtin:tiny', trainer_mode = 'lora' } # beside policy\n"
    small = re.sub(r"\[policy\]\n(?:\w.*\n)*", "", SMALL)
    text = f"# about policy\n{policy}\n{small}\n[model]\n# about label\nlabel = 'x' # beside label\n"
    assert f"# about policy\n# about label\n# beside label\n{policy[:8]}" in check(text).text


def test_comments_keep_their_column() -> None:
    moved = "[hyperparams]\nepsilon_low = 0.1     # low\nepsilon_high = 0.25   # high\n"
    new = check(SMALL + moved).text
    assert "clip_eps_low = 0.1    # low\n" in new
    assert "clip_eps_high = 0.25  # high\n" in new
    assert (
        "[training.lora] # it\nr = 8           # r\n"
        in check(f"{SMALL}[lora]          # it\nr = 8           # r\n").text
    )


def test_a_secret_is_not_told() -> None:
    secret = "sk-proj-abcdefghijklmnop1234567890"
    result = rewrite(f"{SMALL}seed = 1\n[hyperparameters]\nseed = '{secret}'\nn_samples = '{secret}'\n", "my.toml")
    assert result.moved or result.left
    assert secret not in f"{result.moved}{result.left}"


def test_no_toml_is_a_config_error_with_the_place() -> None:
    with pytest.raises(ConfigError) as caught:
        rewrite("a = 1\nb = \n", "my.toml")
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.code) == ("my.toml", 2, "syntax")


def test_a_file_with_nothing_old_is_returned_to_the_byte() -> None:
    for text in ("", "# x", "\ufeff[zz]\r\na=1", SMALL):
        assert rewrite(text, "my.toml") == Rewritten(text, [], [])


olds = st.lists(st.sampled_from(MOVES), min_size=1, max_size=6, unique_by=lambda move: move.old)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(olds, st.data())
def test_any_old_keys_together(moves: list[Move], data: st.DataObject) -> None:
    """Old keys with right and wrong values, beside new ones: conflicts, gaps and overlaps of every kind."""
    document: dict[str, Any] = tomllib.loads(SMALL)
    for move in moves:
        for key in (move.old, move.new) if data.draw(st.booleans()) else (move.old,):
            value = data.draw(st.sampled_from([value_of(move), value_of(move), 3, True, "stacked", "none", {}, [1]]))
            *tables, name = key.split(".")
            table = document
            for part in tables:
                table = table.setdefault(part, {}) if isinstance(table, dict) else None
            if isinstance(table, dict):
                table[name] = value
    check(written(document, inline=data.draw(st.booleans())))


def written(document: dict[str, Any], inline: bool) -> str:
    lines, tables = [], []
    for name, value in document.items():
        (tables if isinstance(value, dict) else lines).append((name, value))
    text = "".join(f"{name} = {format_value(value)} # {name}\n" for name, value in lines)
    for name, value in tables:
        text += f"\n# {name}\n" + section(name, value, inline)
    return text


def section(path: str, table: dict[str, Any], inline: bool) -> str:
    text = f"[{path}]\n"
    deeper = {name: value for name, value in table.items() if isinstance(value, dict) and value and not inline}
    for name, value in table.items():
        if name not in deeper:
            text += f"{name} = {format_value(value)} # {name}\n"
    return text + "".join(section(f"{path}.{name}", value, inline) for name, value in deeper.items())
