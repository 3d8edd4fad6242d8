"""`rltui compare`: one object with all of it, words for a person, and who cannot be compared."""

from __future__ import annotations

import json

import pytest

from rltui.cli.main import main
from tests.tui.app_driver import run_in
from tests.tui.configured_run import configured


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    folder.mkdir()
    configured(folder, "alpha", 1, episodes=320)
    configured(folder, "beta", 2, "training.learning_rate=7e-4", episodes=320)
    return folder


def test_json_has_all_of_it_and_words_say_the_same(runs, capsys):
    assert main(["compare", "alpha", "beta", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1 and data["baseline"] == 0
    assert [run["name"].partition("-")[0] for run in data["runs"]] == ["alpha", "beta"]
    assert [key["key"] for key in data["config"]] == ["training.learning_rate"]
    assert [value["value"] for value in data["config"][0]["values"]] == [2e-3, 7e-4]
    test, seeds = data["evaluation"]["tests"][1], data["evaluation"]["seeds"]
    assert data["evaluation"]["tests"][0] is None and test["pairs"] == len(seeds) == 8
    assert test["mean"] == pytest.approx(sum(b - a for a, b in (seed["rewards"] for seed in seeds)) / 8)
    assert main(["compare", "alpha", "beta"]) == 0
    words = capsys.readouterr().out
    assert "1 of " in words and "training.learning_rate" in words and f"{test['mean']:+.3f}" in words
    assert data["evaluation"]["words"][1] in words


def test_a_run_whose_config_was_not_recorded_differs_in_none_of_its_keys(runs, capsys):
    run_in(runs, "plain", number=3, judge=True)  # its record has a key of the judge, and no other
    assert main(["compare", "plain", "alpha", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["config_unknown"] == [0] and data["config"] == [] and data["keys"] > 100
    assert main(["compare", "plain", "alpha"]) == 0
    assert "keys differ; not known of A" in capsys.readouterr().out


def test_an_earlier_evaluation(runs, capsys):
    assert main(["compare", "alpha", "beta", "--at", "5", "--json"]) == 0
    assert [run["eval_step"] for run in json.loads(capsys.readouterr().out)["runs"]] == [0, 0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["alpha"], "compare takes 2 to 6"),
        (["alpha"] * 7, "7 runs given"),
        (["alpha", "alpha"], "given twice"),
        (["alpha", "gamma"], "no run 'gamma'"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(runs, capsys, given, said):
    assert main(["compare", *given]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_cannot_be_read_is_named_and_the_rest_is_printed(runs, capsys):
    (run_in(runs, "torn", number=3) / "status.json").write_text("{torn")
    assert main(["compare", "alpha", "torn", "--json"]) == 3
    out, err = capsys.readouterr()
    assert "torn-rl_" in err and "damaged" in err
    assert [run["state"] for run in json.loads(out)["runs"]] == ["succeeded", "unreadable"]
