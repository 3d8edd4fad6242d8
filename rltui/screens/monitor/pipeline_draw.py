"""How the Pipeline tab draws what model.pipeline_view gives: boxes, bars and tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.model import pipeline_text as words
from rltui.text import fit, width

if TYPE_CHECKING:
    from rltui.look.look import Look

View = Mapping[str, Any]
Row = list[tuple[str, str]]  # parts: text, name of a style
Stage = tuple[str, Callable[[View], list[str]], str]

STAGES: tuple[Stage, ...] = (
    ("rollouts", words.rollout_words, "rollouts"),
    ("queue", words.queue_words, ""),
    ("trainer", words.trainer_words, "trainer"),
    ("weight sync", words.sync_words, ""),
)
_INSIDE = 4  # rows of text in a box
_ARROW = 4  # cells between two boxes
_NARROWEST, _WIDEST = 22, 34
_CORNERS = {"round": "╭╮╰╯─│", "ascii": "++++-|"}
_BACK = {"round": "╰╯", "ascii": "++"}


def flow_rows(view: View, cells: int, look: Look, *, alone: bool = False) -> list[Row]:
    """The verdict, then the stages as boxes in a row with the way back of the weights below, and who answers the
    episodes. Where there is no room for boxes: a line each, and the time of a step. `alone`: that time, too, as no
    other pane shows it."""
    word, text = words.bound_words(view)
    style = "good" if word == "balanced" else "dim" if view["bound"] is None else "watch"
    head: Row = [(f" {word}", style), (f"  {fit(text, max(0, cells - len(word) - 4))}", "text")]
    inside = [(title, say(view), _busy(view, stage)) for title, say, stage in STAGES]
    share = (cells - 2 - _ARROW * (len(inside) - 1)) // len(inside)
    if share < _NARROWEST:
        return [head, [], *_stacked(inside, cells), *_services(view, cells, 13), [], *split_rows(view, cells, look)]
    box = min(_WIDEST, share)
    left = (cells - box * len(inside) - _ARROW * (len(inside) - 1)) // 2
    rows = [head, *_boxes(inside, box, " " * left, look), *_services(view, cells, 8)]
    return [*rows, [], *split_rows(view, cells, look)] if alone else rows


def _services(view: View, cells: int, column: int) -> list[Row]:
    return [
        [(f" {name:<{column}}", "title"), (fit(text, max(0, cells - column - 2)), style)]
        for name, text, style in words.service_lines(view)
    ]


def _busy(view: View, stage: str) -> float | None:
    found = view[stage].get("busy") if stage else None
    return float(found) if found is not None else None


def _boxes(inside: Sequence[tuple[str, list[str], float | None]], box: int, left: str, look: Look) -> list[Row]:
    corners = _CORNERS[look.box]
    room, line, side = box - 4, look.glyph("hline"), look.glyph("vline")
    arrow = f" {line}{look.glyph('fold_closed') if not look.ascii else '>'} "
    top: Row = [(left, "text")]
    for at, (title, _, _) in enumerate(inside):
        name = fit(title, box - 6)
        top += [(f"{corners[0]}{line} ", "border"), (name, "title")]
        top += [(f" {line * (box - 5 - width(name))}{corners[1]}", "border")]
        top += [(" " * _ARROW, "text")] if at < len(inside) - 1 else []
    rows = [top]
    for y in range(_INSIDE):
        row: Row = [(left, "text")]
        for at, (_, lines, busy) in enumerate(inside):
            said = fit(lines[y], room) if y < len(lines) else ""
            meter = said.startswith("busy ") and busy is not None and room - width(said) > 5
            bar = _meter(busy, room - width(said) - 2, look) if meter and busy is not None else ""
            filled = f"{said}  {bar}" if bar else said
            row += [(f"{side} ", "border"), (said, "text"), (filled[len(said) :], "accent")]
            row += [(" " * (room - width(filled)), "text"), (f" {side}", "border")]
            row += [(arrow if y == 1 else " " * _ARROW, "dim")] if at < len(inside) - 1 else []
        rows.append(row)
    bottom: Row = [(left, "text")]
    half = box // 2
    for at in range(len(inside)):
        edge = line * (box - 2)
        if at in (0, len(inside) - 1):
            mark = "┬" if not look.ascii else "+"
            edge = edge[: half - 1] + mark + edge[half:]
        bottom += [(f"{corners[2]}{edge}{corners[3]}", "border")]
        bottom += [(" " * _ARROW, "text")] if at < len(inside) - 1 else []
    whole = (box + _ARROW) * (len(inside) - 1)
    back = _BACK[look.box]
    told = fit(" new weights ", max(0, whole - 4))
    before = (whole - 1 - width(told)) // 2
    way = f"{line * before}{told}{line * (whole - 1 - width(told) - before)}"
    return [*rows, bottom, [(f"{left}{' ' * half}{back[0]}{way}{back[1]}", "dim")]]


def _stacked(inside: Sequence[tuple[str, list[str], float | None]], cells: int) -> list[Row]:
    return [
        [(f" {title:<13}", "title"), (fit(", ".join(lines), max(0, cells - 15)), "text")] for title, lines, _ in inside
    ]


def _meter(share: float, cells: int, look: Look) -> str:
    """A bar of at most 12 cells."""
    cells = min(12, cells)
    full = round(max(0.0, min(1.0, share)) * cells)
    return look.glyph("bar_full") * full + look.glyph("bar_empty") * (cells - full)


def split_rows(view: View, cells: int, look: Look) -> list[Row]:
    """A bar over the whole width in the colours of the parts, then each part: percent, seconds."""
    parts = words.split_rows(view)
    if not parts:
        return [[(" The first step has not ended", "dim")]]
    room = max(10, cells - 2)
    ends, at = [], 0.0
    for _, share, _, _ in parts:
        at += share
        ends.append(round(at * room))
    bar: Row = [(" ", "text")]
    for i, end in enumerate(ends):
        start = ends[i - 1] if i else 0
        bar.append((_texture(i, look) * max(0, end - start), f"series {i}"))
    rows: list[Row] = [bar]
    for i, (text, _, percent, spent) in enumerate(parts):
        name = fit(text, max(8, cells - 22))
        gap = " " * max(1, cells - 22 - width(name))
        style = "text" if percent else "dim"
        rows.append([(f" {look.marker(i)} ", f"series {i}"), (f"{name}{gap}", style)])
        rows[-1].append((f"{percent:>4} % {words.seconds(spent):>9}", style))
    total = sum(spent for *_, spent in parts)
    rows.append(
        [(f"   {'a step':<{max(6, cells - 22)}}", "strong"), (f"{100:>4} % {words.seconds(total):>9}", "strong")]
    )
    return rows


def _texture(i: int, look: Look) -> str:
    """Without colour the marker tells the parts apart."""
    return look.glyph("bar_full") if look.color.value != "none" and not look.ascii else look.marker(i)


def lag_rows(view: View, cells: int, look: Look) -> list[Row]:
    """A bar a lag, beyond the limit in another style."""
    lag = view["lag"]
    if not lag["counts"]:
        return [[(" No episode was used by a step yet", "dim")]]
    limit, most = lag["limit"], max(count for _, count in lag["counts"])
    total = sum(count for _, count in lag["counts"])
    room = max(4, cells - 21)
    rows: list[Row] = []
    for steps, count in lag["counts"]:
        beyond = limit is not None and steps > limit
        bar = look.glyph("bar_full") * (max(1, round(count / most * room)) if count else 0)
        rows.append([(f" {steps:>3}  ", "text"), (f"{bar:<{room}}", "act" if beyond else "accent")])
        rows[-1].append((f" {count:>5} {words.percent(count / total):>6}", "text"))
    if limit is not None:
        rows.append([(f" {limit:>3}  is the limit (training.max_lag)", "dim")])
    return rows


def machine_rows(view: View, sparks: Mapping[int, str], cells: int, look: Look) -> list[Row]:
    """A row a GPU with its course, then the host."""
    machine = view["machine"]
    rows: list[Row] = []
    told = [words.gpu_words(gpu) for gpu in machine["gpus"]]
    wide = min(20, max((width(role) for _, role, _, _ in told), default=0))
    course = min(20, cells - wide - 36)
    for gpu, (name, role, use, memory) in zip(machine["gpus"], told, strict=True):
        index = gpu.get("index")
        spark = sparks.get(int(index), "") if isinstance(index, int) else ""
        row: Row = [(f" {name:<7}", "strong"), (f"{fit(role, wide):<{wide}}", "text"), (f"{use:>6}  ", "text")]
        if course >= 6:
            row.append((f"{spark[-course:]:<{course}}", "accent"))
        rows.append([*row, (f"{memory:>17}", "text")])
    host = words.host_words(machine)
    if not machine["gpus"]:
        rows.append([(" no GPU in the samples of this run", "dim")])
    return rows + [[(f" {name:<8}", "strong"), (value, "text")] for name, value in host]
