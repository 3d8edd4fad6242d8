"""Run directories with bytes flipped, files cut, deleted, swapped, grown and turned into other things."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from rltui.cli.main import main
from tests.fuzz.effort import examples, within
from tests.fuzz.mutate import mutated, to_json, torn
from trainer.rundir import RunReader
from trainer.rundir.synth import SynthConfig, write_run

NAME = "run-rl_0000000000000001"
WIDTHS = {"index.jsonl": 512, "updates.jsonl": 320}
VERBS = [
    ["show"], ["overview"], ["metrics"], ["events"], ["rollouts"], ["rollouts", "--where", "R > 0"], ["rollout", "0"],
    ["rollout", "3", "--tokens"], ["doctor"], ["judge", "--run"], ["pipeline"], ["logs"], ["compare"],
    ["export", "--what", "metrics"], ["export", "--what", "rollouts"], ["export", "--what", "report"],
    ["export", "--what", "adapter"], ["runs"],
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that are as they should be, by their kind."""
    made = {}
    for number, kind in enumerate(("healthy", "resumed", "running", "failed")):
        folder = tmp_path_factory.mktemp("whole") / NAME
        config = SynthConfig(episodes=32, kind=kind, seed=number, judge=number % 2 == 0, turns=2, tokens=6)
        made[kind] = write_run(folder, config)
    return made


@contextlib.contextmanager
def copied(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(shutil.copytree(folder, Path(place) / "runs" / NAME, symlinks=True))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@st.composite
def lines_mutated(draw: st.DrawFn, path: Path) -> bytes:
    """A line of JSON in it, or the whole of it, says something else; lines of a fixed length keep that."""
    lines = path.read_bytes().split(b"\n")
    rows = [i for i, line in enumerate(lines) if line.strip()[:1] == b"{"]
    if not rows:
        return draw(torn(path.read_bytes()))
    row = draw(st.sampled_from(rows))
    try:
        document = json.loads(lines[row])
    except ValueError:
        return draw(torn(path.read_bytes()))
    line = to_json(draw(mutated(document)))
    if (width := WIDTHS.get(path.name)) is not None:
        line = line.ljust(width - 1)[: width - 1]
    return b"\n".join([*lines[:row], line, *lines[row + 1 :]])


def damage(data: st.DataObject, folder: Path) -> str:
    """One thing that happens to one file of the run."""
    paths = files(folder)
    path = data.draw(st.sampled_from(paths), label="file")
    what = data.draw(st.sampled_from(["says", "says", "says", "bytes", "bytes", "gone", "swap", "grow", "other"]))
    event(what)
    if what == "says":
        path.write_bytes(data.draw(lines_mutated(path)))
    elif what == "bytes":
        path.write_bytes(data.draw(torn(path.read_bytes())))
    elif what == "gone":
        path.unlink()
    elif what == "swap":
        path.write_bytes(data.draw(st.sampled_from(paths)).read_bytes())
    elif what == "grow":
        with path.open("ab") as file:
            file.write(data.draw(st.sampled_from([b'{"attempt":1,"st', b"\x00" * 700, b"{}\n", b"x" * 512, b"[1]\n"])))
    else:
        path.unlink()
        kind = data.draw(st.sampled_from(["folder", "pipe", "link", "loop", "empty"]))
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind in ("link", "loop"):
            path.symlink_to("/dev/zero" if kind == "link" else path.name)
        else:
            path.touch()
    return what


def called(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()


def command(verb: list[str], folder: Path, whole: Path) -> list[str]:
    if verb[0] == "runs":
        return ["runs", str(folder.parent), "--json"]
    if verb[0] == "compare":
        return ["compare", str(whole), str(folder), "--json"]
    if verb[0] == "judge":
        return [*verb, str(folder), "--json"]
    out = ["--out", str(folder.parent / verb[-1])] if verb[0] == "export" else []
    return [verb[0], str(folder), *verb[1:], *out, "--json"]


def answered(words: list[str]) -> None:
    """Data or a clean error, in time: one JSON object on stdout, no control character in what a person reads."""
    with within(120):
        code, out, err = called(*words)
    assert code in (0, 1, 2, 3), (code, err)
    assert "fault of its own" not in err and "Traceback" not in err, err
    document = msgspec.json.decode(out)  # strict: no NaN
    assert isinstance(document, dict) and out.count("\n") == 1
    assert code < 2 or err, words
    assert not set(err) & {chr(i) for i in range(32) if i != 10}, err


@examples(15)
@given(data=st.data())
def test_commands_give_data_or_a_clean_error(whole: dict[str, Path], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(whole)))
    with pytest.MonkeyPatch.context() as patch, copied(whole[kind]) as folder:
        patch.setenv("RLTUI_TRACEBACK", "1")
        patch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))
        for _ in range(data.draw(st.integers(1, 3))):
            damage(data, folder)
        for verb in data.draw(st.lists(st.sampled_from(VERBS), min_size=2, max_size=4, unique_by=tuple)):
            answered(command(verb, folder, whole["healthy"]))


def read_all(reader: RunReader) -> dict[str, Any]:
    """As the interface does it."""
    found: dict[str, Any] = {"status": reader.status, "resumes": reader.resumes, "metrics": reader.metrics}
    found |= {
        "events": reader.events,
        "groups": reader.groups,
        "index": reader.index,
        "checkpoints": reader.checkpoints,
    }
    found |= {"count": reader.episode_count, "liveness": reader.liveness}
    return found


@examples(40)
@given(data=st.data())
def test_readers_raise_what_they_say(whole: dict[str, Path], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(whole)))
    with copied(whole[kind]) as folder, within(120):
        for _ in range(data.draw(st.integers(1, 3))):
            damage(data, folder)
        reader = RunReader(folder)
        for read in read_all(reader).values():
            with contextlib.suppress(OSError):
                read()
        with contextlib.suppress(OSError):
            for row in reader.index():
                with contextlib.suppress(LookupError, OSError, ValueError):
                    reader.episode(row["n"])
                with contextlib.suppress(LookupError, OSError, ValueError):
                    reader.merged_updates(row["n"])
                with contextlib.suppress(LookupError, OSError, ValueError):
                    if row.get("arr") is not None:
                        reader.token_block(row["arr"])
