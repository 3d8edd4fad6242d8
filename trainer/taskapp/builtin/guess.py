"""Built-in task app `guess`: find a hidden number by guesses that are answered "higher" or "lower".

Multi-turn: the message history only ever grows, so that the recorded tokens of the turns join cleanly.
Rewards: a step gives 0.1 if its guess lies inside the interval that is still possible. The outcome is 1 less
0.05 per turn after the first if the number was found, and otherwise up to 0.3 for what was ruled out.
env.config: low, high (1 and 20), max_turns.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from trainer.taskapp.builtin.common import complete, seed_in_split
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.llm import ChatClient
from trainer.taskapp.reading import count
from trainer.taskapp.replies import refuse
from trainer.taskapp.server import TaskAppConfig

SPLITS = {"train": range(0, 10_000), "test": range(10_000, 11_000)}
LOW, HIGH, MAX_TURNS = 1, 20, 6
STEP_REWARD = 0.1
TURN_COST = 0.05
MIN_FOUND = 0.5
PARTIAL = 0.3
ACHIEVEMENTS = ("first_valid_guess", "halved_the_range", "found")


def target_of(seed: int, low: int, high: int) -> int:
    """The hidden number of a seed."""
    return random.Random(f"guess:{seed}:{low}:{high}").randint(low, high)


def read_guess(text: str) -> int | None:
    """The last whole number in the reply (at most 9 digits), or None."""
    numbers = re.findall(r"(?<![\d.])-?\d{1,9}(?!\d)(?!\.\d)", text)
    return int(numbers[-1]) if numbers else None


@dataclass(slots=True)
class Game:
    """The rules, without any model: the state is the interval [low, high] that the answers leave possible."""

    target: int
    low: int
    high: int
    size: int = 0  # numbers possible at the start
    found: bool = False
    turns: int = 0
    unlocked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = self.high - self.low + 1

    def play(self, guess: int | None) -> tuple[str, float, list[str]]:
        """(what the player is told, step reward, newly unlocked achievements)."""
        self.turns += 1
        if guess is None:
            return "I saw no number. Reply with one whole number.", 0.0, []
        inside = self.low <= guess <= self.high
        before = self.high - self.low + 1
        if guess == self.target:
            self.found, self.low, self.high = True, guess, guess
            told = "Correct!"
        elif guess < self.target:
            self.low = max(self.low, guess + 1)
            told = "Higher."
        else:
            self.high = min(self.high, guess - 1)
            told = "Lower."
        reached = {
            "first_valid_guess": inside,
            "halved_the_range": inside and 2 * (self.high - self.low + 1) <= before,
            "found": self.found,
        }
        new = [name for name in ACHIEVEMENTS if reached[name] and name not in self.unlocked]
        self.unlocked += new
        return told, STEP_REWARD if inside else 0.0, new

    def outcome(self) -> float:
        """In [0, 1]: found in the first turn is 1; not found earns for the bits of the range ruled out."""
        if self.found:
            return max(MIN_FOUND, 1 - TURN_COST * (self.turns - 1))
        left = self.high - self.low + 1
        return PARTIAL * (1 - math.log(left) / math.log(self.size)) if self.size > 1 else 0.0


def opening(low: int, high: int) -> str:
    return (
        f"I am thinking of a whole number from {low} to {high}. Guess it. "
        "After each guess I say higher or lower. Reply with one number only."
    )


def _setup(request: RolloutRequest) -> tuple[int, Game, int]:
    """(seed, game, max_turns) of a request; 422 if its config makes no game."""
    config = request.env.config
    low, high = config.get("low", LOW), config.get("high", HIGH)
    turns = count(config.get("max_turns", MAX_TURNS))
    if not (type(low) is int and type(high) is int and 0 <= low < high <= 10**6 and turns):
        message = "env_config needs whole numbers 0 <= low < high <= 1000000 and max_turns >= 1"
        raise refuse(422, "bad_env_config", message)
    seed = seed_in_split(request, SPLITS)
    return seed, Game(target_of(seed, low, high), low, high), turns


async def play_episode(client: ChatClient, request: RolloutRequest) -> Json:
    """Plays one episode with the policy and returns the rollout answer."""
    _, game, max_turns = _setup(request)
    messages: list[Json] = [{"role": "user", "content": opening(game.low, game.high)}]
    steps: list[Json] = []
    while not game.found and game.turns < max_turns:
        completion = await complete(client, request, messages)
        if completion is None:
            steps[-1] |= {"done": True, "truncated": True}
            break
        guess = read_guess(completion.text)
        told, reward, new = game.play(guess)
        ended = game.found or game.turns == max_turns
        steps.append(
            {
                "obs": {"text": messages[-1]["content"], "low": game.low, "high": game.high},
                "tool_calls": [],
                "output": completion.text,
                "output_mode": "text",
                "reward": reward,
                "done": ended,
                "truncated": ended and not game.found,
                "info": {
                    "guess": guess,
                    "achievements_status": {name: name in game.unlocked for name in ACHIEVEMENTS},
                    "stepwise": {"new_achievements": new},
                },
            }
        )
        messages.append(completion.message)
        messages.append({"role": "user", "content": told})
    outcome = game.outcome()
    return {
        "trajectories": [{"env_id": "guess", "policy_id": request.policy.policy_name, "steps": steps}],
        "metrics": {
            "outcome_reward": outcome,
            "episode_returns": [outcome],
            "mean_return": outcome,
            "num_steps": len(steps),
            "details": {"found": game.found, "target": game.target},
        },
        "success_status": "success",
    }


def build_config() -> TaskAppConfig:
    client = ChatClient()

    async def rollout(request: RolloutRequest, _: Request) -> Json:
        return await play_episode(client, request)

    return TaskAppConfig(
        app_id="guess",
        name="Guess the number",
        description="Find a hidden number; each guess is answered by higher or lower.",
        base_task_info={
            "task": {"id": "guess", "name": "Guess the number", "version": "1"},
            "environment": "guess",
            "dataset": {"id": "guess", "splits": list(SPLITS), "default_split": "train"},
            "rubric": {"outcome": None, "events": None},
            "limits": {},
            "task_metadata": {"prompt": opening(LOW, HIGH), "achievements": list(ACHIEVEMENTS)},
        },
        describe_taskset=lambda: {
            "id": "guess",
            "splits": list(SPLITS),
            "default_split": "train",
            "sizes": {split: len(seeds) for split, seeds in SPLITS.items()},
        },
        provide_task_instances=_task_infos,
        rollout=rollout,
        shutdown_hooks=(client.close,),
    )


def _task_infos(seeds: Sequence[int]) -> list[dict[str, Any]]:
    metadata = {"prompt": opening(LOW, HIGH), "achievements": list(ACHIEVEMENTS)}
    return [{"task_metadata": {**metadata, "seed": seed}} for seed in seeds]
