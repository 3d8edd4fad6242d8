"""Weight updates of a running vLLM server: checked, paused, made, labelled, and resumed whatever happens (WIRE 2.6).

vLLM's engine does not survive an error in the middle of an update. So what could be wrong with the files is looked for
before the engine is asked, by headers alone; what still goes wrong there ends in a restart at the earlier weights.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from trainer.inference.engine import EngineError, Json
from trainer.inference.vllm.http import VllmClient
from trainer.inference.vllm.options import TRANSFER_FLAGS, VllmSettings, lora_rank

UPDATE_S = 600.0  # minutes of a large model on a slow disk, but never for ever
MAX_HEADER = 100 << 20
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"

Header = dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


class UpdateBroken(EngineError):
    """The update failed half way: what the engine holds now is undefined."""


def header(file: Path) -> Header:
    """Names, dtypes and shapes of a safetensors file, whose size must be the one they need. Raises EngineError."""
    try:
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 2 <= length <= MAX_HEADER:
                raise ValueError("its header has no sensible length")
            entries = json.loads(handle.read(length))
        entries.pop("__metadata__", None)
        found = {name: (str(e["dtype"]), tuple(e["shape"])) for name, e in entries.items()}
        end = max((e["data_offsets"][1] for e in entries.values()), default=0)
    except OSError as error:
        raise EngineError(f"the weights in {file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise EngineError(f"{file} is no safetensors file: {error}") from None
    if file.stat().st_size != 8 + length + end:
        raise EngineError(f"{file} is cut off: it has {file.stat().st_size} bytes of {8 + length + end}")
    return found


def folder_header(folder: Path) -> Header:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineError(f"{folder} holds no *.safetensors file")
    return {name: entry for file in files for name, entry in header(file).items()}


def check_model_update(base: Header, folder: Path) -> None:
    """Raises EngineError when the update in `folder` has a tensor that the model does not have in that shape."""
    for name, (dtype, shape) in folder_header(folder).items():
        if name not in base:
            raise EngineError(f"the update has a tensor {name} that the model's files do not have")
        if shape != base[name][1]:
            raise EngineError(f"{name} is {shape} in the update, {base[name][1]} in the model")
        if dtype not in ("F32", "BF16", "F16"):
            raise EngineError(f"{name} is {dtype} in the update; weights are F32, BF16 or F16")


def check_adapter(base: Header, folder: Path, max_rank: int) -> None:
    """Raises EngineError when the adapter in `folder` does not fit the model or the engine's rank."""
    try:
        rank = int(json.loads((folder / ADAPTER_CONFIG).read_text())["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{folder / ADAPTER_CONFIG} cannot be used: {error!r}") from None
    if lora_rank(rank) > max_rank:
        raise EngineError(f"the adapter in {folder} has rank {rank}, the engine was started for {max_rank}")
    entries = header(folder / ADAPTER)
    if not entries:
        raise EngineError(f"{folder / ADAPTER} holds no tensor")
    for name, (_, shape) in entries.items():
        module, _, part = name.removeprefix("base_model.model.").rpartition(".lora_")
        weight = base.get(f"{module}.weight")
        if weight is None or part not in ("A.weight", "B.weight"):
            raise EngineError(f"the adapter has a tensor {name} for which the model has no layer")
        out_features, in_features = weight[1]
        if shape != ((rank, in_features) if part == "A.weight" else (out_features, rank)):
            raise EngineError(f"{name} is {shape} in the adapter, which does not fit {weight[1]} at rank {rank}")


def check(base: Header, folder: Path, settings: VllmSettings) -> None:
    """Raises EngineError when the engine could not take the update in `folder`."""
    if settings.sync == "none":
        raise EngineError("training.weight_sync is off: the engine was started without weight updates")
    if settings.sync == "lora":
        check_adapter(base, folder, lora_rank(settings.lora_r))
    else:
        check_model_update(base, folder)


@asynccontextmanager
async def paused(client: VllmClient) -> AsyncIterator[None]:
    """Running calls are kept where they are (vLLM's default would abort them) and go on afterwards. Raises
    UpdateBroken where they cannot."""
    failure: EngineError | None = None
    try:
        await client.call("POST", "/pause", mode="keep")
        yield
    except EngineError as error:
        failure = error
        raise
    finally:
        try:
            await client.call("POST", "/resume")
        except EngineError as error:
            # what failed first is the cause; a server that is gone cannot resume either
            raise UpdateBroken(f"{failure or error}; vLLM did not resume") from None


async def is_paused(client: VllmClient) -> bool:
    """It answers once an update that is being made there is over."""
    return bool((await client.call("GET", "/is_paused", timeout_s=UPDATE_S)).get("is_paused"))


async def go_on(client: VllmClient) -> None:
    """Ends the pause of somebody who is gone, and the update within it, in whatever place that was left: layers that
    it did not bring keep their weights."""
    with suppress(EngineError):  # it was in no update
        await client.call("POST", "/finish_weight_update", {}, timeout_s=UPDATE_S)
    await client.call("POST", "/resume")


async def sleep(client: VllmClient) -> None:
    """Weights go to the host's memory and the KV cache is given up; running calls are computed anew afterwards."""
    await client.call("POST", "/sleep", timeout_s=UPDATE_S, level="1", mode="keep")


async def wake(client: VllmClient) -> None:
    """Everything is in the GPU's memory again, and running calls go on."""
    await client.call("POST", "/wake_up", timeout_s=UPDATE_S)


async def prepare_transfer(client: VllmClient) -> None:
    """Raises EngineError where the server was started without our way to load weights."""
    try:
        await client.call("POST", "/init_weight_transfer_engine", {"init_info": {}})
    except EngineError as error:
        raise EngineError(f"vLLM has to be started with {TRANSFER_FLAGS}: {error}") from None


async def check_shared(client: VllmClient, folder: Path) -> None:
    """Raises EngineError where the server does not see `folder` as we do."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".mark-{secrets.token_hex(8)}"
    mark.write_text(mark.name)
    try:
        await client.call("POST", "/init_weight_transfer_engine", {"init_info": {"mark": str(mark)}})
    except EngineError as error:
        why = f"weights go through files, and vLLM does not see {folder} under that path"
        raise EngineError(f"{why}: {error}") from None
    finally:
        mark.unlink(missing_ok=True)


async def join(client: VllmClient, way: str, options: Json) -> None:
    """Opens the server's end of a way from device to device. Raises EngineError."""
    info = {"way": way, "options": options}
    await client.call("POST", "/init_weight_transfer_engine", {"init_info": info}, timeout_s=UPDATE_S)


async def transfer(client: VllmClient, update: Path | Json, label: str) -> None:
    """Merged or full weights through vLLM's own update calls: from files, or as the learner sends them meanwhile.
    Raises UpdateBroken."""
    info = {"path": str(update)} if isinstance(update, Path) else {"direct": update}
    try:
        await client.call("POST", "/start_weight_update", timeout_s=UPDATE_S)
        await client.call("POST", "/update_weights", {"update_info": info}, timeout_s=UPDATE_S)
        await client.call("POST", "/finish_weight_update", {"weight_version": label}, timeout_s=UPDATE_S)
    except EngineError as error:
        raise UpdateBroken(str(error)) from None


async def load_adapter(client: VllmClient, name: str, folder: Path) -> None:
    body = {"lora_name": name, "lora_path": str(folder)}
    await client.call("POST", "/v1/load_lora_adapter", body, timeout_s=UPDATE_S)


async def unload_adapter(client: VllmClient, name: str) -> None:
    await client.call("POST", "/v1/unload_lora_adapter", {"lora_name": name})


async def reload_adapter(client: VllmClient, name: str, folder: Path) -> None:
    """Other weights under the one name, for running calls too. Raises UpdateBroken, and EngineError where the
    earlier adapter still serves."""
    body = {"method": "rltui_reload_adapter", "kwargs": {"lora_int_id": "1", "name": name, "path": str(folder)}}
    try:
        results = (await client.call("POST", "/collective_rpc", body, timeout_s=UPDATE_S)).get("results")
    except EngineError as error:
        raise UpdateBroken(str(error)) from None
    if not results:
        raise UpdateBroken("vLLM's workers did not confirm the adapter")
    for result in results:
        if result.get("error"):
            raise EngineError(f"vLLM could not load the adapter in {folder}: {result['error']}")


async def label(client: VllmClient, version: int) -> None:
    await client.call("POST", "/update_weight_version", {"new_version": str(version)})
