"""The table of what is not built yet: each entry warns once, no default warns, and the table is the truth."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.config.texts import SDK_EXAMPLE
from trainer.config import all_keys, load, load_text
from trainer.config.keys import section_models
from trainer.config.machine import Machine
from trainer.config.pending import PENDING, _always

ROOT = Path(__file__).parents[2]

# What no code outside trainer.config reads, and rightly so.
BY_DESIGN = {
    "type": "has one value",
    "algorithm.type": "has one value",
    "algorithm.method": "algorithm.variety tells it",
    "training.max_turns": "repeats rollout.max_turns",
    "data.episodes_per_iteration": "documented as without effect",
    "smoke.sqld_hrana_port": "documented as without effect",
    "smoke.sqld_http_port": "documented as without effect",
    "training.gradient_accumulation_steps": "read by the batch arithmetic: derived.U",
    "training.max_accumulated_minibatch": "read by the batch arithmetic: derived.U",
    "vllm.max_parallel_generations": "vllm.max_num_seqs is derived from it",
    "vllm.tensor_parallel_size": "repeats compute.topology.tensor_parallel",
    "data.evaluation_episodes": "evaluation.instances is derived from it",
    "evaluation.rollouts_per_seed": "evaluation.instances is derived from it",
    "tags": "no section: trackers and the job server take the whole table",
    "judge.reward_blend": "read as the effective blend",
    "rollout.rubric_rewards_only": "read as the effective blend",
}

# entry -> settings that meet it, and no other entry
CASES: dict[str, list[str]] = {}


def pending(loaded) -> list[str]:
    return [item.key for item in loaded.warnings if item.code == "pending"]


def test_the_cases_cover_the_table() -> None:
    assert set(CASES) == {item.key for item in PENDING}


@pytest.mark.parametrize("key", CASES)
def test_each_entry_is_one_warning(small, key: str) -> None:
    loaded = small(*CASES[key])
    assert pending(loaded) == [key]
    [item] = [item for item in PENDING if item.key == key]
    [problem] = [found for found in loaded.warnings if found.code == "pending"]
    assert problem.level == "warning" and problem.why.startswith("not built yet: ") and problem.fix
    refused = [found.key for found in loaded.launch_problems() if found.code == "pending"]
    assert refused == ([key] if item.refuse else [])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_defaults_never_warn(small, device: str) -> None:
    assert pending(small(device=device)) == []
    given = [
        f"{key.path}={str(key.default).lower() if isinstance(key.default, bool) else repr(key.default)}"
        for key in all_keys().values()
        if key.default is not None and not isinstance(key.default, dict | list) and key.section != "evaluation"
    ]
    assert pending(small(*given, device=device)) == []


def test_a_value_that_repeats_what_is_derived_is_a_default(small) -> None:
    assert pending(small("training.max_lag=4", "smoke.env_name=e", "smoke.task_url=http://localhost:8001")) == []


@pytest.mark.parametrize("text", ["compute.topology.tensor_parallel=2", "vllm.tensor_parallel_size=2"])
@pytest.mark.parametrize(("gpus", "words"), [(0, 1), (4, 0)])
def test_replicas_of_several_gpus_draw_one_word_where_there_are_none(small, text: str, gpus: int, words: int) -> None:
    """Each of the two keys is the other's default, and still no default of itself."""
    assert len(small(text, device=None, machine=Machine(gpus)).warnings) == words


def test_judge_options_of_a_judge_that_is_off_have_their_own_warning(small) -> None:
    loaded = small("judge.options.model=x", "judge.options.event=true")
    assert "judge_off" in {item.code for item in loaded.warnings} and pending(loaded) == []


def test_the_sdk_example_meets_nothing_of_the_table_on_a_cpu() -> None:
    loaded = load_text(SDK_EXAMPLE, "my.toml", environ={}, device="cpu")
    assert pending(loaded) == []
    assert [item.code for item in loaded.launch_problems()] == ["template_host"]


@pytest.mark.parametrize("name", ["demo", "judge", "multi_turn", "rule_judge"])
def test_the_samples_for_a_cpu_can_be_launched(name: str) -> None:
    loaded = load(ROOT / "sample_configs" / f"{name}.toml", environ={}, device="cpu")
    assert pending(loaded) == [] and loaded.launch_problems() == []


# --- the table against the code


def reads() -> set[str]:
    """Keys that the code outside trainer.config reads, as `section.key`, in files that know the config."""
    sections = {path.rpartition(".")[2]: path for path in section_models()}
    found = set()
    for folder in ("trainer", "rltui"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.is_relative_to(ROOT / "trainer" / "config"):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if not any(_knows_config(node) for node in ast.walk(tree)):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and (owner := _last_name(node.value)) in sections:
                    found.add(f"{sections[owner]}.{node.attr}")
    return found & set(all_keys())


def _knows_config(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainer.config")


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def test_every_key_is_read_or_in_the_table_or_without_effect_by_design() -> None:
    read = reads()
    assert len(read) > 50  # the search finds something
    nowhere = [
        path
        for path in all_keys()
        if path not in read and path not in BY_DESIGN and not any(item.covers(path) for item in PENDING)
    ]
    assert nowhere == []


def test_nothing_is_excused_that_the_code_reads() -> None:
    read = reads()
    assert read & set(BY_DESIGN) == set()
    # An entry about any value of a key is wrong as soon as the key is read.
    assert [item.key for item in PENDING if item.when is _always and item.key in read and not item.refuse] == []


def test_each_key_has_one_entry_that_warns_of_it() -> None:
    warned = Counter(path for path in all_keys() for item in PENDING if item.warns_of(path))
    assert {path for path, times in warned.items() if times > 1} == set()


def test_how_long_the_table_is(capsys) -> None:
    """It is empty when the last issue of the plan ends."""
    with capsys.disabled():
        by_issue = Counter(item.issue for item in PENDING)
        print(f"\n{len(PENDING)} entries pending: " + ", ".join(f"{k} {n}" for k, n in sorted(by_issue.items())))
    assert len(PENDING) <= 1


def test_a_lag_without_any_sync_has_one_note(small) -> None:
    found = small("training.max_lag=2", "training.weight_sync.enable=false").warnings
    assert [item.code for item in found if item.key == "training.max_lag"] == ["max_lag"]
