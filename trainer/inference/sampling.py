"""What of an app's request reaches the engine (WIRE 2.3). Pure functions over the decoded JSON body."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from trainer.inference.engine import Sampling

Json = dict[str, Any]

MAX_STOPS = 16
MAX_TOP_K = (1 << 31) - 1  # engines keep it in 32 bits
MIN_PENALTY = 1e-3  # as far beyond as below its inverse logits overflow
MIN_TEMPERATURE = 1e-3  # logits divided by less than this overflow, and the sample is the greedy one anyway

# Parameters that bend the sampled distribution: name -> the values that change nothing. A training call sampled
# from a bent distribution would bias every importance ratio.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "best_of": (1,),
    "typical_p": (1,),
    "length_penalty": (1,),
}
_DROPPED: dict[str, tuple[Any, ...]] = {
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "stop_token_ids": ([],),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "logits_processors": ([],),
    "thinking_token_budget": (),
}
# On an evaluation call these reach the engine; the others have no place in `Sampling`, so they are dropped there too.
_SERVED_IN_EVALUATION = {"top_p", "top_k", "repetition_penalty"}


class BadRequest(ValueError):
    """The app's request cannot be served as it stands. `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """What the run says about the calls of one episode."""

    split: Literal["train", "eval"]
    temperature: float
    max_tokens: int
    stop: tuple[str, ...] = ()
    call_limit: int = 1 << 30
    seed_parts: tuple[int, ...] = ()  # training.seed, iteration, group, member, try; the call is added
    top_p: float = 1.0  # these three on evaluation calls only
    top_k: int = -1
    repetition_penalty: float = 1.0
    template_kwargs: Json = field(default_factory=dict)
    version: int | None = None  # the pinned weights of an evaluation; None: those that serve


def call_seed(parts: tuple[int, ...], call: int) -> int:
    """63 bits that depend on nothing but the episode's place in the run and the call's index."""
    text = ",".join(map(str, (*parts, call)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def call_sampling(request: Json, policy: CallPolicy, call: int) -> tuple[Sampling, Json]:
    """Sampling of one call, and what of the request was forced or dropped. Raises BadRequest."""
    return (training_sampling if policy.split == "train" else evaluation_sampling)(request, policy, call)


def training_sampling(request: Json, policy: CallPolicy, call: int = 0) -> tuple[Sampling, Json]:
    """The plain distribution at the app's or the policy's temperature, under our seed."""
    forced = _dropped(request, _NEUTRAL | _DROPPED)
    if request.get("seed") is not None:
        forced["seed"] = _shown(request["seed"])
    temperature = _number(request, "temperature", lambda t: 0 <= t <= 100)
    if temperature is not None and temperature < MIN_TEMPERATURE:
        forced["temperature"] = temperature
        temperature = None
    max_tokens, cut = _max_tokens(request, policy)
    if cut is not None:
        forced["max_tokens"] = cut
    sampling = Sampling(
        temperature=policy.temperature if temperature is None else temperature,
        max_tokens=max_tokens,
        stop=_stops(request, policy),
        seed=call_seed(policy.seed_parts, call),
    )
    return sampling, forced


def evaluation_sampling(request: Json, policy: CallPolicy, call: int = 0) -> tuple[Sampling, Json]:
    """The app's own sampling, except for the run's evaluation temperature; the policy's filters are defaults.
    What no engine of ours can do (structured outputs and the like) is named as dropped."""
    for name in ("frequency_penalty", "presence_penalty", "min_p"):
        _number(request, name, lambda x: True)
    top_p = _number(request, "top_p", lambda p: 0 < p <= 1)
    top_k = _number(request, "top_k", lambda k: -1 <= k <= MAX_TOP_K and k == int(k))
    penalty = _number(request, "repetition_penalty", lambda r: MIN_PENALTY <= r <= 1 / MIN_PENALTY)
    seed = request.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadRequest("seed must be an integer", "seed")
    sampling = Sampling(
        temperature=policy.temperature,
        max_tokens=_max_tokens(request, policy)[0],
        stop=_stops(request, policy),
        seed=call_seed(policy.seed_parts, call) if seed is None else seed & ((1 << 63) - 1),
        top_p=policy.top_p if top_p is None else top_p,
        top_k=policy.top_k if top_k is None else int(top_k),
        repetition_penalty=policy.repetition_penalty if penalty is None else penalty,
        version=policy.version,
    )
    unserved = {name: neutral for name, neutral in (_NEUTRAL | _DROPPED).items() if name not in _SERVED_IN_EVALUATION}
    return sampling, _dropped(request, unserved)


def _dropped(request: Json, rules: dict[str, tuple[Any, ...]]) -> Json:
    """What of the request does not reach the engine, by name."""
    forced = {
        name: _shown(value)
        for name, neutral in rules.items()
        if (value := request.get(name)) is not None and value not in neutral
    }
    for name in ("tool_choice", "function_call"):
        if request.get(name) not in (None, "auto", "none"):
            forced[name] = _shown(request[name])
    return forced


def _number(request: Json, name: str, allowed: Callable[[float], bool]) -> float | None:
    value = request.get(name)
    if value is None:
        return None
    # NaN fails every comparison, so the ranges refuse it too
    if isinstance(value, bool) or not isinstance(value, int | float) or not allowed(value):
        raise BadRequest(f"{name} must be a number in its range", name)
    return value


def _max_tokens(request: Json, policy: CallPolicy) -> tuple[int, int | None]:
    """The completion limit, and what was asked for if that was over the cap."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = request.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequest(f"{name} must be an integer of at least 1", name)
        return min(value, policy.max_tokens), value if value > policy.max_tokens else None
    return policy.max_tokens, None


def _stops(request: Json, policy: CallPolicy) -> tuple[str, ...]:
    value = request.get("stop")
    if value is None:
        return policy.stop
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(s, str) for s in stops) or len(stops) > MAX_STOPS:
        raise BadRequest(f"stop must be a string or a list of at most {MAX_STOPS} strings", "stop")
    return tuple(s for s in stops if s)


def _shown(value: Any) -> Any:
    """What the record keeps of a forced value: enough to recognise it."""
    return value if isinstance(value, int | float | bool) else str(value)[:200]
