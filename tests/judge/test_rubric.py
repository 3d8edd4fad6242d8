"""Which rubric is taken, what is left of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer.config.schema import JudgeOptionsConfig
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.lookup import Resolved, carried, resolve_rubric
from trainer.judge.rubric import Rubric, read_rubric_file
from trainer.taskapp.contracts import RubricInfo

APP = RubricInfo.read(
    {
        "outcome": {"name": "app/ends", "goal_text": "Win.", "criteria": [{"id": "won", "description": "It won."}]},
        "events": {"name": "app/turns", "criteria": [{"id": "sane", "weight": 2}]},
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rubrics = tmp_path / "rubrics"
    (rubrics / "kitchen").mkdir(parents=True)
    outcome = {"goal_text": "Cook.", "criteria": [{"id": "taste.salt"}, {"id": "taste.heat"}, {"id": "looks"}]}
    (rubrics / "kitchen" / "both.json").write_text(json.dumps({"outcome": outcome, "event": outcome}))
    (rubrics / "plain.toml").write_text('goal_text = "Be brief."\n[[criteria]]\nid = "brief"\nscale = "binary"\n')
    (tmp_path / "secret.json").write_text("{}")
    return rubrics


def resolve(folder: Path | None = None, app: RubricInfo | None = None, service: bool = False, **options) -> Resolved:
    return resolve_rubric(JudgeOptionsConfig.model_validate(options), folder=folder, app=app, service=service)


def ids(rubric: Rubric | None, kind: str = "outcome") -> list[str]:
    assert rubric is not None
    part = rubric.part(kind)
    return [criterion.id for criterion in part.criteria] if part else []


def test_an_id_is_looked_up_in_the_projects_folder_then_with_the_task_app(folder: Path) -> None:
    found = resolve(folder, APP, rubric_id="kitchen/both").rubric
    assert found.id == "kitchen/both" and ids(found) == ["taste.salt", "taste.heat", "looks"]
    assert found.event is None  # turns are not judged
    flat = resolve(folder, APP, rubric_id="plain", event=True).rubric
    assert ids(flat) == ids(flat, "event") == ["brief"] and flat.outcome.criteria[0].scale == "binary"
    of_app = resolve(folder, APP, rubric_id="app/ends", event=True).rubric
    assert ids(of_app) == ["won"] and of_app.outcome.goal_text == "Win." and of_app.event.criteria[0].weight == 2


@pytest.mark.parametrize("wanted", ["kitchen/both2", "../secret", "/etc/passwd"])
def test_an_id_that_does_not_exist_is_an_error_that_lists_the_ids(folder: Path, wanted: str) -> None:
    with pytest.raises(JudgeMisconfigured) as caught:
        resolve(folder, APP, rubric_id=wanted)
    assert "app/ends, app/turns, kitchen/both, plain" in caught.value.message and wanted in caught.value.message
    assert "judge.options.rubric_id" in caught.value.hint
    assert resolve(folder, APP, service=True, rubric_id=wanted).rubric is None  # the service may know it


def test_overrides_replace_the_same_part_of_the_rubric(folder: Path) -> None:
    overrides = {"outcome": {"criteria": [{"id": "other", "weight": 0.25}], "aggregation": "sum"}}
    part = resolve(folder, rubric_id="kitchen/both", rubric_overrides=overrides).rubric.outcome
    assert part.goal_text == "Cook." and part.aggregation == "sum"
    assert [(c.id, c.weight) for c in part.criteria] == [("other", 0.25)]
    with pytest.raises(JudgeMisconfigured, match="event is true, and it has no criteria for event"):
        resolve(event=True, rubric_overrides=overrides)


def test_without_an_id_it_is_that_of_the_task_app_and_without_any_an_error() -> None:
    assert ids(resolve(app=APP).rubric) == ["won"]
    assert resolve(service=True).rubric is None
    with pytest.raises(JudgeMisconfigured, match="there is no rubric"):
        resolve(app=RubricInfo())


def test_tracks_keep_their_criteria_and_one_without_any_is_a_warning(folder: Path) -> None:
    kept = resolve(folder, rubric_id="kitchen/both", tracks=["taste", "smell"])
    assert ids(kept.rubric) == ["taste.salt", "taste.heat"]
    assert len(kept.warnings) == 1 and "smell" in kept.warnings[0]
    with pytest.raises(JudgeMisconfigured, match=r"no criterion is of a track .* the tracks are default, taste"):
        resolve(folder, rubric_id="kitchen/both", tracks=["smell"])
    [warning] = resolve(folder, rubric_id="kitchen/both", weights={"taste": 1.0}).warnings
    assert "leaves out the track default, which weighs 0" in warning


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"weights": {"smell": 1.0}}, r"tracks \(default, taste\) sum to 0"),
        ({"weights": {"default": 0.0, "smell": 2.0}}, "sum to 0"),
        ({"rubric_overrides": {"outcome": {"criteria": [{"id": "a", "weight": 0}]}}}, "of its track default sum to 0"),
        ({"rubric_overrides": {"outcome": {"criteria": [{"id": "a", "weight": -1}]}}}, "not a number >= 0"),
        ({"rubric_overrides": {"outcome": {"criteria": [{"id": "a"}, {"id": "a"}]}}}, "two criteria have the id a"),
        ({"rubric_overrides": {"outcome": {"criteria": [{"id": "a", "scale": "1-10"}]}}}, "scale '1-10' is not"),
        ({"rubric_overrides": {"outcome": {"criteria": [{"description": "x"}]}}}, "criterion 1 has no id"),
    ],
)
def test_what_could_only_score_nothing_is_refused(folder: Path, options: dict, why: str) -> None:
    with pytest.raises(JudgeMisconfigured, match=why) as caught:
        resolve(folder, rubric_id="kitchen/both", **options)
    assert caught.value.code == "judge_rubric"


@pytest.mark.parametrize(("name", "text"), [("a.json", "{"), ("a.toml", "x ="), ("a.json", "[1]"), ("b.json", "\x00")])
def test_a_file_that_is_no_rubric_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(JudgeMisconfigured, match=name):
        read_rubric_file(tmp_path / name)
    with pytest.raises(JudgeMisconfigured, match="No such file"):
        read_rubric_file(tmp_path / "none.toml")


def test_the_hash_names_the_content(folder: Path) -> None:
    one, same = (resolve(folder, rubric_id="plain").rubric for _ in range(2))
    other = resolve(folder, rubric_id="plain", rubric_overrides={"outcome": {"goal_text": "Be long."}}).rubric
    assert one.hash == same.hash != other.hash


def test_a_rubric_of_a_file_goes_to_another_machine_as_overrides_that_mean_the_same(folder: Path) -> None:
    (folder / "mute.toml").write_text('[[outcome.criteria]]\nid = "a"\n[[event.criteria]]\nid = "b"\nweight = 3\n')
    given = {"outcome": {"aggregation": "sum"}}
    for name in ("kitchen/both", "plain", "mute"):
        options = JudgeOptionsConfig(rubric_id=name, rubric_overrides=given, event=True)
        there = JudgeOptionsConfig(rubric_overrides=carried(options, folder), event=True)
        here = resolve_rubric(options, folder=folder, app=APP).rubric
        found = resolve_rubric(there, folder=None, app=APP).rubric
        assert (found.event, found.outcome) == (here.event, here.outcome) and here.outcome.aggregation == "sum"
    assert given == {"outcome": {"aggregation": "sum"}}
    assert carried(JudgeOptionsConfig(rubric_id="app/ends"), folder) is None
    (folder / "plain.toml").write_text("criteria = 3")
    with pytest.raises(JudgeMisconfigured, match="cannot be used"):
        carried(JudgeOptionsConfig(rubric_id="plain"), folder)
