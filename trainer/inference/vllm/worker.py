"""What runs inside vLLM's worker processes: weights from files or from the learner's device, through vLLM's own plug-in
points and nothing else.

vLLM imports this module by `--worker-extension-cls`. That registers the weight transfer backend below, which the
server's `--weight-transfer-config` names and its init, start, update and finish calls drive; vLLM's layerwise reload
then repacks and replaces each layer in place. The other end is `trainer.inference.vllm.updates`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

BACKEND = "rltui_files"
ORPHAN_GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1


@dataclass
class OurInit(WeightTransferInitInfo):
    mark: str = ""  # a file that holds its own name, if both sides see the same folder
    way: str = ""  # nccl, ipc: opens it
    options: dict[str, Any] = field(default_factory=dict)  # for vLLM's own engine of that way


@dataclass
class OurUpdate(WeightTransferUpdateInfo):
    path: str = ""  # folder with *.safetensors under the names of the model's own files; a part of them is enough
    direct: dict[str, Any] = field(default_factory=dict)  # instead: the update of vLLM's own engine


class OurEngine(WeightTransferEngine[OurInit, OurUpdate]):
    """Loads the update laid over the model's own files. Whole layers: vLLM fuses q, k and v, so a reload that brings
    one of them needs the others as well. Or has vLLM's own engines receive it, all layers of it."""

    init_info_cls = OurInit
    update_info_cls = OurUpdate
    supports_draft_weight_update = False
    _direct: WeightTransferEngine[Any, Any] | None = None

    def init_transfer_engine(self, init_info: OurInit) -> None:
        if init_info.mark and Path(init_info.mark).read_text() != Path(init_info.mark).name:
            raise ValueError(f"{init_info.mark} is another file here")
        if init_info.way:
            engine = WeightTransferEngineFactory._registry[init_info.way]()
            self._direct = engine(self.config, self.vllm_config, self.device, self.model)
            self._direct.init_transfer_engine(self._direct.parse_init_info(init_info.options))

    def start_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: OurUpdate) -> None:
        if not update_info.path:
            assert self._direct is not None
            self._direct.receive_weights(self._direct.parse_update_info(update_info.direct))
            return
        self.model.load_weights(overlaid(Path(self.model_config.model), Path(update_info.path)))

    def finish_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        repack_heads(self.model)

    def shutdown(self) -> None:
        pass


def overlaid(base: Path, update: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of `base`, taken from `update` where it has one. Copies: the files may go once they are read."""
    newer = {name: file for file in sorted(update.glob("*.safetensors")) for name in _names(file)}
    for file in sorted(base.glob("*.safetensors")):
        with safe_open(str(file), framework="pt") as own:
            for name in own.keys():
                if name not in newer:
                    yield name, own.get_tensor(name).clone()
                    continue
                with safe_open(str(newer[name]), framework="pt") as ours:
                    yield name, ours.get_tensor(name).clone()


def repack_heads(model: torch.nn.Module) -> None:
    """On a CPU vLLM computes with a packed copy of each matrix. A head that shares the embedding's weights is in no
    file, so the reload leaves it the copy of the earlier ones. On a GPU there is no copy, and this does nothing."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, UnquantizedEmbeddingMethod

    for module in model.modules():
        if isinstance(module, ParallelLMHead) and isinstance(module.quant_method, UnquantizedEmbeddingMethod):
            module.quant_method.process_weights_after_loading(module)


def _names(file: Path) -> list[str]:
    with safe_open(str(file), framework="pt") as handle:
        return list(handle.keys())


class WorkerExtension:
    """Mixed into vLLM's worker; its methods are called by name through /collective_rpc."""

    def rltui_reload_adapter(self, lora_int_id: str, name: str, path: str) -> dict[str, str]:
        """Replaces a loaded adapter for calls that are running and for new ones.

        `load_inplace` of /v1/load_lora_adapter would stay set in every later request, and have the adapter read from
        its file before every step. An exception in here would end the engine: it is returned instead.
        """
        from vllm.lora.request import LoRARequest

        try:
            self.add_lora(LoRARequest(name, int(lora_int_id), path, load_inplace=True))  # type: ignore[attr-defined]  # vLLM's
        except Exception as error:  # told in words: what vLLM raises need not pickle
            return {"error": f"{type(error).__name__}: {error}"[:500]}
        return {}


def _die_with_parents() -> None:
    """A killed server must not leave its processes behind, holding memory; vLLM itself sees to clean ends only.

    The worker goes with its parent at once. Where that is the engine core, a process in which none of our code runs,
    it is watched from here as well: orphaned, it gets a moment to end by itself.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.getppid()
    threading.Thread(target=_end_orphan, args=(parent, _parent_of(parent)), daemon=True).start()


def _end_orphan(process: int, parent: int | None) -> None:
    while _parent_of(process) == parent:
        time.sleep(1.0)
    time.sleep(ORPHAN_GRACE_S)
    os.kill(process, signal.SIGKILL)


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return None


if BACKEND not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine(BACKEND, OurEngine)
_die_with_parents()
