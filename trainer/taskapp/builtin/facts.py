"""Built-in task app `facts`: answer a short question in as few words as possible. One turn, one model call.

Seeds 0-159 are the split `train`, 160-199 the split `test`; every fifth fact of a category is held out, so
both mix all categories and no question of one occurs in the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from starlette.requests import Request

from trainer.taskapp.builtin.bank import CATEGORIES
from trainer.taskapp.builtin.common import complete, seed_in_split
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.llm import ChatClient
from trainer.taskapp.server import TaskAppConfig

RIGHT = 0.2
BREVITY = 0.8
FREE_WORDS = 8  # so many extra words cost the whole of BREVITY
HELD_OUT_EVERY = 5
INSTRUCTION = "Answer in as few words as possible."


@dataclass(frozen=True, slots=True)
class Fact:
    question: str
    accepted: tuple[str, ...]  # the first is the usual one


def _facts(category: str) -> list[Fact]:
    lines = [line.partition(" = ") for line in category.strip().splitlines()]
    return [Fact(question, tuple(answers.split(" | "))) for question, _, answers in lines]


def _round_robin(parts: Sequence[Sequence[Fact]]) -> list[Fact]:
    return [fact for fact in chain.from_iterable(zip_longest(*parts)) if fact is not None]


def _split_bank() -> tuple[list[Fact], list[Fact]]:
    """(train, test), each taking turns among the categories."""
    categories = [_facts(category) for category in CATEGORIES]
    last = HELD_OUT_EVERY - 1
    train = [[f for i, f in enumerate(c) if i % HELD_OUT_EVERY != last] for c in categories]
    return _round_robin(train), _round_robin([c[last::HELD_OUT_EVERY] for c in categories])


TRAIN, TEST = _split_bank()
BANK = (*TRAIN, *TEST)  # indexed by seed
SPLITS = {"train": range(len(TRAIN)), "test": range(len(TRAIN), len(BANK))}


def words(text: str) -> list[str]:
    """The words of a text without case, accents and punctuation; "it's" and "1,000" are one word each."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", plain)


def score(reply: str, accepted: Sequence[str], cut: bool) -> float:
    """Reward of a reply: 0 if wrong; if right 0.2 + 0.8 max(0, 1 - extra / 8), or 0.2 if it was cut.

    Right: an accepted answer occurs in it as whole words. extra: words of the reply beyond those of the
    longest accepted answer that occurs. cut: the reply ended at the token limit.
    """
    said = words(reply)
    matched = max((len(answer) for answer in map(words, accepted) if _occurs(answer, said)), default=0)
    if not matched:
        return 0.0
    if cut:
        return RIGHT
    return RIGHT + BREVITY * max(0.0, 1 - (len(said) - matched) / FREE_WORDS)


def _occurs(answer: list[str], said: list[str]) -> bool:
    n = len(answer)
    return n > 0 and any(said[i : i + n] == answer for i in range(len(said) - n + 1))


def prompt(fact: Fact) -> str:
    return f"{INSTRUCTION} {fact.question}"


def build_config() -> TaskAppConfig:
    client = ChatClient()

    async def rollout(request: RolloutRequest, _: Request) -> Json:
        fact = BANK[seed_in_split(request, SPLITS)]
        messages = [{"role": "user", "content": prompt(fact)}]
        completion = await complete(client, request, messages)
        assert completion is not None, "an only call cannot come after the last"
        cut = completion.finish_reason == "length"
        reward = score(completion.text, fact.accepted, cut)
        step = {
            "obs": {"messages": messages},
            "tool_calls": [],
            "output": completion.text,
            "output_mode": "text",
            "reward": reward,
            "done": True,
            "truncated": cut,
            "info": {"answer": fact.accepted[0], "right": reward > 0},
        }
        return {
            "trajectories": [{"env_id": "facts", "policy_id": request.policy.policy_name, "steps": [step]}],
            "metrics": {"outcome_reward": reward, "episode_returns": [reward], "mean_return": reward},
            "success_status": "success",
        }

    return TaskAppConfig(
        app_id="facts",
        name="Short facts",
        description="Answer short questions of general knowledge in as few words as possible.",
        base_task_info={
            "task": {"id": "facts", "name": "Short facts", "version": "1"},
            "environment": "facts",
            "dataset": {"id": "facts", "splits": list(SPLITS), "default_split": "train"},
            "rubric": {"outcome": None, "events": None},
            "limits": {"max_turns": 1},
        },
        describe_taskset=lambda: {
            "id": "facts",
            "splits": list(SPLITS),
            "default_split": "train",
            "sizes": {split: len(seeds) for split, seeds in SPLITS.items()},
        },
        provide_task_instances=_task_infos,
        rollout=rollout,
        shutdown_hooks=(client.close,),
    )


def _task_infos(seeds: Sequence[int]) -> list[dict[str, Any]]:
    return [{"task_metadata": {"seed": s, "prompt": prompt(BANK[s])}} for s in seeds if 0 <= s < len(BANK)]
