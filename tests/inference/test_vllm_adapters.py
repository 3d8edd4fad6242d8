"""Adapters by name, against a server that lets some of them not go."""

from __future__ import annotations

from pathlib import Path

from trainer.inference.engine import EngineError
from trainer.inference.vllm.adapters import Adapters


class Client:
    """As a VllmClient; `stuck` adapters cannot be unloaded."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stuck: set[str] = set()

    async def call(self, method: str, path: str, body: dict, **_: object) -> dict:
        name = body["lora_name"]
        if path == "/v1/load_lora_adapter":
            self.loaded.add(name)
        elif name in self.stuck:
            raise EngineError(f"vLLM did not answer {path} within 60 s")
        else:
            self.loaded.remove(name)
        return {}


async def test_an_adapter_that_the_server_does_not_let_go_stays_and_is_tried_again(tmp_path: Path) -> None:
    notes: list[str] = []
    client, adapters = Client(), Adapters(True, notes.append)
    client.stuck = {"adapter-v1"}
    for version in (1, 2):
        await adapters.load(client, tmp_path, version)
    await adapters.retire(client, 2)
    assert client.loaded == {"adapter-v1", "adapter-v2"}
    assert notes == ["adapter-v1 stays loaded: vLLM did not answer /v1/unload_lora_adapter within 60 s"]
    client.stuck = set()
    await adapters.load(client, tmp_path, 3)
    await adapters.retire(client, 3)
    assert client.loaded == {"adapter-v3"}


async def test_a_version_is_not_unloaded_while_a_call_samples_from_it(tmp_path: Path) -> None:
    client, adapters = Client(), Adapters(True, print)
    await adapters.load(client, tmp_path, 1)
    adapters.begin_call(1)
    await adapters.load(client, tmp_path, 2)
    await adapters.retire(client, 2)
    assert client.loaded == {"adapter-v1", "adapter-v2"}
    adapters.end_call(1)
    await adapters.retire(client, 2)
    assert client.loaded == {"adapter-v2"}
