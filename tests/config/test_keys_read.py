"""Every key of the config is read by the code, or is in a short list of keys without effect by design."""

import ast
from functools import cache
from pathlib import Path

from trainer.config import all_keys
from trainer.config.keys import section_models

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


@cache
def reads() -> frozenset[str]:
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
    return frozenset(found & set(all_keys()))


def _knows_config(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainer.config")


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def test_every_key_is_read_or_without_effect_by_design() -> None:
    read = reads()
    assert len(read) > 50  # the search finds something
    assert [path for path in all_keys() if path not in read and path not in BY_DESIGN] == []


def test_nothing_is_excused_that_the_code_reads() -> None:
    assert reads() & set(BY_DESIGN) == set()
