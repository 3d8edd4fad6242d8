"""Which checkpoint a resume takes, and what crashes and earlier attempts left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.rundir import RunReader, RunWriter, begin_checkpoint, finish_checkpoint, list_checkpoints, prune
from trainer.rundir.resumable import NotResumable, choose, repoint, tidy
from trainer.rundir.resume import Resumed


def make(folder: Path, step: int, *, attempt: int = 1, optimizer: bool = True, reward: float = 0.5) -> Path:
    aside = begin_checkpoint(folder, step)
    (aside / "adapter_model.safetensors").write_bytes(b"weights %d" % step)
    if optimizer:
        (aside / "optimizer").mkdir()
        (aside / "optimizer" / "rank_0.safetensors").write_bytes(b"moments")
    manifest = {
        "step": step,
        "iteration": step,
        "attempt": attempt,
        "reward": {"train": None, "eval": reward},
        "is_best": False,
    }
    return finish_checkpoint(aside, folder / f"step_{step}", manifest).path


def damage(path: Path) -> None:
    (path / "adapter_model.safetensors").write_bytes(b"weights ?")


def test_the_newest_with_an_optimizer_is_taken(tmp_path: Path) -> None:
    with pytest.raises(NotResumable, match="no finished checkpoint"):
        choose(tmp_path, [])
    make(tmp_path, 2)
    make(tmp_path, 4)
    make(tmp_path, 6, optimizer=False)
    assert choose(tmp_path, []).step == 4
    assert choose(tmp_path, [], from_step=2).step == 2
    with pytest.raises(NotResumable, match="step_6 has no optimizer state") as caught:
        choose(tmp_path, [], from_step=6)
    assert "--from 4" in caught.value.hint
    with pytest.raises(NotResumable, match="no checkpoint of step 3") as caught:
        choose(tmp_path, [], from_step=3)
    assert "2, 4, 6" in caught.value.hint


def test_a_wrong_sum_is_named_and_the_next_older_one_offered(tmp_path: Path) -> None:
    make(tmp_path, 2)
    damage(make(tmp_path, 4))
    with pytest.raises(NotResumable, match=r"step_4/adapter_model.safetensors is damaged") as caught:
        choose(tmp_path, [])
    assert "--from 2" in caught.value.hint
    prune(tmp_path, 3, 1)  # the optimizer state is in the newest alone
    with pytest.raises(NotResumable) as caught:
        choose(tmp_path, [])
    assert caught.value.hint.startswith("the weights of step 2 are whole: start a new run from them, rltui train ")
    assert caught.value.hint.endswith(f" --set policy.source={tmp_path}/step_2")


def test_weights_whose_optimizer_state_alone_is_damaged_are_offered(tmp_path: Path) -> None:
    make(tmp_path, 2, optimizer=False)
    (make(tmp_path, 4) / "optimizer" / "rank_0.safetensors").write_bytes(b"moment?")
    with pytest.raises(NotResumable, match=r"step_4/optimizer/rank_0.safetensors is damaged") as caught:
        choose(tmp_path, [])
    assert caught.value.hint.endswith(f"policy.source={tmp_path}/step_4")


def test_a_changed_manifest_or_stable_is_named_and_half_a_stable_too(tmp_path: Path) -> None:
    for step, name in ((2, "manifest.json"), (4, "STABLE")):
        path = make(tmp_path, step) / name
        path.write_bytes(path.read_bytes().replace(b"1", b"2"))
        with pytest.raises(NotResumable, match=rf"step_{step} is damaged.*manifest.json is not the one in STABLE"):
            choose(tmp_path, [])
    make(tmp_path, 6)
    assert choose(tmp_path, []).step == 6  # what is older than it is not asked for
    (tmp_path / "step_6" / "STABLE").write_bytes(b"0")  # no crash leaves that: it is put there whole
    make(tmp_path, 5)
    with pytest.raises(NotResumable, match="step_6 is damaged") as caught:
        choose(tmp_path, [])
    assert "--from 5" in caught.value.hint and choose(tmp_path, [], from_step=5).step == 5


def test_no_way_is_offered_that_leads_to_a_damaged_checkpoint(tmp_path: Path) -> None:
    make(tmp_path, 2)
    make(tmp_path, 4, optimizer=False)
    damage(make(tmp_path, 6))
    for verify in (True, False):
        with pytest.raises(NotResumable) as caught:
            choose(tmp_path, [], from_step=4, verify=verify)
        assert "--from 2" in caught.value.hint
    damage(tmp_path / "step_2")
    with pytest.raises(NotResumable) as caught:
        choose(tmp_path, [], from_step=4, verify=False)
    assert caught.value.hint.startswith("the weights of step 4 are whole")
    damage(tmp_path / "step_4")
    with pytest.raises(NotResumable) as caught:
        choose(tmp_path, [])
    assert caught.value.hint == "no other checkpoint is whole: start the run anew"


def test_what_a_resume_left_behind_does_not_count_and_goes_first(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        make(tmp_path, step, reward=step / 10)
    resumes = [Resumed(2, 2)]
    assert choose(tmp_path, resumes).step == 2
    make(tmp_path, 3, attempt=2, reward=0.1)
    prune(tmp_path, 2, 1, resumes)
    assert [c.step for c in list_checkpoints(tmp_path)] == [2, 3]
    assert [c.step for c in list_checkpoints(tmp_path) if c.resumable] == [3]


def test_a_reader_shows_those_that_count(root: Path) -> None:
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        for step in (2, 4):
            make(writer.paths.checkpoints, step)
        writer.event("rl.resumed", "x", step=2, attempt=2, from_step=2, from_iteration=2, overrides={})
    assert [c.step for c in RunReader(root).checkpoints()] == [2]


def test_leftovers_of_a_crash_are_removed_and_a_replaced_one_is_put_back(tmp_path: Path) -> None:
    make(tmp_path, 2)
    whole = make(tmp_path, 4)
    whole.rename(tmp_path / ".step_4.old")  # the crash came between the two renames
    begin_checkpoint(tmp_path, 4)
    (tmp_path / "step_6").mkdir()  # renamed, but never STABLE
    (tmp_path / "step_2" / "optimizer" / "manifest.json").unlink()  # its removal was cut short
    assert choose(tmp_path, []).step == 4  # who asks before the resume tidies up
    tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_2", "step_4"]
    assert not (tmp_path / "step_2" / "optimizer").exists()
    assert choose(tmp_path, []).step == 4
    repoint(tmp_path, choose(tmp_path, []), None)
    assert (tmp_path / "latest.json").exists() and not (tmp_path / "best.json").exists()
    tidy(tmp_path / "nothing")
