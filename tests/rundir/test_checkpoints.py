from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.rundir import (
    Checkpoint,
    DiskFull,
    begin_checkpoint,
    checkpoints,
    finish_checkpoint,
    list_checkpoints,
    newest_resumable,
    point,
    prune,
    verify_checkpoint,
)
from trainer.rundir.resumable import damaged


def save(
    folder: Path, step: int, reward: float | None = None, content: bytes = b"weights", train: float = 0.1
) -> Checkpoint:
    aside = begin_checkpoint(folder, step)
    (aside / "adapter_model.safetensors").write_bytes(content)
    (aside / "optimizer").mkdir()
    (aside / "optimizer" / "rank_0.safetensors").write_bytes(b"moments")
    manifest = {"job_id": "rl_0", "step": step, "iteration": step // 2, "attempt": 1, "is_best": step == 2}
    return finish_checkpoint(aside, folder / f"step_{step}", manifest | {"reward": {"train": train, "eval": reward}})


def test_a_checkpoint_is_there_only_with_stable(tmp_path: Path) -> None:
    made = save(tmp_path, 4, 0.5)
    path = tmp_path / "step_4"
    manifest = (path / "manifest.json").read_bytes()
    assert (path / "STABLE").read_text().strip() == hashlib.sha256(manifest).hexdigest()
    (entry,) = json.loads(manifest)["files"]
    assert entry["path"] == "adapter_model.safetensors" and entry["bytes"] == 7
    assert entry["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert list_checkpoints(tmp_path) == [made] and made.resumable and made.reward == 0.5
    assert (path.stat().st_mode & 0o777, (path / "STABLE").stat().st_mode & 0o777) == (0o700, 0o600)
    (path / "STABLE").unlink()
    assert list_checkpoints(tmp_path) == []


def test_a_crash_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the n-th rename or write fail, a write half done, for every n: what is there is always whole."""
    real_rename, real_replace, real_write = os.rename, os.replace, checkpoints._write
    finished = False
    for nth in range(20):
        folder = tmp_path / str(nth)
        save(folder, 2)
        save(folder, 4, content=b"old")
        left = [nth]

        def crash(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

        def write_or_half(path: Path, data: bytes, crash: Callable[[], None] = crash) -> None:
            real_write(path, data[: len(data) // 2])
            crash()
            real_write(path, data)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.os, "rename", lambda a, b: (crash(), real_rename(a, b)))
            patch.setattr(checkpoints.os, "replace", lambda a, b: (crash(), real_replace(a, b)))
            patch.setattr(checkpoints, "_write", write_or_half)
            try:
                save(folder, 4, content=b"new")
                finished = True
            except KeyboardInterrupt:
                pass
        found = list_checkpoints(folder)
        assert found[0].step == 2 and all(not verify_checkpoint(c.path) for c in found)
        assert damaged(folder) == []  # half a STABLE would be damage to a resume
        again = save(folder, 4, content=b"new")  # and the next save just works
        assert list_checkpoints(folder)[-1] == again and not list(folder.glob(".*"))
        if finished:
            break
    assert finished and nth > 3


def test_a_wrong_sum_is_named_and_the_next_older_one_offered(tmp_path: Path) -> None:
    save(tmp_path, 2)
    newer = save(tmp_path, 4)
    (newer.path / "optimizer" / "rank_0.safetensors").write_bytes(b"momentX")
    checkpoint, problems = newest_resumable(tmp_path)
    assert checkpoint is not None and checkpoint.step == 2
    assert len(problems) == 1 and "rank_0.safetensors is damaged" in problems[0]
    (newer.path / "adapter_model.safetensors").unlink()
    assert len(verify_checkpoint(newer.path)) == 2
    assert newest_resumable(tmp_path / "none") == (None, [])


@pytest.mark.parametrize("name", ["manifest.json", "STABLE", "optimizer/manifest.json"])
def test_a_pipe_or_a_link_in_a_files_place_is_neither_waited_for_nor_read(tmp_path: Path, name: str) -> None:
    save(tmp_path, 2)
    newer = save(tmp_path, 4)
    for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (newer.path / name).unlink()
        put(newer.path / name)
        checkpoint, _ = newest_resumable(tmp_path)
        assert checkpoint is not None and checkpoint.step == 2


@pytest.mark.parametrize("manifest", [b"", b'{"files"', b"\xff", b"[]", b"{}", b'{"files": 3}', b'{"files": [1]}'])
def test_a_damaged_manifest_of_optimizer_state_is_named_like_its_files(tmp_path: Path, manifest: bytes) -> None:
    save(tmp_path, 2)
    newer = save(tmp_path, 4)
    (newer.path / "optimizer" / "manifest.json").write_bytes(manifest)
    checkpoint, (problem,) = newest_resumable(tmp_path)
    assert checkpoint is not None and checkpoint.step == 2
    assert problem.startswith(str(newer.path / "optimizer" / "manifest.json"))


def test_pruning_keeps_the_last_the_best_and_one_optimizer_state(tmp_path: Path) -> None:
    for step, reward in ((2, 0.9), (4, 0.2), (6, None), (8, 0.3), (10, 0.1)):
        checkpoint = save(tmp_path, step, reward)
        point(tmp_path, "latest", checkpoint)
        if step == 2:
            point(tmp_path, "best", checkpoint)
        prune(tmp_path, keep_last=2, keep_best=1)
    found = list_checkpoints(tmp_path)
    assert [(c.step, c.resumable) for c in found] == [(2, False), (8, False), (10, True)]
    assert [c.is_best for c in found] == [True, False, False]
    point(tmp_path, "best", found[2])  # the manifest of step 2 still says that it was best when it was written
    assert [c.is_best for c in list_checkpoints(tmp_path)] == [False, False, True]
    assert json.loads((tmp_path / "latest.json").read_text()) == {
        "step": 10,
        "reward": 0.1,
        "path": "step_10",
    }
    assert all(verify_checkpoint(c.path) == [] for c in found)
    assert prune(tmp_path, keep_last=1, keep_best=0) == [tmp_path / "step_2", tmp_path / "step_8"]


def test_without_an_evaluation_the_best_are_those_of_training(tmp_path: Path) -> None:
    for step, reward in ((2, 0.9), (4, 0.8), (6, 0.1), (8, 0.2), (10, 0.1)):
        save(tmp_path, step, train=reward)
        prune(tmp_path, keep_last=1, keep_best=2)
    assert [c.step for c in list_checkpoints(tmp_path)] == [2, 4, 10]
    save(tmp_path, 12, 0.0)  # the two are not compared: one that was evaluated comes first
    prune(tmp_path, keep_last=1, keep_best=2)
    assert [c.step for c in list_checkpoints(tmp_path)] == [12]


def test_a_full_disk_changes_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = save(tmp_path, 4, content=b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_write", full)
        with pytest.raises(DiskFull):
            save(tmp_path, 4, content=b"new")
    assert list_checkpoints(tmp_path) == [old] and verify_checkpoint(old.path) == []


def test_links_and_paths_out_of_a_checkpoint_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    folder = tmp_path / "checkpoints"
    aside = begin_checkpoint(folder, 2)
    (aside / "model.safetensors").symlink_to(secret)
    with pytest.raises(ValueError, match="is a link"):
        finish_checkpoint(aside, folder / "step_2", {"step": 2, "iteration": 1})
    made = save(folder, 4)
    manifest = made.manifest | {"files": [{"path": "../../secret", "bytes": 1, "sha256": "0"}]}
    encoded = json.dumps(manifest).encode()
    (made.path / "manifest.json").write_bytes(encoded)
    assert list_checkpoints(folder) == []  # STABLE is of another manifest
    (made.path / "STABLE").write_text(hashlib.sha256(encoded).hexdigest())
    assert verify_checkpoint(made.path) == [f"{made.path / '../../secret'} points out of its checkpoint"]
