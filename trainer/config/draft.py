"""A TOML text that changes step by step: keys and tables put in, taken out and renamed (items of lists: draft_lists).

Each step splices the text at the spans that `Positions` found; no other byte is touched.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer.config.positions import STRING, Block, Mark, Path, Positions
from trainer.config.toml_values import format_key, split_key

_BLANKS = re.compile(" *")
_COMMENT = re.compile(rf"{STRING.pattern}|(?P<comment>#[^\r\n]*)", re.DOTALL)


class EditError(ValueError):
    """An edit that cannot be made; the text says why and what to do."""


def reason(error: Exception) -> str:
    """One line on why a text is no TOML."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(" (at ")[0]


class Draft:
    """A TOML text (no BOM) that changes step by step; after each step it is scanned again.

    Raises:
        EditError: the text is no TOML, at the start or after a step.
    """

    def __init__(self, text: str):
        self.newline = "\r\n" if 0 < text.find("\n") == text.find("\r\n") + 1 else "\n"
        self._load(text)

    def _load(self, text: str) -> None:
        self.text = text
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
            positions = Positions(text)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else reason(error)
            raise EditError(f"not TOML: {why[:1].lower()}{why[1:]}") from None
        self.marks: Mapping[Path, Mark] = positions.marks
        self.blocks: Sequence[Block] = positions.blocks
        self.pairs = {pair: block for block in positions.blocks for pair in block.pairs}

    def splice(self, *edits: tuple[int, int, str]) -> None:
        """Replaces spans (start, end, text) that do not overlap. A comment that has a column keeps it."""
        text = self.text
        for start, end, new in sorted([*edits, *self._columns_kept(edits)], reverse=True):
            text = text[:start] + new + text[end:]
        try:
            self._load(text)
        except EditError:
            raise EditError("the change does not fit the way this file is written; edit it by hand") from None

    def _columns_kept(self, edits: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
        """What the blanks before comments must become, where what stands before them on their line grows or shrinks."""
        spans = [(block.start, block.end) for block in self.blocks[1:]]
        spans += [(self.marks[pair].key, self.marks[pair].value_end or 0) for pair in self.pairs]
        grown: dict[int, int] = {}
        for start, end, new in edits:
            for left, right in spans:
                if left <= start and end <= right and "\n" not in new + self.text[left:right]:
                    grown[right] = grown.get(right, 0) + len(new) - (end - start)
        for right, growth in grown.items():
            if growth and (column := self.comment_column(right)) is not None:
                comment = self.line_start(right) + column
                yield right, comment, " " * max(comment - right - growth, 1)

    # what stands where

    def comment_column(self, offset: int) -> int | None:
        """The column, from 0, of the comment behind a value or header that ends at `offset`.

        None: there is no comment, or nothing tells that its column was meant: it stands by itself, one blank away.
        """
        comment = past(_BLANKS, self.text, offset)
        if not self.text.startswith("#", comment):
            return None
        start, end = self.line_start(offset), self.line_end(offset)
        column = comment - start
        around = (self.text[self.line_start(start - 1) : start] if start else "", self.text[end : self.line_end(end)])
        return column if comment > offset + 1 or any(line[column - 1 : column + 1] == " #" for line in around) else None

    def has_value(self, path: Path) -> bool:
        """Whether the path has a value text: a table made of headers or dotted keys has none."""
        mark = self.marks.get(path)
        return mark is not None and mark.value is not None

    def value_text(self, path: Path) -> str:
        mark = self.marks[path]
        return self.text[mark.value : mark.value_end]

    def is_multi_line(self, path: Path) -> bool:
        return "\n" in self.value_text(path)

    def line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where the next line begins."""
        return self.text.find("\n", offset) + 1 or len(self.text)

    def is_blank_before(self, offset: int) -> bool:
        return self.text.endswith(("\n\n", "\n\r\n"), 0, offset)

    def is_blank_at(self, offset: int) -> bool:
        return self.text.startswith(("\n", "\r\n"), offset)

    def pair_lines(self, path: Path) -> tuple[int, int]:
        """The lines of a pair, its trailing comment included."""
        mark = self.marks[path]
        return self.line_start(mark.key), self.line_end(mark.value_end or 0)

    def above(self, offset: int) -> int:
        """Where the comment lines directly above a line begin."""
        ends = [block.end for block in self.blocks] + [self.marks[pair].value_end or 0 for pair in self.pairs]
        floor = max((self.line_end(end) for end in ends if 0 < end <= offset), default=0)
        start = self.line_start(offset)
        while start > floor and self.text[self.line_start(start - 1) : start].lstrip(" \t").startswith("#"):
            start = self.line_start(start - 1)
        return start

    def key_end(self, path: Path) -> int:
        """Where the key text of a pair ends."""
        mark = self.marks[path]
        return mark.key + len(self.text[mark.key : mark.value].rstrip(" \t")[:-1].rstrip(" \t"))

    def indent(self, offset: int) -> str:
        line = self.text[self.line_start(offset) :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    # steps

    def replace(self, path: Path, value_text: str) -> None:
        mark = self.marks[path]
        self.splice((mark.value or 0, mark.value_end or 0, value_text))

    def rename(self, path: Path, name: str) -> None:
        """Another last part for the key of a pair."""
        mark, end = self.marks[path], self.key_end(path)
        parts = split_key(self.text[mark.key : end])
        self.splice((mark.key, end, ".".join(map(format_key, (*parts[:-1], name)))))

    def remove(self, path: Path) -> None:
        """A key with its line, an item of an inline table, or all lines of a table."""
        if self.has_value(path) and path not in self.pairs:
            self._remove_inline(path)
            return
        spans = [self.pair_lines(pair) for pair in self.pairs if pair[: len(path)] == path]
        for block in self.blocks[1:]:
            if block.path[: len(path)] == path:
                spans.append((self.line_start(block.start), self.line_end(block.end)))
        if spans:
            self.splice(*((start, end, "") for start, end in spans))
        else:  # dotted keys in an inline table
            for inner in [inner for inner in self.marks if inner[: len(path)] == path and self.has_value(inner)]:
                if self.has_value(inner):
                    self._remove_inline(inner)

    def remove_but_comments(self, path: Path) -> None:
        """A pair; every comment in it and beside it becomes a line of its own."""
        start, end = self.pair_lines(path)
        found = [match["comment"] for match in _COMMENT.finditer(self.text, start, end) if match["comment"]]
        self.splice((start, end, "".join(f"{self.indent(start)}{comment}{self.newline}" for comment in found)))

    def _remove_inline(self, path: Path) -> None:
        members = self._inline_members(self._inline_table(path[:-1]) or ())
        at = members.index(path)
        mark = self.marks[path]
        if at + 1 < len(members):
            self.splice((mark.key, self.marks[members[at + 1]].key, ""))
        else:
            start = self.marks[members[at - 1]].value_end if at else mark.key
            self.splice((start or 0, mark.value_end or 0, ""))

    def _inline_table(self, path: Path) -> Path | None:
        """The innermost inline table that a path is in, or is."""
        return next((path[:count] for count in range(len(path), 0, -1) if self.has_value(path[:count])), None)

    def _inline_members(self, table: Path) -> list[Path]:
        inside = [path for path in self.marks if len(path) > len(table) and path[: len(table)] == table]
        members = [path for path in inside if self.has_value(path) and self._inline_table(path[:-1]) == table]
        return sorted(members, key=lambda path: self.marks[path].key)

    def add(self, path: Path, value_text: str, above: str = "", tail: str = "", column: int | None = None) -> None:
        """A new key, in the style of its section.

        Args:
            path: its parent is a table, or not there.
            above: whole comment lines to stand above it; of a key in an inline table, above the whole table.
            tail: blanks and comment to stand behind it; of a key in an inline table, above the whole table.
            column: where the comment in `tail` should begin, from 0.
        """
        parent = path[:-1]
        if (inline := self._inline_table(parent)) is not None:
            key = ".".join(format_key(str(part)) for part in path[len(inline) :])
            mark, members = self.marks[inline], self._inline_members(inline)
            comments = above.lstrip("\r\n") + (tail.strip() + self.newline if tail.strip() else "")
            line = self.line_start(mark.value or 0)
            if comments:
                self.splice((line, line, _reindent(comments, self.indent(line))))
                mark = self.marks[inline]
            if members:
                last = self.marks[members[-1]].value_end or 0
                self.splice((last, last, f", {key} = {value_text}"))
            else:
                self.splice((mark.value or 0, mark.value_end or 0, f"{{ {key} = {value_text} }}"))
            return
        for count in range(len(parent), -1, -1):
            table = parent[:count]
            block = next((block for block in self.blocks if block.path == table), None)
            if block is not None and table == parent:
                return self._add_to(block, path, value_text, above, tail, column)
            if block is not None:
                return self._add_section(table, path, value_text, above, tail, column)
            for holder in self.blocks:
                group = [pair for pair in holder.pairs if len(holder.path) < count and pair[:count] == table]
                if group:
                    return self._add_to(holder, path, value_text, above, tail, column, group[-1])
            if table in self.marks:  # known by its sub-tables only
                return self._add_section(table, path, value_text, above, tail, column)

    def _add_to(
        self,
        block: Block,
        path: Path,
        value_text: str,
        above: str,
        tail: str,
        column: int | None,
        behind: Path | None = None,
    ) -> None:
        """A line behind a pair, by default the last one of the block."""
        key = ".".join(format_key(str(part)) for part in path[len(block.path) :])
        behind = behind or (block.pairs[-1] if block.pairs else None)
        if behind is not None:
            start = self.marks[behind].key
            at, indent = self.line_end(self.marks[behind].value_end or 0), self.indent(start)
        elif len(block.path):
            at, indent = self.line_end(block.end), self.indent(block.start)
        else:  # a key before the first header
            at, indent = self.above(self.blocks[1].start) if len(self.blocks) > 1 else len(self.text), ""
        pair = f"{indent}{key}{self._equals(block, key, behind)}{value_text}"
        lines = _reindent(above, indent) + beside(pair, tail, column)
        self._insert(at, lines + self.newline * (1 + (behind is None and not block.path and len(self.blocks) > 1)))

    def _equals(self, block: Block, key: str, behind: Path | None) -> str:
        """The equals sign with the blanks around it, as the section has it."""
        if behind is None:
            return " = "
        widths = {self.text.find("=", self.key_end(pair)) - self.marks[pair].key for pair in block.pairs}
        lengths = {self.key_end(pair) - self.marks[pair].key for pair in block.pairs}
        between = self.text[self.key_end(behind) : self.marks[behind].value]
        if len(widths) == 1 and len(lengths) > 1:
            return " " * max(1, widths.pop() - len(key)) + between.lstrip(" \t")
        return between if len(between) <= 3 else " = "

    def _add_section(self, table: Path, path: Path, value_text: str, above: str, tail: str, column: int | None) -> None:
        """A new header: below everything of the nearest table that exists; above the sub-tables of its own."""
        parent = path[:-1]
        related = [block for block in self.blocks[1:] if block.path[: len(table)] == table]
        names = ".".join(format_key(part) for part in parent if isinstance(part, str))
        siblings = [block for block in related if block.path[:-1] == parent[:-1]] if len(parent) > 1 else []
        indent = self.indent(siblings[-1].start) if siblings else ""
        body = f"{indent}[{names}]{self.newline}{_reindent(above.lstrip(), indent)}"
        body += beside(f"{indent}{format_key(str(path[-1]))} = {value_text}", tail, column) + self.newline
        first = related[0] if table == parent and related else None
        after = self.blocks.index(related[-1]) + 1 if table and related else len(self.blocks)
        if first is not None:
            self._insert(self.above(first.start), body + self.newline)
        elif after < len(self.blocks):
            self._insert_apart(self.above(self.blocks[after].start), body + self.newline)
        else:
            self._insert_apart(len(self.text), body)

    def add_element(self, path: Path) -> None:
        """One more `[[header]]`, below the last one's lines."""
        last = max(index for index, block in enumerate(self.blocks) if block.path[: len(path)] == path)
        names = ".".join(format_key(part) for part in path if isinstance(part, str))
        indent = self.indent(next(block for block in self.blocks if block.path == (*path, 0)).start)
        body = f"{indent}[[{names}]]{self.newline}"
        if last + 1 < len(self.blocks):
            self._insert_apart(self.above(self.blocks[last + 1].start), body + self.newline)
        else:
            self._insert_apart(len(self.text), body)

    def _insert(self, at: int, lines: str) -> None:
        if at and self.text[at - 1] != "\n":
            lines = self.newline + lines.removesuffix(self.newline)  # the last line stays without an end
        self.splice((at, at, lines))

    def _insert_apart(self, at: int, lines: str) -> None:
        """With a blank line before."""
        apart = at == 0 or self.is_blank_before(at)
        self._insert(at, lines if apart else self.newline + lines)


def past(pattern: re.Pattern[str], text: str, offset: int) -> int:
    """Where a match that begins at `offset` ends; `offset` if there is none."""
    match = pattern.match(text, offset)
    return offset if match is None else match.end()


def beside(pair: str, tail: str, column: int | None) -> str:
    """A line with its comment, which begins in `column` if that is behind the pair."""
    if column is None or not tail or "\n" in pair:
        return pair + tail
    return pair + " " * max(column - len(pair), 1) + tail.lstrip(" \t")


def _reindent(lines: str, indent: str) -> str:
    return "".join(indent + line.lstrip(" \t") if line.strip() else line for line in re.findall(r"[^\n]*\n", lines))
