"""`rltui metrics`: the numbers behind the charts, and their new lines as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rltui.cli.main import main
from trainer.rundir.synth import SynthConfig, write_run


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 10 iterations the first attempt made five, and the second goes on after the fourth."""
    path = tmp_path_factory.mktemp("runs") / "alpha-rl_0000000000000001"
    return write_run(path, SynthConfig(episodes=320, kind="resumed", seed=1))


def told(capsys: pytest.CaptureFixture[str], *args: str | Path) -> Any:
    assert main(["metrics", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def expected(run: Path, name: str) -> dict[float, float]:
    """From the file itself: attempt 2 goes on after step `from_step`."""
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    from_step = next(event["data"]["from_step"] for event in events if event["type"] == "rl.resumed")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["attempt"] == 2 or line["step"] <= from_step]
    return {line.get("eval_step", line["step"]): line[name] for line in kept if name in line}


@pytest.mark.parametrize("name", ["reward/mean", "eval/reward_mean", "gspo/loss"])
def test_all_values_of_a_metric_as_the_run_stands(resumed: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    data = told(capsys, resumed, "--name", f"^{name}$")
    (one,) = data["metrics"]
    wanted = expected(resumed, name)
    assert dict(one["values"]) == wanted and one["points"] == len(wanted)
    assert (one["low"], one["high"]) == (min(wanted.values()), max(wanted.values()))
    assert one["last"] == wanted[max(wanted)] and one["last_step"] == max(wanted)
    assert (
        data["pattern"] == f"^{name}$" and data["known"] > 20 and data["marks"] == [{"step": 8.0, "label": "attempt 2"}]
    )


def test_after_and_words(resumed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = told(capsys, resumed, "--name", "reward", "--after", "16")
    assert {step for one in data["metrics"] for step, _ in one["values"]} == {18, 20}
    assert main(["metrics", str(resumed), "--name", "reward/m"]) == 0
    out = capsys.readouterr().out
    assert "2 of" in out and "reward/max" in out and "gspo" not in out and "attempt 2" in out
    assert main(["metrics", str(resumed), "--name", "nothing here"]) == 0
    assert "No name has the expression" in capsys.readouterr().out


def test_follow_gives_a_line_for_each_line_that_counts_and_ends_with_the_run(
    resumed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", str(resumed), "--follow", "--name", "^reward/mean$", "--after", "4"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values: dict[float, float] = {}
    for line in lines:
        if "rewind" in line:
            values = {step: value for step, value in values.items() if step <= line["rewind"]}
        else:
            values[line["step"]] = line["reward/mean"]
            assert line["schema"] == 1 and "gspo/loss" not in line
    assert values == {step: value for step, value in expected(resumed, "reward/mean").items() if step > 4}


def test_what_is_wrong_is_said(tmp_path: Path, resumed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(resumed), "--name", "a("]) == 2
    assert "at column 2" in capsys.readouterr().err
    assert main(["metrics", str(tmp_path / "none")]) == 2
    failed = write_run(tmp_path / "f-rl_0000000000000002", SynthConfig(episodes=64, kind="failed", seed=2))
    assert main(["metrics", str(failed), "--follow", "--name", "loss"]) == 3
