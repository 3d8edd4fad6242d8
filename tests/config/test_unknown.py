"""Keys that nobody knows: what was meant is found, and nothing unrelated is suggested."""

import random
import string
import tomllib

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, all_keys, load_mapping, load_text, unknown
from trainer.config.migrations import MOVES
from trainer.config.suggest import distance, nearest_key, nearest_keys, nearest_section

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
        ("training.lora.rank", ("training.lora.r",)),
        ("training.max_steps", ("training.iterations_per_epoch",)),
        ("rollout.max_steps", ("rollout.max_turns",)),
        ("checkpoint.save_steps", ("checkpoint.every_n_iters",)),
        ("checkpoint.max_stepz", ()),  # not [smoke]'s
        ("training.max_completion_length", ("policy.max_tokens",)),
        ("training.epsilon", ("training.clip_eps_low", "training.clip_eps_high")),
        ("training.nope", ()),
        ("TRAINING.SEED", ("training.seed",)),
        ('"training.seed"', ("training.seed",)),
        ("training.learning-rate", ("training.learning_rate",)),
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
    [
        ("trainig", "training"),
        ("train", "training"),
        ("rolout", "rollout"),
        ("eval", "evaluation"),
        ("lora_config", "training.lora"),
        ("modl", "model"),
        ("evalution", "evaluation"),
        ("training.wieght_sync", "training.weight_sync"),
        ("training.nope", None),
        ("zebra", None),
    ],
)
def test_misspelt_sections(given: str, meant: str | None) -> None:
    assert nearest_section(given) == meant


def test_of_two_like_sections_the_one_that_knows_the_keys_is_meant() -> None:
    assert nearest_section("traine", ["batch_size", "learning_rate"]) == "training"


