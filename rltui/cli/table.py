"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.text import width


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of `rows` in columns; the last column is as wide as it comes."""
    widths = [max(map(width, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return ["  ".join([*map(_padded, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def _padded(cell: str, size: int) -> str:
    return cell + " " * (size - width(cell))
