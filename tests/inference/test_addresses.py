from __future__ import annotations

import pytest

from trainer.inference.addresses import base_url, chat_url, parse_address


@pytest.mark.parametrize(
    ("path", "query", "route", "repaired"),
    [
        ("/v1/chat/completions", "cid=C-1", "chat", False),
        ("/cid/C-1/v1/chat/completions", "", "chat", False),
        ("/cid/C-1/v1/completions", "", "completion", False),
        ("/v1/completions", "cid=C-1&x=1", "completion", False),
        ("/v1/chat/completions", "cid=C-1/v1/chat/completions", "chat", True),
        ("/", "cid=C-1/v1/chat/completions", "chat", True),
        ("/v1/chat/completions/chat/completions", "cid=C-1", "chat", True),
        ("/v1/chat/completions/v1/chat/completions", "cid=C-1", "chat", False),
        ("/cid/C-1/v1/chat/completions/chat/completions", "", "chat", True),
        ("/cid/C-1/v1/models", "", "models", False),
        ("/v1/embeddings", "cid=C-1", None, False),
    ],
)
def test_every_form_finds_the_episode(path, query, route, repaired):
    address = parse_address(path, query)
    assert (address.route, address.cid, address.repaired) == (route, "C-1", repaired)


def test_no_cid():
    assert parse_address("/v1/chat/completions", "").cid is None
    assert parse_address("/health", "").route == "health"


def test_urls():
    assert chat_url("http://h:1", "J-0") == "http://h:1/v1/chat/completions?cid=J-0"
    assert base_url("http://h:1", "J-0") == "http://h:1/cid/J-0/v1"
