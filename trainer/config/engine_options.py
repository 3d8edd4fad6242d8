"""Options of vLLM that a run sets itself or cannot do without: the keys that [vllm] may not hold, and why.

One table for two readers: the check of a config, and the start of the engine.
"""

_ADDRESS = "the run reaches its engine over a private socket"
_OURS = "the run sets it itself"
_LOGPROBS = "the gateway records the log-probabilities of the sampling distribution; the learner's ratios need them"
_EXACT = "with other sampling defaults the distribution would no longer be the one that the learner computes"
_SCALE_OUT = "the gateway asks for tokens through these endpoints"
_LORA = "it follows from training.weight_sync.mode and training.lora.r"
_MODEL = "it follows from policy.model_name and policy.label"
_TRANSFER = "the run sets up the transfer of weights itself"

_REFUSED = {
    **dict.fromkeys(("host", "port", "uds", "root_path", "ssl_keyfile", "ssl_certfile"), _ADDRESS),
    "api_key": _ADDRESS,
    **dict.fromkeys(("headless", "api_server_count", "grpc_port", "tokens_only", "config", "stream_interval"), _OURS),
    **dict.fromkeys(("model", "served_model_name"), _MODEL),
    "tokenizer": "engine and learner share the tokenizer of policy.model_name",
    "skip_tokenizer_init": "chats could not be rendered",
    "dtype": "it is training.dtype",
    "seed": "each call has a seed of its own, from training.seed",
    **dict.fromkeys(("logprobs_mode", "max_logprobs"), _LOGPROBS),
    **dict.fromkeys(("generation_config", "override_generation_config", "logits_processors"), _EXACT),
    **dict.fromkeys(("enable_scale_out", "disable_frontend_multiprocessing"), _SCALE_OUT),
    **dict.fromkeys(
        ("enable_lora", "max_loras", "max_cpu_loras", "max_lora_rank", "lora_modules", "lora_dtype"), _LORA
    ),
    **dict.fromkeys(("worker_extension_cls", "weight_transfer_config"), _TRANSFER),
    "enable_sleep_mode": "it follows from compute.topology.type: an engine that shares its GPU sleeps during updates",
    "data_parallel_size": "replicas are gpus_for_vllm / tensor_parallel",
    "pipeline_parallel_size": "an engine replica is split by compute.topology.tensor_parallel alone",
}


def why_refused(option: str) -> str | None:
    """Why `option` (with _ or -) may not be given; None where it may. Its beginning is refused as well, as is its
    opposite: vLLM's command line takes both."""
    name = option.replace("-", "_").removeprefix("no_")
    return _REFUSED.get(name) or next((why for known, why in _REFUSED.items() if known.startswith(name)), None)
