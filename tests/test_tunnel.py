"""The tunnel with a stand-in program on the PATH that writes what the real one writes."""

import asyncio
import os
import signal

import pytest

from tests.fake_cloudflared import install
from tests.waiting import comes
from trainer.tunnel import Tunnel, TunnelError


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts the stand-in on the PATH; its folder says how it behaves and what it was asked."""
    monkeypatch.setenv("PATH", f"{install(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLOUDFLARED", str(tmp_path))
    return tmp_path


async def test_it_gives_the_address_once_the_connection_stands_and_ends_the_program(fake):
    lines = []
    tunnel = Tunnel("http://127.0.0.1:8123", sink=lines.append)
    assert await tunnel.start() == tunnel.url == "https://fake-0.trycloudflare.com"
    pid = tunnel.pid
    asked = (fake / "argv").read_text().split()
    assert asked == ["tunnel", "--no-autoupdate", "--config", os.devnull, "--url", "http://127.0.0.1:8123"]
    assert any(b"Registered tunnel connection" in line for line in lines)
    await tunnel.stop()
    await tunnel.stop()
    assert tunnel.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_it_is_opened_again_when_it_dies_with_back_off_and_a_new_address(fake):
    waits, moved = [], []

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 4:
            (fake / "refuse").unlink()

    tunnel = Tunnel("http://127.0.0.1:1", on_change=moved.append, sleep=sleep)
    await tunnel.start()
    (fake / "refuse").touch()
    os.kill(tunnel.pid, signal.SIGKILL)
    await comes(lambda: moved)
    assert waits == [0, 1, 2, 4]
    assert moved == [tunnel.url] == ["https://fake-4.trycloudflare.com"]
    os.kill(tunnel.pid, signal.SIGTERM)
    await comes(lambda: len(moved) == 2)
    assert waits[4:] == [0] and tunnel.pid is not None
    await tunnel.stop()
    assert len(moved) == 2


async def test_a_refused_tunnel_says_so_with_the_end_of_the_log(fake):
    (fake / "refuse").touch()
    tunnel = Tunnel("http://127.0.0.1:1")
    with pytest.raises(TunnelError, match="cloudflared ended while it opened a tunnel; check that") as caught:
        await tunnel.start()
    assert "429 Too Many Requests" in caught.value.evidence and tunnel.pid is None
    await tunnel.stop()


async def test_a_program_that_never_connects_is_ended(fake):
    (fake / "silent").touch()
    tunnel = Tunnel("http://127.0.0.1:1", start_timeout_s=0.5)
    with pytest.raises(TunnelError, match=r"cloudflared took over 0\.5 s to open a tunnel"):
        await tunnel.start()
    assert tunnel.pid is None


async def test_a_start_that_is_cancelled_leaves_no_process(fake):
    (fake / "silent").touch()
    tunnel = Tunnel("http://127.0.0.1:1")
    start = asyncio.create_task(tunnel.start())
    await comes(lambda: tunnel.pid is not None)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert tunnel.pid is None


async def test_without_the_program_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TunnelError, match=r"cloudflared is not installed.*; install it from https://") as caught:
        await Tunnel("http://127.0.0.1:1").start()
    assert "\n" not in str(caught.value)
