"""Keys that nobody knows: what was meant is found, and nothing unrelated is suggested."""

import random
import string

import pytest

from trainer.config import all_keys
from trainer.config.migrations import MOVES
from trainer.config.unknown import distance, nearest_key, nearest_keys, nearest_section

CHECKED = [key for key in all_keys() if key != "tags" and not key.startswith("vllm.")]
KNOWN = {*all_keys(), *(move.old for move in MOVES)}


def mutations(name: str, rng: random.Random) -> set[str]:
    """One letter dropped, swapped with the next, doubled, or replaced; every place is tried."""
    found = set()
    for i in range(len(name)):
        found |= {name[:i] + name[i + 1 :], name[:i] + name[i] + name[i:]}
        found.add(name[:i] + rng.choice(string.ascii_lowercase) + name[i + 1 :])
        if i + 1 < len(name):
            found.add(name[:i] + name[i + 1] + name[i] + name[i + 2 :])
    return found - {"", name}


def test_one_wrong_letter_finds_the_key() -> None:
    rng = random.Random(0)
    missed, total = [], 0
    for key in CHECKED:
        section, _, name = key.rpartition(".")
        for wrong in sorted(mutations(name, rng)):
            path = f"{section}.{wrong}".lstrip(".")
            if path in KNOWN or rng.random() > 0.4:
                continue
            total += 1
            if (found := nearest_keys(path))[:1] != (key,):
                missed.append((path, key, found))
    print(f"{total - len(missed)} of {total} found; not: {missed}")
    assert total > 1500 and 1 - len(missed) / total >= 0.99
    # what is missed is as near to another key of the section, and the key is among the suggestions
    assert all(key in found for _, key, found in missed)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("training.env_name", ("rollout.env_name",)),
        ("log_interval", ("training.log_interval",)),
        ("rollout.group_size", ("training.group_size",)),
        ("rollout.temperature", ("policy.temperature", "evaluation.temperature")),
        ("timeout_s", ("rollout.timeout_s", "judge.timeout_s")),
        ("policy.top_a", ("policy.top_p", "policy.top_k")),
        ("training.lr", ("training.learning_rate",)),
        ("training.epochs", ("training.num_epochs",)),
        ("training.wieght_sync.mode", ("training.weight_sync.mode",)),
        ("judge.option.event", ("judge.options.event",)),
        ("lora.rr", ("lora.r",)),
        ("model.bse", ("model.base",)),
        ("env_file_pth", ("env_file_path",)),
        ("training.foo", ()),
        ("training.lora.rank", ()),
        ("training.max", ()),
        ("foo", ()),
        ("x", ()),
    ],
)
def test_what_is_suggested(given: str, meant: tuple[str, ...]) -> None:
    assert nearest_keys(given) == meant
    assert nearest_key(given) == (meant[0] if meant else None)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("trainig", "training"), ("rolout", "rollout"), ("loar", "lora"), ("evalution", "evaluation"), ("zebra", None)],
)
def test_misspelt_sections(given: str, meant: str | None) -> None:
    assert nearest_section(given) == meant


@pytest.mark.parametrize(
    ("a", "b", "far"), [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "abx", 1), ("", "ab", 2)]
)
def test_distance(a: str, b: str, far: int) -> None:
    assert distance(a, b) == distance(b, a) == far


def test_two_that_are_equally_near_are_both_named(errors) -> None:
    [problem] = errors("policy.top_a=1")
    assert problem.why == "unknown key; did you mean `policy.top_p` or `policy.top_k`?"
    assert problem.fix == "policy.top_p"


def test_an_old_name_is_suggested_with_the_new_one(errors) -> None:
    [problem] = errors("lora.rr=1")
    assert "`lora.r` (now `training.lora.r`)" in problem.why and problem.fix == "training.lora.r"


def test_with_nothing_near_the_fix_is_to_delete(errors, small) -> None:
    [problem] = errors("training.foo=1")
    assert problem.why == "unknown key" and problem.fix == "delete this line        or   --allow-unknown"
    [warning] = small("training.foo=1", allow_unknown=True).warnings
    assert warning.level == "warning"


def test_a_misspelt_section_is_one_error_and_its_keys_are_not_missing(errors) -> None:
    from tests.config.texts import SMALL

    [problem] = errors(text=SMALL.replace("[training]", "[trainig]"))
    assert (problem.key, problem.why) == ("trainig", "unknown section; did you mean `[training]`?")


@pytest.mark.parametrize("table", ["rollout.env_config", "rollout.policy_config", "judge.options.metadata"])
def test_free_tables_are_not_checked_below(small, table: str) -> None:
    assert [
        item for item in small(f"{table}={{ anything = {{ at = 'all' }} }}").warnings if item.code == "unknown_key"
    ] == []
