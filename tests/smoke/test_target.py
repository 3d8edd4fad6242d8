"""Serving the app: its port, its variables, and whose processes are left alone."""

import os
import socket

import pytest

from rltui.smoke.target import Target, TargetRefused, holder_of, is_ours, make_room
from tests.waiting import free_port


async def test_an_app_of_ours_on_the_port_is_replaced_only_by_force() -> None:
    port = free_port()
    first, second = Target("builtin:facts", port=port), Target("builtin:facts", port=port)
    try:
        await first.start()
        holder = holder_of(port)
        assert holder is not None and is_ours(holder)
        with pytest.raises(TargetRefused, match=f"process {holder.pid}.*task_app_force = true"):
            await second.start()
        assert first.alive
        forced = Target("builtin:facts", port=port, force=True)
        try:
            await forced.start()
            assert forced.alive and forced.url.endswith(f":{port}") and forced.keys != first.keys
        finally:
            await forced.close()
    finally:
        await first.close()
    assert first.died is not None


async def test_a_process_of_someone_else_is_named_and_never_ended() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TargetRefused, match=f"held by process {os.getpid()}.*not ours to end"):
            await make_room(port, force=True)


def test_the_variables_of_a_file_reach_the_app_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KNOWN", "already set")
    (tmp_path / ".env").write_text("KNOWN=other\nDATA_TOKEN=value-of-the-file\n")
    target = Target("builtin:facts", env_file=str(tmp_path / ".env"))
    assert target._env["DATA_TOKEN"] == "value-of-the-file" and target._env["KNOWN"] == "already set"
    assert "DATA_TOKEN" not in os.environ and "value-of-the-file" in target.secrets
    with pytest.raises(TargetRefused, match=r"cannot read .*smoke.task_app_env_file"):
        Target("builtin:facts", env_file=str(tmp_path / "no.env"))
