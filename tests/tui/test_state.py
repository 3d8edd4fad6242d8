"""The memory of place: it comes back, it is bounded, and no file can break it."""

from __future__ import annotations

import json
import stat

import pytest

from rltui.state import MOST_RUNS, Memory, state_file


def test_what_was_kept_comes_back(tmp_path):
    path = tmp_path / "deep" / "place.json"
    memory = Memory(path)
    memory.put("theme", "light")
    memory.keep("job-1", tab="rollouts", follow=False)
    memory.keep("job-1", filter="reward > 0.5")
    assert memory.save() and not memory.save()  # nothing new the second time
    again = Memory(path)
    assert again.get("theme") == "light" and again.get("screen") is None
    assert again.of("job-1") == {"tab": "rollouts", "follow": False, "filter": "reward > 0.5"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["place.json"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[1]",
        b'{"schema": 99, "app": {"theme": "x"}}',
        b'{"schema": 1, "app": 3, "runs": {"a": 4}}',
        b"[" * 100_000,
        b'{"schema": 1, "app": {"theme": "' + b"x" * (2 << 20) + b'"}}',
    ],
)
def test_a_damaged_file_is_an_empty_one_and_is_replaced(tmp_path, damage):
    path = tmp_path / "place.json"
    path.write_bytes(damage)
    memory = Memory(path)
    assert memory.get("theme") is None and memory.of("a") == {}
    memory.put("theme", "dark")
    assert memory.save() and Memory(path).get("theme") == "dark"


def test_only_the_runs_used_last_are_kept(tmp_path):
    memory = Memory(tmp_path / "place.json")
    for number in range(MOST_RUNS + 5):
        memory.keep(f"run-{number}", tab="logs")
        memory.keep("often", tab="overview")
    memory.save()
    runs = json.loads((tmp_path / "place.json").read_text())["runs"]
    assert len(runs) == MOST_RUNS and "often" in runs and "run-0" not in runs and f"run-{MOST_RUNS + 4}" in runs


def test_two_interfaces_do_not_undo_each_other(tmp_path):
    one, two = Memory(tmp_path / "place.json"), Memory(tmp_path / "place.json")
    one.keep("a", tab="logs")
    two.keep("b", tab="rollouts")
    assert one.save() and two.save()
    assert Memory(tmp_path / "place.json").of("a") == {"tab": "logs"}


def test_readonly_writes_nothing_and_no_fault_reaches_the_caller(tmp_path):
    quiet = Memory(tmp_path / "place.json", readonly=True)
    quiet.keep("a", tab="logs")
    assert not quiet.save() and not list(tmp_path.iterdir()) and quiet.of("a") == {"tab": "logs"}
    (tmp_path / "file").write_text("")
    blocked = Memory(tmp_path / "file" / "place.json")
    blocked.put("theme", "dark")
    assert not blocked.save()


def test_what_is_no_json_or_too_long_is_not_kept(tmp_path):
    memory = Memory(tmp_path / "place.json")
    memory.keep("a", tab="logs", bad=object(), long="x" * 10_000, nan=float("nan"))
    assert memory.of("a") == {"tab": "logs"}


def test_the_file_follows_xdg():
    assert str(state_file({"XDG_STATE_HOME": "/s"})) == "/s/rltui/place.json"
    assert str(state_file({"XDG_STATE_HOME": "relative", "HOME": "/h"})) == "/h/.local/state/rltui/place.json"
