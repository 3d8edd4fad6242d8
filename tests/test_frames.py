"""The asyncio end of a channel: whichever way a peer goes away, the reader is told."""

import asyncio

import pytest

from trainer.frames import Channel, pack


@pytest.mark.parametrize("error", [None, ConnectionResetError(), BrokenPipeError()])
async def test_a_peer_that_is_gone_ends_the_stream(error):
    """A write that fails with a broken pipe breaks the reader of the same connection, too."""
    reader = asyncio.StreamReader()
    reader.feed_data(pack({"type": "last"}))
    channel = Channel(reader, writer=None)
    assert await channel.receive() == {"type": "last"}
    if error is None:
        reader.feed_data(b"\x09")
        reader.feed_eof()
    else:
        reader.set_exception(error)
    assert await channel.receive() is None
