"""What judging costs, as far as it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# US dollars per million tokens, in and out: list prices of the models that are the providers' defaults here, without
# discounts. An estimate; of other models the cost is unknown, unless their endpoint tells it.
_PRICES: dict[str, tuple[float, float]] = {
    "gpt-5-nano": (0.05, 0.40),
    "claude-haiku-4-5": (1.00, 5.00),
    "openai/gpt-oss-20b": (0.075, 0.30),
    "gemini-2.5-flash": (0.30, 2.50),
}


def price(model: str | None) -> tuple[float, float] | None:
    """(in, out) in US dollars per million tokens; None: unknown."""
    return _PRICES.get(model or "")


def cost_usd(model: str | None, tokens_in: int, tokens_out: int) -> float | None:
    prices = price(model)
    return None if prices is None else (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6


def spent(line: Mapping[str, Any]) -> tuple[float | None, bool]:
    """(US dollars of a line of judge.jsonl, whether that is an estimate). None: unknown."""
    if line.get("status") == "cached" or line.get("source") == "rule":
        return 0.0, False
    cost, tokens_in, tokens_out = line.get("cost_usd"), line.get("tokens_in"), line.get("tokens_out")
    if not isinstance(cost, int | float):
        no_answer = line.get("status") == "failed" and tokens_in is None and tokens_out is None
        return (0.0 if no_answer else None), False
    listed = cost_usd(line.get("model"), tokens_in or 0, tokens_out or 0)
    return float(cost), listed is not None and math.isclose(listed, cost)
