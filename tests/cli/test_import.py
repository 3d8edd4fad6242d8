"""`rltui import`: a copied run stands among the others whole, or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import msgspec
import pytest

from rltui.cli import importing
from rltui.cli.main import main
from rltui.sources.base import Unreadable
from rltui.sources.deleting import delete
from rltui.sources.importing import bring
from tests.cli.conftest import last_object
from trainer.rundir import RunLock
from trainer.rundir.process import ProcessId
from trainer.rundir.synth import SynthConfig, write_run


@pytest.fixture
def foreign(here):
    folder = here / "elsewhere" / "copy of it"
    write_run(folder, SynthConfig(episodes=16, kind="healthy", learner_blocks=False))
    return folder


def refused(here, foreign, words: str) -> None:
    before = sorted((here / "runs").iterdir()) if (here / "runs").exists() else []
    with pytest.raises(Unreadable, match=words):
        bring(foreign, here / "runs")
    assert (sorted((here / "runs").iterdir()) if (here / "runs").exists() else []) == before


def test_a_copied_run_is_brought_with_all_of_its_record(here, foreign, capsys):
    (foreign / "lock").write_text("{}")
    assert main(["import", str(foreign), "--json"]) == 0
    told = last_object(capsys.readouterr().out)
    job_id = json.loads((foreign / "status.json").read_bytes())["job_id"]
    found = here / "runs" / told["name"]
    assert told["job_id"] == job_id and told["name"].endswith(job_id)  # the folder's own name has blanks
    names = {str(path.relative_to(foreign)) for path in foreign.rglob("*") if path.is_file()} - {"lock", "reserve"}
    names = {name for name in names if not name.startswith("weights")}
    assert names == {str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()}
    assert all((found / name).read_bytes() == (foreign / name).read_bytes() for name in names)
    assert all((found / name).stat().st_mode & 0o777 == 0o600 for name in names)
    assert main(["show", job_id]) == 0
    refused(here, foreign, "that run already")


def test_a_wrong_sum_and_a_damaged_line_are_named(here, foreign, capsys):
    metrics = foreign / "metrics.jsonl"
    metrics.write_bytes(b"no line\n" + metrics.read_bytes())
    weights = next(foreign.glob("checkpoints/step_*/adapter_model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    assert main(["import", str(foreign)]) == 1
    told = capsys.readouterr().err
    assert "metrics.jsonl, byte 0" in told and f"{weights.parent.name}/{weights.name}" in told
    assert ".import-" not in told


def test_what_leads_out_of_the_folder_is_refused(here, foreign):
    (foreign / "logs" / "secret.log").symlink_to("/etc/passwd")
    refused(here, foreign, "secret.log is a link")
    (foreign / "logs" / "secret.log").unlink()
    os.mkfifo(foreign / "logs" / "pipe")
    refused(here, foreign, "neither a file nor a folder")


def test_a_job_id_that_leads_elsewhere_is_refused(here, foreign):
    status = json.loads((foreign / "status.json").read_bytes())
    (foreign / "status.json").write_text(json.dumps({**status, "job_id": "../../x"}))
    refused(here, foreign, "no job id")


def test_a_run_that_goes_on_is_refused(here, foreign):
    with RunLock(foreign):
        refused(here, foreign, "in use by pid")


def test_what_is_no_run_is_refused(here, capsys):
    (here / "run.tar").write_bytes(b"")
    assert main(["import", "run.tar"]) == 3
    assert "unpack it first" in capsys.readouterr().err


def test_a_copy_of_a_run_that_goes_on_elsewhere_is_marked_as_failed(here, foreign, capsys):
    status = json.loads((foreign / "status.json").read_bytes())
    live = {**status, "state": "running", "phase": "training", "end_reason": None, "host": "elsewhere", "pid": 7}
    (foreign / "status.json").write_text(json.dumps(live))
    before = (foreign / "events.jsonl").read_bytes()
    assert main(["import", str(foreign), "--json"]) == 1
    told = last_object(capsys.readouterr().out)
    assert any("running on elsewhere (pid 7)" in note for note in told["notes"])
    after = json.loads((here / "runs" / told["name"] / "status.json").read_bytes())
    assert (after["state"], after["error"]["code"], after["job_id"]) == ("failed", "process_lost", status["job_id"])
    assert not (here / "runs" / told["name"] / "lock").exists()
    assert (foreign / "events.jsonl").read_bytes() == before
    delete(here / "runs" / told["name"])


def test_what_a_killed_import_left_goes_with_the_next_one_of_its_host(here, foreign):
    dead = subprocess.Popen(["sleep", "60"])
    was = ProcessId.of(dead.pid)
    dead.kill()
    dead.wait()
    owners = {
        "dead": was,
        "rebooted": msgspec.structs.replace(ProcessId.current(), boot_id="earlier"),
        "alive": ProcessId.current(),
        "far": msgspec.structs.replace(was, host="elsewhere"),  # its pids say nothing here
    }
    for number, (name, owner) in enumerate(owners.items()):
        folder = here / "runs" / f".{name}.import-0000000{number}"
        (folder / "logs").mkdir(parents=True)
        (folder / "lock").write_bytes(msgspec.json.encode(owner))
    (here / "runs" / ".mine.import-notes").mkdir()
    (here / "runs" / ".odd.import-00000004" / "lock").mkdir(parents=True)
    found = bring(foreign, here / "runs")
    left = {".alive.import-00000002", ".far.import-00000003", ".odd.import-00000004", ".mine.import-notes"}
    assert {path.name for path in (here / "runs").iterdir()} == {found.path.name} | left


def test_while_it_is_copied_another_import_or_delete_leaves_the_copy(here, foreign):
    other = here / "other" / "run"
    write_run(other, SynthConfig(episodes=16, kind="healthy", learner_blocks=False, seed=5))
    meanwhile = []

    def told(done, total):
        if not meanwhile:
            meanwhile.append(bring(other, here / "runs"))
            delete(meanwhile[0].path)

    found = bring(foreign, here / "runs", told)
    assert meanwhile and [path.name for path in (here / "runs").iterdir()] == [found.path.name]
    assert not (found.path / "lock").exists()


def test_a_terminated_import_leaves_nothing(here, foreign, monkeypatch):
    def ended(done, total):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(importing, "_Progress", lambda: ended)
    with pytest.raises(SystemExit) as stopped:
        main(["import", str(foreign)])
    assert stopped.value.code == 143 and list((here / "runs").iterdir()) == []


def test_a_long_copy_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(importing, "TELL_EVERY_S", 0.0)
    importing._Progress()(1_000_000, 3_000_000)
    assert capsys.readouterr().err.startswith("copied 1")


def test_a_deep_folder_is_refused_with_one_object(here, foreign, capsys):
    (foreign / "logs" / "/".join(["d"] * 80)).mkdir(parents=True)
    assert main(["import", str(foreign), "--json"]) == 3
    told = last_object(capsys.readouterr().out)
    assert told["ok"] is False and "over 64 folders" in told["error"]["message"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"job_id":"rl_0000000000000000","attempt":"x","beat":[]}', "its state is not a word"),
        (b'{"job_id":"rl_0000000000000000","state":"failed"}' + b" " * (5 << 20), "cannot be read"),
        (b"[]", "cannot be read"),
    ],
)
def test_a_status_that_is_none_is_refused(here, foreign, data, words):
    (foreign / "status.json").write_bytes(data)
    refused(here, foreign, words)


def test_a_file_with_holes_keeps_them(here, foreign):
    sparse = foreign / "logs" / "sparse.log"
    with sparse.open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"middle")
        file.truncate(3 << 30)
    found = bring(foreign, here / "runs").path / "logs" / "sparse.log"
    about = found.stat()
    assert about.st_size == 3 << 30 and about.st_blocks * 512 < 1 << 20
    with found.open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(1 << 30)
        assert file.read(7) == b"middle\0"


def test_a_run_is_not_brought_into_itself(foreign):
    with pytest.raises(Unreadable, match="in the run itself"):
        bring(foreign, foreign / "runs")
    assert not (foreign / "runs").exists()
