"""A job on another host: a real ssh server, a real job server behind it, faked runs."""

import os
import signal
import subprocess
import sys
import time

import pytest

import rltui.launch.tunnel
from rltui.launch.base import Job, LaunchError
from rltui.launch.runs import run_at
from rltui.launch.ssh import SshLauncher, tunnel_to
from rltui.launch.tunnel import Host, Tunnel
from rltui.sources.base import TERMINAL, Unreachable
from rltui.sources.find import NoSuchRun
from tests.cli.conftest import CONFIG
from tests.ssh.conftest import make_key
from tests.waiting import until

STEPS = 40


@pytest.fixture
def job(tmp_path):
    (tmp_path / "my.toml").write_text(CONFIG.replace("http://127.0.0.1:9", "builtin:facts"))
    return Job(tmp_path / "my.toml", None, "rl_0")


def cli(there, *args, **options):
    command = [sys.executable, "-m", "rltui", *map(str, args)]
    return subprocess.run(command, env=there.environment(), capture_output=True, text=True, timeout=120, **options)


def ssh_processes(there) -> list[str]:
    """Those of anyone who is there."""
    found = subprocess.run(["pgrep", "-f", f"ssh -F {there.folder}/config"], capture_output=True, text=True)
    return found.stdout.split()


@pytest.mark.slow
def test_a_run_there_is_started_followed_and_found_again(there, job):
    done = cli(there, "train", job.config, "--target", there.name, "--poll-interval", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    assert "step 4/4" in done.stderr and "succeeded" in done.stderr
    place = next(line.split()[1] for line in done.stderr.splitlines() if line.startswith("run "))
    assert place.startswith(f"{there.name}/rl_")
    pid = there.server()["pid"]
    shown = cli(there, "show", place)
    assert shown.returncode == 0 and "succeeded" in shown.stdout, shown.stderr
    assert there.server()["pid"] == pid, "the server that was there is used again"
    assert "step 1" in cli(there, "events", place, "--all").stdout or "reward" in shown.stdout
    missing = cli(there, "show", f"{there.name}/rl_nothing")
    assert missing.returncode == 2
    assert place.rsplit("/", 1)[1] in missing.stderr and "Traceback" not in missing.stderr
    until(lambda: not ssh_processes(there))


@pytest.mark.slow
def test_following_goes_on_after_a_cut_without_gaps_or_doubles(there, job, monkeypatch):
    monkeypatch.setattr(rltui.launch.tunnel, "WAITS_S", (0.1, 0.2))
    there.vary(FAKE_STEPS=str(STEPS), FAKE_PACE_S="0.15")
    source = SshLauncher(there.name).start(job).source
    tunnel = tunnel_to(there.name)
    seqs, steps, cursors = [], [], [None, None]
    lost = cuts = 0
    back_at = 0.0
    while True:
        try:
            status = source.status()
            part = source.events(cursors[0])
            cursors[0] = part.cursor
            seqs += [row["seq"] for row in part.rows]
            part = source.metrics(cursors[1])
            cursors[1] = part.cursor
            steps += [row["step"] for row in part.rows]
            if status and status["state"] in TERMINAL:
                break
            if cuts == 0 and len(steps) >= 3:  # the client's end, then the way itself for a while
                cuts = 1
                os.kill(tunnel._process.pid, signal.SIGKILL)
            elif cuts == 1 and lost and len(steps) >= 10:
                cuts = 2
                there.cut()
                back_at = time.monotonic() + 1.0
        except Unreachable as error:
            lost += 1
            assert "127.0.0.1" in str(error)
        if back_at and time.monotonic() > back_at:
            back_at = 0.0
            there.begin()
        time.sleep(0.05)
    assert cuts == 2 and lost >= 2
    assert steps == list(range(1, STEPS + 1))
    assert seqs == list(range(1, len(seqs) + 1))
    assert source.age() < 5


@pytest.mark.slow
def test_a_connection_that_falls_silent_is_given_up_and_made_again(there, job, monkeypatch):
    """Nothing says that it is gone: packets just stay away, as in a tunnel of another kind."""
    monkeypatch.setattr(rltui.launch.tunnel, "WAITS_S", (0.1,))
    options = tuple(o.replace("Interval=5", "Interval=1") for o in rltui.launch.tunnel.OPTIONS)
    monkeypatch.setattr(rltui.launch.tunnel, "OPTIONS", options)
    source = SshLauncher(there.name).start(job).source
    first = tunnel_to(there.name)._process
    there.silence()
    with pytest.raises(Unreachable):
        source.status()
    until(lambda: first.poll() is not None)
    there.speak()

    def answers():
        try:
            return source.status() is not None
        except Unreachable:
            return False

    until(answers, 60)
    assert tunnel_to(there.name)._process is not first


@pytest.mark.slow
def test_the_server_is_started_again_where_that_host_was(there, job, monkeypatch):
    monkeypatch.setattr(rltui.launch.tunnel, "WAITS_S", (0.1,))
    started = SshLauncher(there.name).start(job)
    until(lambda: started.exit_code() == 0)
    os.kill(there.server()["pid"], signal.SIGKILL)
    os.kill(tunnel_to(there.name)._process.pid, signal.SIGKILL)

    def answers():
        try:
            return started.source.status()["state"] == "succeeded"
        except Unreachable:
            return False

    until(answers)


@pytest.mark.slow
def test_ctrl_c_leaves_the_job_running(there, job):
    there.vary(FAKE_STEPS="600", FAKE_PACE_S="0.2")
    command = [sys.executable, "-m", "rltui", "train", job.config, "--target", there.name, "--poll-interval", "0.1"]
    process = subprocess.Popen(
        command, env=there.environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("step 2/"):
            os.killpg(process.pid, signal.SIGINT)
            break
    lines += process.stdout
    assert process.wait(20) == 130
    place = lines[0].split()[1]
    assert "goes on" in lines[-1] and f"show {place} --follow" in lines[-1]
    source = run_at(place).source
    assert source.status()["state"] == "running"
    source.request("stop")
    until(lambda: source.status()["state"] == "cancelled")


@pytest.mark.slow
def test_a_program_that_is_killed_leaves_no_connection(there, job):
    there.vary(FAKE_STEPS="600", FAKE_PACE_S="0.2")
    command = [sys.executable, "-m", "rltui", "train", job.config, "--target", there.name]
    process = subprocess.Popen(command, env=there.environment(), stdout=subprocess.PIPE, text=True)
    place = process.stdout.readline().split()[1]
    assert ssh_processes(there)
    process.kill()
    process.wait()
    process.stdout.close()
    until(lambda: not ssh_processes(there))
    run_at(place).source.kill()


@pytest.mark.parametrize(
    ("fault", "words", "hint"),
    [
        ("unknown", "is no known host", "log in once by hand"),
        ("changed", "another host key", "ssh-keygen -R"),
        ("refused", "takes none of the keys", "ssh-copy-id"),
        ("missing", "rltui is not installed", "RLTUI_REMOTE"),
        ("broken", "no job server could be started on", "by hand"),
        ("closed", "no ssh server at that port", "ssh://"),
    ],
)
def test_a_login_that_fails_is_one_sentence_and_what_to_do(there, job, fault, words, hint):
    match fault:
        case "unknown":
            (there.folder / "known").write_text("")
        case "changed":
            make_key(there.folder / "other")
            there.know((there.folder / "other.pub").read_text())
        case "refused":  # a password would be taken, and is never asked for
            make_key(there.folder / "stranger")
            there.write_client("stranger")
        case "missing":
            there.remote.unlink()
        case "broken":
            there.remote.write_text("#!/bin/sh\necho 'no verb serve; did you mean smoke?' >&2\nexit 2\n")
        case "closed":
            there.cut()
    done = cli(there, "train", job.config, "--target", there.name, stdin=subprocess.DEVNULL)  # it does not hang
    assert done.returncode == 3
    assert words in done.stderr and hint in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 3
    fact = SshLauncher(there.name).facts()[0]
    assert fact.ok is False and words in fact.text and hint in fact.fix
    with pytest.raises(NoSuchRun, match=words):
        run_at(f"{there.name}/rl_0")


def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(tmp_path):
    """Between the look for a free one and ssh, which listens there, a login lies."""
    ssh = tmp_path / "ssh"
    tunnel = Tunnel("ssh://there", Host("there", None, (str(ssh),), "rltui"))
    taken = tunnel.url.rpartition(":")[2]
    ssh.write_text(f'#!/bin/sh\ncase "$*" in *-L*127.0.0.1:{taken}:*) echo taken >&2; exit 255;; esac\n')
    ssh.chmod(0o755)
    tunnel._forward("127.0.0.1:8787")
    assert tunnel.url.rpartition(":")[2] != taken
    ssh.write_text("#!/bin/sh\necho no way >&2; exit 255\n")
    with pytest.raises(LaunchError, match="no way"):
        tunnel._forward("127.0.0.1:8787")
    tunnel.close()


def test_no_ssh_at_all(there, job, monkeypatch):
    monkeypatch.setenv("RLTUI_SSH", "/nowhere/ssh")
    with pytest.raises(LaunchError, match="cannot be run"):
        SshLauncher(there.name).start(job)
