"""Finding text in lines that others wrote: plain or /regex/, never longer than a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rltui.model.expressions import BadExpression, compiled, limited

SLICE_LINES = 2_000  # lines to search before others have their turn


FindError = BadExpression  # what was typed cannot be searched for; the message says why


class Finder:
    """`text` as people type it: /regex/ between slashes, anything else is plain and minds case if it has capitals."""

    def __init__(self, text: str, *, regex: bool = False) -> None:
        """`regex`: the text is an expression as it stands."""
        self.text = text
        slashed = not regex and len(text) > 2 and text.startswith("/") and text.endswith("/")
        source = text if regex else text[1:-1] if slashed else re.escape(text)
        flags = re.NOFLAG if any(char.isupper() for char in text) else re.IGNORECASE
        try:
            self._expression = compiled(source, flags)
        except BadExpression as error:
            where = f" at column {error.column + slashed + 1}" if error.column is not None else ""
            raise FindError(f"{error}{where}") from None

    def matches(self, line: str) -> bool:
        """Whether the line has it, in its first `expressions.LINE_LIMIT` characters."""
        return self._expression.found(line)

    def spans(self, row: str) -> list[tuple[int, int]]:
        """Where it stands in one row of the screen, for the highlight. Raises FindError if that takes too long."""
        with limited():
            return self._expression.spans(row)

    def among(self, lines: Sequence[str]) -> list[str]:
        """Those that have it. Raises FindError if the expression takes too long."""
        with limited():
            return [line for line in lines if self.matches(line)]

    def first(self, lines: Iterator[tuple[int, str]]) -> int | None:
        """The number of the first line that has it. Raises FindError if the expression takes too long."""
        with limited():
            return next((number for number, line in lines if self.matches(line)), None)
