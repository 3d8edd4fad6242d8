"""What the canary asks of engine and learner, and what of it a resumed run keeps."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.inference.engine import Engine, EngineConfigError, EngineError, Sampling
from trainer.learner.client import LearnerProcess
from trainer.weights.canary import TOP, Floats, Reading, Tops
from trainer.weights.prefixes import ENDS, PASSAGES, prefixes

Ids = NDArray[np.int32]
# One token, sampled as training's are: by the same endpoint, under the same name and cache salt.
_ONE = Sampling(temperature=0.0, max_tokens=1, seed=0, top_logprobs=TOP)


async def prefixes_of(engine: Engine) -> list[Ids]:
    """In the tokens of its model. Raises EngineError; EngineConfigError where its context cannot hold them."""
    passages = [await engine.tokenize(text) for text in PASSAGES]
    try:
        return prefixes(passages, engine.cache_block, engine.max_model_len)
    except ValueError as error:
        raise EngineConfigError(str(error)) from None


async def ask_engine(engine: Engine, prefixes: Sequence[Ids]) -> Tops:
    """The likeliest tokens after each prefix. The first of those that begin alike goes ahead: the others find its
    beginning in the cache. Raises EngineError."""
    tops: list[dict[int, float]] = [{} for _ in prefixes]

    async def ask(i: int) -> None:
        async with aclosing(engine.generate(prefixes[i].tolist(), _ONE)) as chunks:
            async for chunk in chunks:
                if chunk.top:
                    tops[i] = chunk.top[0]
        if not tops[i]:
            raise EngineError("the engine gave no log-probabilities beside the sampled token's, which the canary needs")

    places = range(len(prefixes))
    for part in ([i for i in places if i % ENDS == 0], [i for i in places if i % ENDS]):
        tasks = [asyncio.ensure_future(ask(i)) for i in part]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return tops


async def ask_learner(learner: LearnerProcess, prefixes: Sequence[Ids], candidates: Sequence[Ids]) -> list[Floats]:
    """Log-probabilities [P, K] of several sets of candidates [P, K], in one pass. Raises LearnerError."""
    rows = np.concatenate(candidates, axis=1)
    answer = await learner.canary(
        [ids.astype("<i4").tobytes() for ids in prefixes], [row.astype("<i4").tobytes() for row in rows]
    )
    found = np.array([np.frombuffer(row, "<f4") for row in answer])
    return np.split(found, np.cumsum([c.shape[1] for c in candidates])[:-1], axis=1)


def pack_reading(reading: Reading) -> dict[str, Any]:
    """As JSON."""
    arrays = {
        "tokens": reading.tokens.astype("<i4"),
        "engine": reading.engine.astype("<f4"),
        "learner": reading.learner.astype("<f4"),
    }
    packed = {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
    return {"shape": list(reading.tokens.shape), **packed}


def unpack_reading(packed: dict[str, Any]) -> Reading:
    """ValueError, KeyError or TypeError for what `pack_reading` did not make."""
    kinds = {"tokens": "<i4", "engine": "<f4", "learner": "<f4"}
    return Reading(
        **{name: np.frombuffer(base64.b64decode(packed[name]), k).reshape(packed["shape"]) for name, k in kinds.items()}
    )
