"""Which engine a run has, and with what: the keys of [inference], [vllm] and [compute] that say so. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.config import RunConfig
from trainer.config.gpus import COLOCATE, on_gpu
from trainer.devices import Devices, Place, replica_places
from trainer.inference.engine import Engine, EngineConfigError, EngineError
from trainer.inference.four_bit import four_bit_form
from trainer.inference.local import LocalEngine
from trainer.inference.pool import EnginePool
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import OptionRefused, VllmSettings, arguments
from trainer.inference.vllm.process import NOT_INSTALLED, is_installed, usable_cores
from trainer.models import ResolvedModel
from trainer.placing.base import Placing
from trainer.weights.choose import sync_mode, way_of

Sink = Callable[[bytes], object]

WITHOUT_VLLM = (
    "inference.engine = auto: a GPU is here but vLLM is not, so the local engine serves, which is far slower on a GPU; "
    "pip install 'rltui[vllm]'"
)


def engine_kind(config: RunConfig, *, installed: bool) -> str:
    """`vllm` or `local`. Raises EngineError where what is asked for cannot be had."""
    asked = config.inference.engine
    if config.inference.url is not None:  # beside which the config cannot ask for the local one
        return "vllm"
    if asked == "vllm":
        if not installed:
            raise EngineError(NOT_INSTALLED)
        return "vllm"
    return "vllm" if asked == "auto" and on_gpu(config) and installed else "local"


def engine_notes(config: RunConfig, *, installed: bool) -> list[str]:
    """What a user should be told about the choice."""
    auto = config.inference.engine == "auto" and config.inference.url is None
    return [WITHOUT_VLLM] if auto and on_gpu(config) and not installed else []


def build_engines(
    config: RunConfig, model: ResolvedModel, placing: Placing, log: Callable[[str], Sink]
) -> list[Engine]:
    """The replicas, not started, on nodes that are. On this machine one local engine serves. Raises EngineError."""
    try:
        places = replica_places(config, [node.gpus for node in placing.nodes])
    except ValueError as error:
        raise EngineConfigError(str(error)) from None
    if engine_kind(config, installed=is_installed()) == "local":
        return [
            LocalEngine(
                model,
                dtype=config.training.dtype,
                max_model_len=config.vllm.max_model_len,
                max_num_seqs=config.vllm.max_num_seqs,
                startup_timeout_s=config.inference.startup_timeout_s,
                threads=placing.nodes[place.node].cores,
                deterministic=config.training.deterministic,
                tool_call_parser=config.vllm.tool_call_parser,
                devices=place.devices,
                sink=log(f"inference-{i}"),
                placing=placing,
                node=place.node,
            )
            for i, place in enumerate(places if placing.address is not None else places[:1])
        ]
    if config.inference.url is not None:
        places = [Place(0, ())]
    else:
        try:
            arguments(vllm_settings(config, model, places[0].devices), "", "")
        except OptionRefused as error:
            raise EngineError(str(error)) from None
    return [
        VllmEngine(
            model,
            vllm_settings(config, model, place.devices, elsewhere=placing.address is not None),
            url=config.inference.url,
            startup_timeout_s=config.inference.startup_timeout_s,
            sink=log(f"inference-{i}"),
            placing=placing,
            node=place.node,
        )
        for i, place in enumerate(places)
    ]


def one_engine(engines: Sequence[Engine]) -> Engine:
    """What gateway and weight sync see."""
    return engines[0] if len(engines) == 1 else EnginePool(engines)


def vllm_settings(
    config: RunConfig, model: ResolvedModel, devices: Devices, *, elsewhere: bool = False
) -> VllmSettings:
    """`elsewhere`: on a node of whose cores nothing is known here."""
    vllm, training = config.vllm, config.training
    return VllmSettings(
        model=model.path,
        name=model.name,
        dtype=training.dtype,
        seed=training.seed,
        max_model_len=vllm.max_model_len,
        sync=sync_mode(config, "vllm"),
        cuda_devices=devices,
        shares_gpus=bool(devices) and config.compute.topology.type == COLOCATE,
        takes_handles=way_of(config, "vllm")[0] == "ipc",
        cores=() if devices or elsewhere else usable_cores(),
        lora_r=training.lora.r,
        four_bit=four_bit_form(config, "vllm") == "quantised",
        pins=config.evaluation is not None,
        gpu_memory_utilization=vllm.gpu_memory_utilization,
        max_num_seqs=vllm.max_num_seqs,
        enforce_eager=vllm.enforce_eager,
        images_per_prompt=vllm.limit_mm_per_prompt.image,
        tool_call_parser=vllm.tool_call_parser,
        extra=vllm.model_extra or {},
    )
