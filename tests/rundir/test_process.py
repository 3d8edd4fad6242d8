from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trainer.rundir import ProcessId


def test_a_process_is_alive_until_it_ends_even_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessId.of(child.pid)
    assert identity.alive() is True and identity.same_machine()
    assert identity.signal(signal.SIGTERM)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet reaped
    assert identity.alive() is False and not identity.signal(signal.SIGTERM)
    child.wait()
    assert identity.alive() is False
    with pytest.raises(ProcessLookupError):
        ProcessId.of(child.pid)


def test_a_reused_pid_a_reboot_and_another_host() -> None:
    here = ProcessId.current()
    assert here.alive() is True
    assert msgspec.structs.replace(here, start_time=here.start_time + 1).alive() is False
    assert msgspec.structs.replace(here, boot_id="earlier").alive() is False
    elsewhere = msgspec.structs.replace(here, host="elsewhere")
    assert elsewhere.alive() is None and not elsewhere.signal(signal.SIGTERM)


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="needs /proc")
def test_a_command_name_with_parentheses_does_not_shift_the_fields(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/cat")
    child = subprocess.Popen([odd], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.read(1) == b"x"  # it runs: its name is set
        start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        assert ProcessId.of(child.pid).start_time == int(start) > 0
    finally:
        child.communicate()
