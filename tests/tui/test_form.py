"""The form without a screen: edits as typed, states, fixes, migration, undo, the disk, and drafts."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from rltui.model import drafts
from rltui.model.form import Form
from rltui.model.form_check import check
from rltui.model.form_fix import in_words
from rltui.model.form_rows import State, View, view
from rltui.model.form_starts import joined
from rltui.model.form_values import FormError, Kind, as_lines, from_lines, meant
from rltui.samples import samples
from trainer.config import load_text
from trainer.config.draft import EditError
from trainer.config.keys import all_keys
from trainer.config.save import SaveError

SEED = samples()["seed_example"].read_text()
DEMO = samples()["demo"].read_text()


def seen(form: Form) -> View:
    return view(form.text, form.base, form.name, check(form.text, form.name))


def opened(tmp_path: Path, text: str) -> Form:
    path = tmp_path / "my.toml"
    path.write_bytes(text.encode())
    return Form.open(path)


def row(form: Form, key: str):
    found = seen(form).find(key)
    assert found is not None, key
    return found


def test_every_key_of_the_schema_has_one_row():
    keys = [row.key for row in seen(Form(DEMO)).rows]
    assert set(all_keys()) <= set(keys) and len(keys) == len(set(keys))


def test_the_sdk_example_opens_with_derived_values_and_offers_to_migrate():
    form = Form(SEED)
    for key in ("training.max_turns", "rollout.max_concurrent_rollouts"):
        assert (row(form, key).state, row(form, key).note) == (State.DEFAULT, "derived")
    assert row(form, "training.max_turns").value == "10"
    moved = {one.written for one in seen(form).rows if one.state is State.MOVED}
    assert {"topology.type", "model.base"} <= moved
    assert row(form, "training.lora.dropout").problem.level == "warning"


def test_what_is_typed_is_kept_as_typed_and_nothing_else_changes(tmp_path):
    form = opened(tmp_path, SEED)
    form.set("training.learning_rate", "1e-4")
    assert form.text == SEED.replace("= 5e-5          #", "= 1e-4          #")
    assert row(form, "training.learning_rate").state is State.CHANGED
    assert row(form, "training.learning_rate").note == "was 5e-5"
    form.set("training.learning_rate", "5e-5")
    assert form.text == SEED and not form.dirty
    form.set("rollout.timeout_s", "1_200.0")
    assert "timeout_s = 1_200.0" in form.text and row(form, "rollout.timeout_s").note == "new"
    form.set("policy.label", "2024")  # only text can stand there
    assert tomllib.loads(form.text)["model"]["label"] == "2024"


def test_an_old_spelling_is_edited_where_it_stands():
    form = Form(SEED)
    form.set("compute.topology.gpus_for_vllm", "3")
    assert tomllib.loads(form.text)["topology"]["gpus_for_vllm"] == 3
    assert "compute.topology" not in form.text


def test_wrong_values_are_kept_and_said():
    form = Form(SEED)
    form.set("training.learning_rate", "fast")
    found = row(form, "training.learning_rate")
    assert found.state is State.WRONG and found.value == "fast" and "string was given" in found.note
    form.set("training.batch_size", "")
    assert row(form, "training.batch_size").state is State.WRONG
    assert row(form, "training.batch_size").note == "must be given"
    with pytest.raises(FormError, match="TOML"):
        form.set("rollout.env_config", "{ a = ")


def test_unknown_keys_stay_until_they_are_mended():
    form = Form(SEED.replace("learning_rate = 5e-5  ", "learning_rate = 5e-5\nlog_intervall = 5  # often"))
    found = row(form, "training.log_intervall")
    assert (found.state, found.section) == (State.UNKNOWN, "training")
    assert form.fix(found.problem)
    assert "log_interval = 5   # often" in form.text and not seen(form).errors  # the comment keeps its column
    form.undo()
    assert "log_intervall = 5  # often" in form.text


def test_a_misspelt_section_is_put_right_with_all_its_keys():
    form = Form(SEED.replace("[rollout]", "[rolout]"))
    assert row(form, "rolout.env_name").state is State.UNKNOWN
    assert form.fix(row(form, "rolout.env_name").problem)
    assert form.text == SEED


def test_every_error_that_says_a_value_is_mended_by_one_edit():
    form = Form(SEED)
    for key, typed in {
        "training.group_size": "5",
        "rollout.max_turns": "ten",
        "training.lora.dropout": "1.5",
        "algorithm.variety": "gspoo",
        "services.task_url": "localhost:8001",
    }.items():
        before = form.text
        form.set(key, typed)
        errors = check(form.text, form.name).errors
        assert errors, key
        assert form.fix(errors[0]), errors[0]
        assert len(check(form.text, form.name).errors) < len(errors), key
        form.replace(before, "back")


def test_one_old_key_or_all_of_them_move():
    form = Form(SEED)
    one, _ = form.migrated("model.label")
    assert tomllib.loads(one)["policy"]["label"] == "my-rl-model" and "base = " in one
    every, left = form.migrated()
    assert not left and "[policy]" in every and "[compute.topology]" in every
    assert load_text(every, "x.toml").values == load_text(SEED, "x.toml").values
    form.replace(every, "migrated")
    assert not [one for one in seen(form).rows if one.state is State.MOVED]


def test_undo_and_redo_go_through_every_text():
    form, texts = Form(DEMO), [DEMO]
    for value in ("1e-5", "2e-5", "3e-5"):
        form.set("training.learning_rate", value)
        texts.append(form.text)
    for text in reversed(texts[:-1]):
        assert form.undo() is not None and form.text == text
    assert form.undo() is None
    for text in texts[1:]:
        step = form.redo()
        assert step is not None and step.key == "training.learning_rate" and form.text == text
    form.undo()
    form.set("training.learning_rate", "9e-5")
    assert form.redo() is None


def test_a_text_that_is_no_toml_says_where():
    broken = check(SEED.replace("[services]", "[services"), "x.toml").broken
    assert broken is not None and broken.line == SEED[: SEED.index("[services]")].count("\n") + 1


def test_a_secret_is_never_shown():
    form = Form(SEED.replace('judge_url = "', 'judge_url = "https://bob:hunter2222@'))
    assert "hunter" not in repr([(one.value, one.note, one.was) for one in seen(form).rows])


@pytest.mark.parametrize("name", sorted(samples()))
def test_random_edits_give_the_intended_values_and_touch_nothing_else(name):
    """Lines without an edited key stay to the byte, and each key has what was typed."""
    text = samples()[name].read_text()
    rng = random.Random(name)
    form, wanted = Form(text), {}
    rows = [one for one in seen(form).rows if one.known and one.kind in (Kind.NUMBER, Kind.TEXT, Kind.FLAG)]
    for one in rng.sample(rows, 12):
        typed = {Kind.NUMBER: str(rng.randint(1, 99)), Kind.FLAG: rng.choice(["true", "false"])}.get(one.kind, "word")
        form.set(one.key, typed)
        wanted[one.key] = (one.written or one.key, typed)
    after = seen(form)
    touched = {key.rpartition(".")[2] for key, _ in wanted.values()}
    for key, (_, typed) in wanted.items():
        found = after.find(key)
        assert found is not None and found.value == typed, key
    kept = [line for line in text.splitlines() if line.split("=")[0].strip() not in touched and line.strip()]
    now = form.text.splitlines()
    assert [line for line in kept if line not in now] == []
    while form.undo():
        pass
    assert form.text == text


def test_lists_and_tables_are_edited_as_lines():
    assert as_lines([0, "a b", 1.5]) == "0\na b\n1.5"
    assert from_lines("0\n\na b\n5e-5,", Kind.LIST).text == '[0, "a b", 5e-5]'
    assert from_lines(as_lines({"a b": [1], "c": {"d": 1}}), Kind.TABLE).text == '{ "a b" = [1], c = { d = 1 } }'
    with pytest.raises(FormError, match="line 2"):
        from_lines("a = 1\nb = = 2\n", Kind.TABLE)
    assert meant("training.learning_rate", all_keys()["training.learning_rate"], "5e-5").text == "5e-5"


# The disk


def test_a_save_writes_what_the_form_holds_and_never_over_a_change_of_others(tmp_path):
    form = opened(tmp_path, SEED)
    form.set("training.learning_rate", "1e-4")
    form.save()
    assert form.path.read_text() == form.text and not form.dirty and form.outside() is None
    form.set("training.seed", "7")
    form.path.write_text(form.disk.replace("max_turns = 10", "max_turns = 12"))
    with pytest.raises(SaveError, match="changed outside"):
        form.save()
    theirs = form.outside()
    merged = form.merged(theirs)
    assert merged.conflicts == [] and merged.changed == ["training.seed"]
    form.rebase(theirs, merged.text)
    form.save()
    data = tomllib.loads(form.path.read_text())
    assert (data["rollout"]["max_turns"], data["training"]["seed"]) == (12, 7)


def test_the_same_key_changed_on_both_sides_is_named(tmp_path):
    form = opened(tmp_path, SEED)
    form.set("rollout.max_turns", "11")
    merged = form.merged(SEED.replace("max_turns = 10", "max_turns = 12"))
    assert merged.conflicts == ["rollout.max_turns"]


def test_changes_of_comments_are_not_merged_away(tmp_path):
    form = opened(tmp_path, SEED)
    form.replace(SEED.replace("# Required: GPU type", "# my GPU"), "editor")
    with pytest.raises(EditError, match="more than values"):
        form.merged(SEED.replace("max_turns = 10", "max_turns = 12"))


def test_line_ends_and_mark_of_the_file_stay(tmp_path):
    text = "\ufeff" + DEMO.replace("\n", "\r\n")
    form = opened(tmp_path, text)
    form.set("training.seed", "7")
    form.save()
    assert form.path.read_bytes().startswith(b"\xef\xbb\xbf") and b"\r\n" in form.path.read_bytes()
    assert load_text(form.text.removeprefix("\ufeff"), "x").config.training.seed == 7


# Drafts


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def draft(text: str, path: str = "/x/my.toml", saved: float = 1.0) -> drafts.Draft:
    return drafts.Draft(path, "my.toml", text, SEED, SEED, saved)


def test_a_draft_comes_back_and_goes_with_the_save():
    mine = draft(SEED.replace("5e-5", "1e-4"))
    assert drafts.keep(mine) and drafts.of("/x/my.toml") == mine
    [file] = drafts.folder().glob("*.json")
    assert file.stat().st_mode & 0o077 == 0
    drafts.drop("/x/my.toml", "my.toml")
    assert drafts.of("/x/my.toml") is None


def test_two_drafts_of_one_file_are_joined_or_both_kept():
    old, new = draft(SEED.replace("5e-5", "1e-4")), draft(SEED.replace("max_turns = 10", "max_turns = 12"))
    both = joined(old, new).text
    assert "1e-4" in both and "max_turns = 12" in both
    assert joined(draft("# mine\n" + SEED), new) == new
    assert [one.text for one in drafts.all_drafts()] == ["# mine\n" + SEED]


def test_a_fix_is_said_without_options_of_commands():
    problems = {
        one.key: one for one in check(SEED.replace("group_size = 4 ", "grup = 5\ngroup_size = 5 "), "x").problems
    }
    assert in_words(problems["training.group_size"]) == "group_size = 4 or rollout.episodes_per_batch = 35"
    assert "--" not in in_words(problems["training.grup"])


def test_drafts_are_listed_newest_first_and_damaged_ones_are_none():
    drafts.keep(draft(SEED, "/x/a.toml", 1.0))
    drafts.keep(draft(SEED, "/x/b.toml", 2.0))
    (drafts.folder() / "torn.json").write_text('{"schema": 1, "te')
    assert [one.path for one in drafts.all_drafts()] == ["/x/b.toml", "/x/a.toml"]


def test_what_looks_like_a_secret_is_never_written():
    secret = SEED + '[judge.options]\napi_key = "sk-abcdefghij0123456789"\n'
    assert not drafts.keep(draft(secret))
    assert not drafts.keep(draft(secret + "[broken"))
    assert not list(drafts.folder().glob("*"))
