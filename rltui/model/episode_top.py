"""What stands above an episode's turns: its reward and the parts of it, its place, how it ended, what became of it."""

from __future__ import annotations

import json
from typing import Any

from rltui.model.paragraphs import Fold, Node, Paragraph, fixed, readable, text_paragraphs
from rltui.sources.base import Json
from trainer.taskapp.codes import WARNINGS, sentence, warning
from trainer.taskapp.reading import finite, listing, mapping

SEP = " · "


def facts_of(episode: Json, updates: Json) -> list[Node]:
    """Rows of facts with their labels, then folds with what is seldom asked for."""
    nodes: list[Node] = [_fact("reward", _reward(episode), "strong")]
    nodes.append(_fact("episode", _place(episode)))
    nodes.append(_fact("ended", _end(episode)))
    if trained := _trained(episode, updates):
        nodes.append(_fact("trained", trained))
    nodes += [_fact("excluded", said, "watch", "watch") for said in exclusions(episode, updates)]
    nodes += [_fact("warning", said, "watch") for said in _warnings(episode)]
    if judge := _judge(episode):
        tracks = mapping(mapping(episode.get("judge")).get("tracks"))
        said = SEP.join(f"{name} {fixed(score)}" for name, score in tracks.items())
        nodes.append(Fold(Paragraph(said or "scores and reasons", label="judge"), lambda: judge))
    nodes.append(Fold(Paragraph("times, sampling, answer of the app", "dim", "more"), lambda: _more(episode)))
    nodes.append(Paragraph(""))
    return nodes


def _fact(label: str, text: str, style: str = "text", label_style: str = "dim") -> Paragraph:
    return Paragraph(text, style, label, label_style)


def _reward(episode: Json) -> str:
    rewards = mapping(episode.get("rewards"))
    parts = [
        ("env", episode.get("O", rewards.get("O"))),
        ("steps", episode.get("sr")),
        ("judge events", episode.get("je", rewards.get("event"))),
        ("judge outcome", episode.get("jo", rewards.get("outcome"))),
    ]
    weights = mapping(rewards.get("weights"))
    weight_of = {"env": "env", "judge events": "event", "judge outcome": "outcome"}
    said = []
    for name, value in parts:
        if finite(value) is not None:
            weight = fixed(weights.get(weight_of.get(name, "")), 2)
            said.append(f"{name} {fixed(value)}" + (f" × {weight}" if weight else ""))
    total = fixed(episode.get("R")) or "none"
    return SEP.join([total, *said])


def _place(episode: Json) -> str:
    parts = [f"seed {_plain(episode.get('seed'))}"]
    if episode.get("group") is not None:
        parts.append(f"group {_plain(episode.get('group'))}")
    parts.append(f"member {_plain(episode.get('member'))}")
    split = _plain(episode.get("split"))
    parts.append({"train": "training", "eval": "evaluation"}.get(split, split))
    parts.append(f"iteration {_plain(episode.get('iteration'))}")
    parts.append(f"step {_plain(episode.get('step'))}")
    if finite(episode.get("attempt")) not in (None, 1.0):
        parts.append(f"attempt {_plain(episode.get('attempt'))}")
    if plays := len(listing(episode.get("tries"))):
        parts.append(f"played {plays + 1} times")
    return SEP.join(parts)


def _end(episode: Json) -> str:
    turns = len(listing(episode.get("turns")))
    parts = [_plain(episode.get("stop")), f"{turns} turn{'' if turns == 1 else 's'}"]
    tokens = listing(episode.get("tok"))
    if len(tokens) == 2:
        parts.append(f"{_plain(tokens[0])} + {_plain(tokens[1])} tokens")
    if finite(episode.get("wall")) is not None:
        parts.append(f"{fixed(episode.get('wall'), 1)} s")
    versions = [_plain(version) for version in listing(episode.get("ver"))]
    if versions:
        parts.append("→".join(f"v{version}" for version in dict.fromkeys(versions)))
    return SEP.join(parts)


def _trained(episode: Json, updates: Json) -> str:
    parts = [f"advantage {finite(updates.get('adv')):+.3f}"] if finite(updates.get("adv")) is not None else []
    branches = mapping(updates.get("branches"))
    for name, used in branches.items():
        if finite(mapping(used).get("s")) is None:
            continue
        said = f"s {fixed(used['s'], 4)}"
        if used.get("clip") in ("low", "high"):
            said += f" clipped {used['clip']}"
        if finite(used.get("lag")) is not None:
            said += f", lag {_plain(used['lag'])}"
        if finite(used.get("step")) is not None:
            said += f", in step {_plain(used['step'])}"
        parts.append(f"branch {name}: {said}" if len(branches) > 1 else said)
    return SEP.join(parts)


def exclusions(episode: Json, updates: Json) -> list[str]:
    """A sentence for each code, from the one table of them."""
    found: dict[str, dict[str, Any]] = {}
    own = mapping(episode.get("exclusion"))
    later = [updates, *map(mapping, mapping(updates.get("branches")).values())]
    known = [(own.get("code") or episode.get("excl"), own.get("detail"))]
    known += [(part.get("excl"), part.get("detail")) for part in later]
    for code, detail in known:
        if code is not None:
            found.setdefault(str(code), {}).update(mapping(detail))
    if "zero_variance" in found:  # its numbers are the group's: each reward is this one
        found["zero_variance"] = {"value": fixed(episode.get("R")), "n": "the group's", **found["zero_variance"]}
    return [sentence(code, detail) for code, detail in found.items()]


def _warnings(episode: Json) -> list[str]:
    kinds = [mapping(entry).get("kind", entry) for entry in listing(episode.get("warnings"))]
    rewards = mapping(episode.get("rewards"))
    detail = {
        "steps": len(listing(rewards.get("steps"))),
        "calls": len(listing(episode.get("turns"))),
        "outcome": fixed(episode.get("O")),
        "sum": fixed(episode.get("sr")),
    }
    return [warning(kind, detail) if kind in WARNINGS else readable(kind) for kind in map(str, kinds)]


def _judge(episode: Json) -> list[Node]:
    judge = mapping(episode.get("judge"))
    rows: list[Node] = []
    events = [(f"turn {_plain(event.get('turn'))}", event) for event in map(mapping, listing(judge.get("event")))]
    outcome = [("outcome", mapping(judge.get("outcome")))] if judge.get("outcome") else []
    for where, scored in [*events, *outcome]:
        if finite(scored.get("total")) is not None:
            rows.append(Paragraph(f"{where}: {fixed(scored.get('total'))}"))
        for name, criterion in mapping(scored.get("criteria")).items():
            reason = readable(mapping(criterion).get("reason"))
            rows.append(Paragraph(f"{fixed(mapping(criterion).get('score')):>6}  {name}  {reason}", "dim"))
    return rows


def _more(episode: Json) -> list[Node]:
    rows: list[Node] = [Paragraph(readable(episode.get("cid")), "dim", "id")]
    timings = mapping(episode.get("timings"))
    if timings:
        times = SEP.join(f"{name} {fixed(value, 2)} s" for name, value in timings.items())
        rows.append(Paragraph(times, "dim", "times"))
    for name in ("sampling", "forced", "tries", "app", "exclusion"):
        value = episode.get(name)
        if value:
            rows += text_paragraphs(json.dumps(value, ensure_ascii=False), "dim", name)
    return rows


def _plain(value: Any) -> str:
    return "?" if value is None else str(value)
