"""The table of bands, and what a person's file changes of it; what is wrong in it is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.doctor.bands import BANDS, bands_file, defaults, load
from rltui.doctor.rules import RULES
from tests.doctor.records import BY_ID, record


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "doctor.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_band_is_in_reach_and_of_a_rule():
    for band in BANDS:
        assert band.rule in BY_ID and band.least <= band.value <= band.most and band.what
    assert len({(band.rule, band.name) for band in BANDS}) == len(BANDS)


def test_each_number_of_a_rule_is_in_the_table(monkeypatch):
    """And each number of the table is one that its rule asks for."""
    asked: set[tuple[str, str]] = set()

    class Asked(dict):
        def __init__(self, rule: str) -> None:
            super().__init__(defaults().get(rule, {}))
            self.rule = rule

        def __getitem__(self, name: str) -> float:
            asked.add((self.rule, name))
            return super().__getitem__(name)

    early_stop = {"entropy": [1.2] * 60 + [0.001] * 60}
    for rule in RULES:
        for made in (record(), record(early_stop), record({"reward/frac_all_good": 0.9})):
            rule.check(made, Asked(rule.id))
    # One window and one act are read only on ways that a healthy record does not take.
    missed = {(band.rule, band.name) for band in BANDS} - asked
    assert missed <= {("D03", "window")}, missed


def test_no_file_changes_nothing(tmp_path):
    table = load(tmp_path / "doctor.toml")
    assert table.values == defaults() and table.problems == () and not table.changed


def test_a_file_changes_what_it_names(tmp_path):
    table = load(written(tmp_path, '[D01]\nwatch = 0.6\n\n[D06]\nact = -1\n["D13"]\nact = 5\n'))
    assert (table.of("D01")["watch"], table.of("D06")["act"], table.of("D13")["act"]) == (0.6, -1.0, 5.0)
    assert table.of("D01")["act"] == defaults()["D01"]["act"]
    assert table.changed == {("D01", "watch"), ("D06", "act"), ("D13", "act")} and table.problems == ()


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[D01]\nwatch = 1.5\n", 2, "between 0 and 1"),
        ('[D02]\nerrors = "two"\n', 2, "is no number"),
        ("[D02]\nerrors = true\n", 2, "is no number"),
        ("[D02]\n\nerrors = nan\n", 3, "is no number"),
        ("[D01]\nwatchh = 0.5\n", 2, "did you mean watch?"),
        ("[D77]\nwatch = 0.5\n", 2, "no rule 'D77'"),
        ("D01 = 3\n", 1, "D01 has no ''"),
        ("D01.watch = 7\n", 1, "between 0 and 1"),
    ],
)
def test_a_bad_value_is_named_and_left_out(tmp_path, text, line, told):
    path = written(tmp_path, text)
    table = load(path)
    (problem,) = table.problems
    assert problem.startswith(f"{path}:{line}: ") and told in problem
    assert table.values == defaults()


def test_a_bad_line_spoils_no_other(tmp_path):
    table = load(written(tmp_path, "[D01]\nwatch = 9\nact = 0.7\n"))
    assert table.of("D01")["act"] == 0.7 and len(table.problems) == 1


@pytest.mark.parametrize("raw", [b"[D01\n", b"\xff\xfe\x00", b"x = " + b"[" * 5000, b"#" * (300 << 10)])
def test_a_file_that_is_no_toml_is_named(tmp_path, raw):
    path = tmp_path / "doctor.toml"
    path.write_bytes(raw)
    table = load(path)
    assert len(table.problems) == 1 and str(path) in table.problems[0] and table.values == defaults()


def test_it_lies_with_the_other_configs_of_a_person(tmp_path):
    assert bands_file({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "rltui" / "doctor.toml"
