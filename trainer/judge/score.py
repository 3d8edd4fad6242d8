"""From the scores of criteria to one number (CONFIG section 7). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.judge.rubric import Criterion, RubricPart


def combine(
    part: RubricPart, scores: Mapping[str, float], weights: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """(the score, the score of each track). Every criterion of `part` has a score in [0, 1].

    Score = sum of weight x track score / sum of weights, over the tracks that have criteria.

    Args:
        weights: of the tracks, a track that is left out weighs 0; empty: all weigh alike.
    """
    by_track: dict[str, list[Criterion]] = {}
    for criterion in part.criteria:
        by_track.setdefault(criterion.track, []).append(criterion)
    tracks = {name: _aggregate(part.aggregation, criteria, scores) for name, criteria in by_track.items()}
    shares = {name: weights.get(name, 0.0) if weights else 1.0 for name in tracks}
    return sum(shares[name] * score for name, score in tracks.items()) / sum(shares.values()), tracks


def _aggregate(aggregation: str, criteria: Sequence[Criterion], scores: Mapping[str, float]) -> float:
    if aggregation == "sum":
        return sum(scores[criterion.id] for criterion in criteria)
    total = sum(criterion.weight for criterion in criteria)
    # Criteria of weight 0 alone are shown, and their track has no weight either: see `weightless`.
    return sum(scores[c.id] * c.weight for c in criteria) / total if total else 0.0


def weightless(part: RubricPart, weights: Mapping[str, float]) -> str | None:
    """Why `combine` would divide by 0, or score a track that weighs but has nothing to weigh; None: it does not."""
    tracks = {criterion.track for criterion in part.criteria}
    if weights and not any(weights.get(name, 0.0) for name in tracks):
        return f"the weights of its tracks ({', '.join(sorted(tracks))}) sum to 0 in judge.options.weights"
    if part.aggregation == "sum":
        return None
    for name in sorted(tracks):
        weighs = not weights or weights.get(name, 0.0) > 0
        if weighs and not any(c.weight for c in part.criteria if c.track == name):
            return f"the weights of the criteria of its track {name} sum to 0"
    return None


def of_events(totals: Sequence[float], aggregation: str) -> float:
    """J_event of the turns' scores: their mean, or their sum. At least one turn."""
    return sum(totals) / (len(totals) if aggregation == "mean" else 1)


def overall(event: float | None, outcome: float | None, event_weight: float, outcome_weight: float) -> float | None:
    """One score of a judge for comparisons: its parts as the reward weighs them, or alike where it weighs neither."""
    given = [(score, w) for score, w in ((event, event_weight), (outcome, outcome_weight)) if score is not None]
    total = sum(weight for _, weight in given)
    if not given:
        return None
    return sum(score * weight for score, weight in given) / total if total else sum(s for s, _ in given) / len(given)
