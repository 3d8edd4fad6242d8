"""One completion as vLLM's generate endpoint takes and gives it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.inference.engine import Chunk, EngineError, Json, Sampling


def request_body(
    prompt_ids: Sequence[int], sampling: Sampling, end_ids: Sequence[int], *, model: str, version: int
) -> Json:
    """`end_ids` are all the model's end tokens: without a model's own sampling defaults vLLM knows one of them only."""
    params: Json = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "logprobs": 0,  # of the sampled token alone
        "seed": sampling.seed,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": sorted(end_ids),
        "detokenize": bool(sampling.stop),  # vLLM needs text only to look for stop strings
    }
    if sampling.stop:
        params |= {"stop": list(sampling.stop), "include_stop_str_in_output": True}
    return {
        "model": model,
        "token_ids": list(prompt_ids),
        "sampling_params": params,
        "stream": True,
        "cache_salt": f"v{version}",  # what was computed by other weights is never read again
    }


def chunk_of(choice: Json, version: int) -> Chunk:
    """Raises EngineError where tokens and log-probabilities do not match."""
    tokens = choice.get("token_ids") or []
    entries = (choice.get("logprobs") or {}).get("content") or []
    if len(entries) != len(tokens):
        raise EngineError(f"vLLM sent {len(tokens)} tokens with {len(entries)} log-probabilities")
    stop = choice.get("stop_reason")
    return Chunk(
        token_ids=tokens,
        logprobs=[entry["logprob"] for entry in entries],
        weight_version=version,
        finish_reason=choice.get("finish_reason"),
        stop_detail=stop if isinstance(stop, str) else None,  # a number is an end token
    )


def spans_of(choice: Json) -> list[tuple[int, int, int]] | None:
    """(start, end, version) over the completion, as the engine itself counted them; None if it does not."""
    spans = choice.get("weight_versions")
    if spans is None:
        return None
    return [(int(s["start"]), int(s["end"]), int(s["version"])) for s in spans if s["end"] > s["start"]]
