"""The Doctor over each kind of synthetic run, judged and not: healthy ones are silent, sick ones get their own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.doctor.checkup import Checkup
from rltui.doctor.doctor import speaking
from rltui.model.run import RunModel
from rltui.sources.local import LocalRunSource
from trainer.rundir import RunReader
from trainer.rundir.synth import write_run
from trainer.rundir.synth_data import KINDS, SynthConfig
from trainer.rundir.synth_judge import WEIGHTS

EPISODES = 640  # 20 iterations, which is what most rules ask for
SPEAK = {
    "healthy": set(),
    "running": set(),
    "resumed": set(),
    "collapsed": {"D01"},
    "stalled": {"D34"},
    "crashed": {"D35"},
    "torn": {"D35"},
    "failed": set(),  # its error says more than any rule
}


@pytest.mark.parametrize("judge", [False, True], ids=["plain", "judged"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_speaks(tmp_path: Path, kind: str, judge: bool) -> None:
    config = SynthConfig(episodes=EPISODES, kind=kind, judge=judge, learner_blocks=False)
    model = RunModel(LocalRunSource(write_run(tmp_path / "run", config)))
    while model.refresh(budget_s=0.5).more:
        pass
    checkup = Checkup()
    checkup.look(model)
    told = {finding.rule.id: finding.reading.measured for finding in speaking(checkup.findings)}
    assert told.keys() == SPEAK[kind], told
    states = {finding.rule.id: finding.state.value for finding in checkup.findings}
    assert (states["D07"] == "ok") == judge


def test_the_reward_of_a_judged_run_is_the_blend_of_its_parts(tmp_path: Path) -> None:
    reader = RunReader(write_run(tmp_path / "run", SynthConfig(episodes=96, judge=True)))
    lines = [line for line in reader.metrics() if "reward/mean" in line]
    assert len(lines) == 3
    for line in lines:
        assert line["reward/mean"] == pytest.approx(sum(WEIGHTS[part] * line[f"reward/{part}"] for part in WEIGHTS))
    for row in reader.index():
        assert row["R"] == pytest.approx(0.7 * row["O"] + 0.1 * row["je"] + 0.2 * row["jo"], abs=1e-6)
