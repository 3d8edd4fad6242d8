"""The tokens of a turn as lines of text that know which token each character is of. Pure."""

from __future__ import annotations

from rltui.model.paragraphs import Node, Paragraph, TokenText
from rltui.model.xray import Branch, Xray
from rltui.sources.base import Json
from rltui.text_lines import printable
from trainer.taskapp.reading import finite

END = "↵"  # where a token ends a line
MAX_TOKEN = 200  # characters of one token that are shown


def token_lines(turn: Json, before: Json | None, xray: Xray | None, index: int) -> list[Node]:
    """What was given and what was sampled in a turn; a mark where the weights changed within the episode."""
    if xray is None:
        return [Paragraph("no token of this episode was recorded", "dim", "tokens")]
    if not xray.branches:
        return [Paragraph(xray.missing["logprob"], "dim", "tokens")]
    at, which = finite(turn.get("t")), finite(turn.get("branch"))
    found = xray.in_turn(int(which or 0), int(at) if at is not None else index)
    if found is None:
        return [Paragraph("no token of this turn was recorded", "dim", "tokens")]
    branch, places = found
    nodes: list[Node] = []
    start = places.start
    version = _version_before(branch, start)
    for i in places:
        changed = branch.version[i] if branch.trained[i] else None
        if i > start and branch.trained[i] != branch.trained[i - 1]:
            nodes += _lines(branch, range(start, i))
            start = i
        if changed is not None and version is not None and changed != version:
            nodes += _lines(branch, range(start, i))
            nodes.append(Paragraph(f"v{version}→v{changed}", "accent", "weights", "dim"))
            start = i
        version = changed if changed is not None else version
    return [*nodes, *_lines(branch, range(start, places.stop))]


def _version_before(branch: Branch, start: int) -> int | None:
    return next((branch.version[i] for i in range(start - 1, -1, -1) if branch.trained[i]), None)


def _lines(branch: Branch, places: range) -> list[Node]:
    """Lines of tokens that are all sampled or all given."""
    nodes: list[Node] = []
    label = "sampled" if places and branch.trained[places.start] else "given"
    style = "role_assistant" if label == "sampled" else "dim"
    text, spots = "", list[tuple[int, int, int]]()

    def flush() -> None:
        nonlocal text, spots
        if text:
            nodes.append(TokenText(text, "text", label if not nodes else "", style, "", branch, tuple(spots)))
        text, spots = "", []

    for i in places:
        parts = branch.texts[i][:MAX_TOKEN].split("\n")
        for k, part in enumerate(parts):
            shown = printable(part) + (END if k < len(parts) - 1 else "")
            if shown:
                spots.append((len(text), len(text) + len(shown), i))
                text += shown
            if k < len(parts) - 1:
                flush()
    flush()
    return nodes
