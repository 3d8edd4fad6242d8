"""A run that is killed in an update of weights, and the next one on the same server (PAINS T22)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.inference.test_vllm_server import engine_at, server  # noqa: F401 - a fixture
from tests.inference.vllm_tools import complete
from trainer.inference.engine import EngineError

CLIENT = """
import asyncio, sys
from pathlib import Path
from trainer.inference.vllm.http import VllmClient
from trainer.inference.vllm.updates import paused, transfer

async def update():
    client = VllmClient(sys.argv[1])
    async with paused(client):
        await transfer(client, Path(sys.argv[2]), "4")

asyncio.run(update())
"""


async def killed_in(server, path: str, folder: Path) -> None:  # noqa: F811
    """A client that is killed as it waits for the answer to `path`."""
    reached = server.reached[path] = asyncio.Event()
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, server.url, str(folder))
    await asyncio.wait_for(reached.wait(), 60)
    client.send_signal(signal.SIGKILL)
    assert await client.wait() == -signal.SIGKILL
    server.reached.clear()
    server.calls.clear()


@pytest.mark.parametrize("path", ["/start_weight_update", "/update_weights", "/finish_weight_update"])
async def test_a_server_that_a_killed_run_left_paused_goes_on_before_the_first_token(server, tiny, tmp_path, path):  # noqa: F811
    await killed_in(server, path, tmp_path)
    assert not server.going.is_set()
    engine = engine_at(server, tiny)
    async with asyncio.timeout(30):
        await engine.start()
        assert (await complete(engine, [1])).tokens == [65, 66]
    assert server.calls.index("/resume") < server.calls.index("/inference/v1/generate")
    assert not server.updating  # or the first sync of the next run would fail
    (note,) = engine.take_notes()
    assert note.startswith(f"the server at {server.url} was left paused, as by a run that was killed in an update")
    await engine.stop()


@pytest.mark.parametrize("sync", ["none", "lora"])
async def test_a_run_that_sends_it_no_weights_leaves_a_paused_server_alone_and_says_so(server, tiny, sync):  # noqa: F811
    server.going.clear()
    with pytest.raises(EngineError, match=r"was left paused.*start it again, or let it go on by POST /resume"):
        async with asyncio.timeout(30):
            await engine_at(server, tiny, sync=sync).start()
    assert "/resume" not in server.calls and "/finish_weight_update" not in server.calls