FOREIGN = {  # TRL, verl, OpenRLHF, Hugging Face: what our key of the same meaning is
    "num_generations": "training.group_size",
    "rollout_n": "training.group_size",
    "n_samples_per_prompt": "training.group_size",
    "epsilon_high": "training.clip_eps_high",
    "lora_rank": "training.lora.r",
    "lora_alpha": "training.lora.alpha",
    "per_device_train_batch_size": "training.batch_size",
    "wandb_project": "logging.wandb",
    "output_dir": "logging.runs_dir",
    "max_completion_length": "policy.max_tokens",
    "max_new_tokens": "policy.max_tokens",
    "beta": "training.kl_coef",
    "kl": "training.kl_coef",
    "lr": "training.learning_rate",
    "num_train_epochs": "training.num_epochs",
    "eval_steps": "evaluation.every_n_iters",
    "save_steps": "checkpoint.every_n_iters",
    "logging_steps": "training.log_interval",
    "gradient_clip": "training.max_grad_norm",
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("section", ["", "training.", "grpo.", "rollout."])
def test_names_of_other_systems_are_understood_anywhere(section: str, name: str) -> None:
    assert nearest_keys(f"{section}{name}")[0] == FOREIGN[name]


def test_no_name_of_another_system_is_one_of_ours_in_that_section() -> None:
    for key, known in all_keys().items():
        taken = {other.rpartition(".")[2] for other in all_keys() if other.rpartition(".")[0] == known.section}
        assert not taken & {*known.synonyms}, key


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
    [problem] = errors(text=SMALL + "foo = 1\n")
    assert problem.why == "unknown key" and problem.fix == "delete this line        or   --allow-unknown"
    [problem] = errors("training.foo=1")
    assert problem.fix == "leave out --set training.foo        or   --allow-unknown"
    [warning] = small("training.foo=1", allow_unknown=True).warnings
    assert warning.level == "warning"


def test_a_misspelt_section_is_one_error_and_its_keys_are_not_missing(errors) -> None:
    [problem] = errors(text=SMALL.replace("[training]", "[trainig]"))
    assert (problem.key, problem.why) == ("trainig", "unknown section; did you mean `[training]`?")


def test_each_misspelt_section_is_one_error_nested_ones_too(errors) -> None:
    text = SMALL + "[eval]\nseeds = [1]\ninstances = 1\n[training.wieght_sync]\nmode = 'full'\ndirect = false\n"
    problems = errors(text=text + "[rollout.env_confg]\nlevel = 1\n")
    assert [(problem.key, problem.fix) for problem in problems] == [
        ("eval", "[evaluation]"),
        ("training.wieght_sync", "[training.weight_sync]"),
        ("rollout.env_confg", "[rollout.env_config]"),
    ]


def test_a_key_that_is_set_already_is_said_to_be(errors) -> None:
    [problem] = errors(text=SMALL.replace("[rollout]", "learning_rate = 1\n[rollout]"))
    assert problem.why == "unknown key; did you mean `training.learning_rate`, which my.toml:22:17 sets already?"
    assert problem.fix.startswith("delete this line")
    [problem] = errors("policy.learning_rate=1")  # meant to win over the file's
    assert problem.fix == "training.learning_rate"


def test_dots_inside_of_names_are_no_sections(errors, small) -> None:
    loaded = small(text=SMALL + '[tags]\n"team.name" = "x"\n[vllm]\n"a.b" = 1\n')
    assert loaded.config.tags == {"team.name": "x"}
    assert not [item for item in loaded.warnings if item.code == "unknown_key"]
    [problem] = errors(text=SMALL + '"a.b" = 1\n')
    assert problem.key == 'training."a.b"' and problem.why == "unknown key"
    with pytest.raises(ConfigError) as caught:
        load_mapping(tomllib.loads(SMALL) | {"policy.temperature": 1.0}, environ={})
    assert "did you mean `policy.temperature`?" in str(caught.value)


def test_no_rule_speaks_of_the_default_of_a_key_that_was_misspelt(errors) -> None:
    [problem] = errors("vllm.max_model_len=100", "policy.max_tokns=50")
    assert problem.code == "unknown_key"
    [problem] = errors("vllm.max_model_len=100")
    assert "policy.max_tokens 512 (its default)" in problem.why


@pytest.mark.parametrize("table", ["rollout.env_config", "rollout.policy_config", "judge.options.metadata"])
def test_free_tables_are_not_checked_below(small, table: str) -> None:
    assert [
        item for item in small(f"{table}={{ anything = {{ at = 'all' }} }}").warnings if item.code == "unknown_key"
    ] == []


def test_a_key_of_another_section_where_names_are_passed_on(small) -> None:
    text = f"{SMALL}[vllm]\ntemperature = 0.3\ngroup_size = 4\nswap_space = 4\n"
    found = {item.key: item.why for item in small(text=text).warnings if item.code == "engine_option"}
    assert set(found) == {"vllm.temperature", "vllm.group_size"}
    assert "as it is" in found["vllm.temperature"] and "`policy.temperature`" in found["vllm.temperature"]


def test_after_many_unknown_keys_none_is_looked_up(errors, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(unknown, "nearest_keys", lambda key: asked.append(key) or ())
    text = SMALL + "".join(f"some_name_{number} = 1\n" for number in range(200))
    assert len(errors(text=text)) == 200 and len(asked) <= unknown.MOST_LOOKED_UP


@pytest.mark.parametrize("section", ["zz", "evaluaton", "training.reward", "training.lora.zz", "zz.y"])
def test_a_section_without_a_key_is_unknown_too(section: str) -> None:
    text = f"{SMALL}[{section}]\n"
    with pytest.raises(ConfigError) as caught:
        load_text(text, "my.toml", environ={}, device="cpu")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line, problem.code) == (section, text.count("\n"), "unknown_key")
    assert load_text(text, "my.toml", environ={}, device="cpu", allow_unknown=True).warnings[0].key == section


@pytest.mark.parametrize("section", ["model", "hyperparams", "rubric.event", "smoke", "judge.options", "tags", "vllm"])
def test_a_known_one_may_be_empty_an_old_one_as_well(section: str) -> None:
    load_text(f"{SMALL}[{section}]\n", "my.toml", environ={}, device="cpu")


def test_what_should_be_the_vllm_table_is_no_option_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"vllm = 'x'\n{SMALL}", "my.toml", environ={}, device="cpu")
    assert [problem.code for problem in caught.value.problems] == ["type"]
