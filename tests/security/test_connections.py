"""Who connects and says nothing, and servers that send a client elsewhere."""

import asyncio
import socket
from pathlib import Path

import pytest

from rltui.backend import Backend, BackendError
from rltui.export.fetched import _plain
from trainer.inference.gateway import Gateway
from trainer.rollout.episode import Assignment
from trainer.rollout.player import correlation_id
from trainer.taskapp import slow


async def test_half_a_request_does_not_hold_the_gateway(monkeypatch):
    monkeypatch.setattr(slow, "HEAD_S", 0.2)
    gateway = Gateway(None)  # type: ignore[arg-type] # no request comes so far as to need an engine
    await gateway.start()
    try:
        for begun in (b"", b"POST /v1/chat/completions?cid=x HTTP/1.1\r\nHost: x\r\n"):
            host, _, port = gateway.url.removeprefix("http://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(begun)
            assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()
    finally:
        await gateway.stop()


def test_an_episodes_address_cannot_be_guessed():
    assignment = Assignment("train", iteration=1, group=0, member=0, seed=7)
    made = {correlation_id("rl_0", assignment, 0) for _ in range(100)}
    assert len(made) == 100 and {len(cid.partition("rl_0-1-0-0-0-")[2]) for cid in made} == {16}  # 96 bits


def test_a_servers_files_stay_in_their_folder_and_the_token_at_their_server(tmp_path: Path):
    for name in ("checkpoints/step_1/..", "checkpoints/step_1/../../x", "checkpoints/step_1/a/b", "x"):
        assert _plain({"name": name}) is None
    assert _plain({"name": "checkpoints/step_1/config.json"}) == "config.json"
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0)
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/api/x"
        with Backend("http://127.0.0.1:9", "token-of-the-server") as backend:
            with pytest.raises(BackendError, match="outside"):
                backend.download(url, tmp_path / "x")
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
