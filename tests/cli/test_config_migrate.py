"""`rltui config migrate`: in place, with a backup, or not at all."""

from tests.cli.conftest import SDK_EXAMPLE
from trainer.config import load, load_text


def test_migrate_rewrites_in_place_and_keeps_a_backup(files, config):
    before = load("old.toml").values
    code, out, _ = config("migrate", "old.toml", "--check")
    assert code == 1
    assert "model.base -> policy.model_name" in out
    assert (files / "old.toml").read_text() == SDK_EXAMPLE
    code, out, err = config("migrate", "old.toml")
    assert code == 0
    assert "old.toml.bak" in out + err
    assert (files / "old.toml.bak").read_text() == SDK_EXAMPLE
    after = load("old.toml")
    assert after.values == before
    assert not [item for item in after.warnings if item.code == "migrated"]
    text = (files / "old.toml").read_text()
    assert config("migrate", "old.toml", "--check")[0] == 0
    assert config("migrate", "old.toml")[0] == 0
    assert (files / "old.toml").read_text() == text
    comments = [line.partition("#")[2] for line in SDK_EXAMPLE.splitlines() if "#" in line]
    assert all(comment in text for comment in comments)


def test_migrate_never_writes_over_another_backup(files, config, in_json):
    (files / "old.toml.bak").write_text("mine")
    (files / "target").write_text("mine, too")
    (files / "old.toml.bak.1").symlink_to("target")
    _, data = in_json("migrate", "old.toml")
    assert data["backup"] == "old.toml.bak.2"
    assert (files / "old.toml.bak.2").read_text() == SDK_EXAMPLE
    assert ((files / "old.toml.bak").read_text(), (files / "target").read_text()) == ("mine", "mine, too")
    (files / "old.toml").write_text(SDK_EXAMPLE)
    assert in_json("migrate", "old.toml")[1]["backup"] == "old.toml.bak.2", "it holds that text already"


def test_migrate_stdout_writes_nothing(files, config, in_json):
    code, out, err = config("migrate", "old.toml", "--stdout")
    assert code == 0
    assert load_text(out, "x").values == load("old.toml").values
    assert "model.base -> policy.model_name" in err
    assert (files / "old.toml").read_text() == SDK_EXAMPLE
    _, data = in_json("migrate", "old.toml", "--stdout")
    assert data["text"] == out
    assert {"old": "model.base", "new": "policy.model_name"} in data["moved"]


def test_migrate_names_conflicts_and_writes_nothing(files, config, in_json):
    text = SDK_EXAMPLE + '\n[policy]\nmodel_name = "another/model"\n'
    (files / "old.toml").write_text(text)
    code, _, err = config("migrate", "old.toml")
    assert code == 2
    assert "model.base" in err
    assert "another/model" in err
    assert (files / "old.toml").read_text() == text
    code, data = in_json("migrate", "old.toml", "--check")
    assert (code, data["ok"], data["written"]) == (2, False, False)


def test_migrate_of_no_toml_is_2(files, config):
    (files / "old.toml").write_text("x = [")
    code, _, err = config("migrate", "old.toml")
    assert code == 2
    assert "not TOML" in err


def test_migrate_says_that_json_is_not_its_matter(files, config):
    (files / "job.json").write_text("{}")
    code, _, err = config("migrate", "job.json")
    assert (code, err) == (2, "job.json is JSON, and this verb edits TOML files only; nothing was written\n")
    assert (files / "job.json").read_text() == "{}"
