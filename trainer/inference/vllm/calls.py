"""One completion as vLLM's endpoints take and give it: token ids in, token ids out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.inference.engine import Chunk, EngineError, Json, Sampling


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where completions are asked for, and the shapes there.

    request: (prompt ids, sampling, end ids, name of model or adapter, cache salt) -> body. `end ids` are all the
        model's end tokens: without a model's own sampling defaults vLLM knows one of them only. What was computed
        under another salt, by other weights, is not read again.
    logprobs: those of the sampled tokens in a choice.
    top: the likeliest tokens beside each sampled one in a choice, with their log-probabilities.
    """

    path: str
    request: Callable[[Sequence[int], Sampling, Sequence[int], str, str], Json]
    logprobs: Callable[[Json], list[float]]
    top: Callable[[Json], list[dict[int, float]]]


def chunk_of(endpoint: Endpoint, choice: Json, version: int, *, top: bool = False) -> Chunk:
    """`top`: the call asked for the likeliest tokens. Raises EngineError where tokens and log-probabilities do not
    match, or cannot be read."""
    try:
        tokens, logprobs = [int(token) for token in choice.get("token_ids") or []], endpoint.logprobs(choice)
        likeliest = endpoint.top(choice) if top else None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EngineError(f"vLLM sent tokens that cannot be read: {str(choice)[:80]}") from None
    if len(logprobs) != len(tokens):
        raise EngineError(f"vLLM sent {len(tokens)} tokens with {len(logprobs)} log-probabilities")
    stop = choice.get("stop_reason")
    return Chunk(
        token_ids=tokens,
        logprobs=logprobs,
        weight_version=version,
        finish_reason=choice.get("finish_reason"),
        stop_detail=stop if isinstance(stop, str) else None,  # a number is an end token
        top=likeliest,
    )


def spans_of(choice: Json) -> list[tuple[int, int, int]] | None:
    """(start, end, version) over the completion, as the engine itself counted them; None if it does not."""
    spans = choice.get("weight_versions")
    if spans is None:
        return None
    return [(int(s["start"]), int(s["end"]), int(s["version"])) for s in spans if s["end"] > s["start"]]


def _sampling(sampling: Sampling, end_ids: Sequence[int]) -> Json:
    params: Json = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "logprobs": sampling.top_logprobs,  # 0: of the sampled token alone
        "seed": sampling.seed,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": sorted(end_ids),
    }
    if sampling.stop:
        params |= {"stop": list(sampling.stop), "include_stop_str_in_output": True}
    return params


def _tokens_request(
    prompt_ids: Sequence[int], sampling: Sampling, end_ids: Sequence[int], model: str, salt: str
) -> Json:
    params = _sampling(sampling, end_ids)
    params["detokenize"] = bool(sampling.stop)  # vLLM needs text only to look for stop strings
    return {
        "model": model,
        "token_ids": list(prompt_ids),
        "sampling_params": params,
        "stream": True,
        "cache_salt": salt,
    }


def _text_request(prompt_ids: Sequence[int], sampling: Sampling, end_ids: Sequence[int], model: str, salt: str) -> Json:
    return {
        "model": model,
        "prompt": list(prompt_ids),
        **_sampling(sampling, end_ids),
        "stream": True,
        # This endpoint does not say which weights sampled a token: the order of arrival does, so none may be held back.
        "stream_interval": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": sampling.top_logprobs > 0,  # their texts would not tell tokens apart
        "cache_salt": salt,
    }


def _tokens_logprobs(choice: Json) -> list[float]:
    return [float(entry["logprob"]) for entry in (choice.get("logprobs") or {}).get("content") or ()]


def _text_logprobs(choice: Json) -> list[float]:
    return [float(p) for p in (choice.get("logprobs") or {}).get("token_logprobs") or ()]


def _tokens_top(choice: Json) -> list[dict[int, float]]:
    content = (choice.get("logprobs") or {}).get("content") or ()
    return [{int(top["token_id"]): float(top["logprob"]) for top in entry["top_logprobs"]} for entry in content]


def _text_top(choice: Json) -> list[dict[int, float]]:
    tops = (choice.get("logprobs") or {}).get("top_logprobs") or ()
    return [{int(name.removeprefix("token_id:")): float(p) for name, p in (top or {}).items()} for top in tops]


TOKENS = Endpoint("/inference/v1/generate", _tokens_request, _tokens_logprobs, _tokens_top)
TEXT = Endpoint("/v1/completions", _text_request, _text_logprobs, _text_top)
