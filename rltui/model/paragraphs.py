"""The pieces that a transcript is made of. Texts are raw here; the view cleans what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rltui.text_lines import pieces
from trainer.taskapp.reading import finite


@dataclass(frozen=True, slots=True, eq=False)
class Paragraph:
    """One line of text before wrapping.

    text and style: what it says and how (a name of the look). label: what stands before it in the column of roles.
    right: for the head of a fold, what stands at the right edge.
    """

    text: str
    style: str = "text"
    label: str = ""
    label_style: str = "dim"
    right: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class TokenText(Paragraph):
    """A line of tokens. places: (start, end, i) in `text` of each token, by its number in `branch`."""

    branch: Any = None
    places: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True, eq=False)
class Fold:
    """A head and what it hides; the body is made when it is first wanted. chars: about how much text that is."""

    head: Paragraph
    make: Callable[[], list[Node]]
    open: bool = False
    turn: int | None = None
    thinking: bool = False
    chars: int = 0
    _body: list[Node] | None = field(default=None, repr=False)

    def body(self) -> list[Node]:
        """What is inside."""
        if self._body is None:
            self._body = self.make()
        return self._body


Node = Paragraph | Fold


def text_paragraphs(text: str, style: str = "text", label: str = "", label_style: str = "dim") -> Iterator[Paragraph]:
    """A many-line text; the label stands before its first line."""
    for piece in pieces(text.strip("\n")):
        yield Paragraph(piece, style, label, label_style)
        label = ""


def readable(value: Any) -> str:
    """A text field of a record as people read it, also where its middle was cut; "" for none."""
    if isinstance(value, str):
        return value
    from trainer.rundir.textcut import text_of  # brings msgspec: not before the first paint

    return text_of(value)


def fixed(value: Any, digits: int = 3) -> str:
    """A number of a record with `digits` decimals, "" for none."""
    found = finite(value)
    return "" if found is None else f"{found:.{digits}f}"
