"""The items of a list in a `Draft`: appended, taken out, or all of them anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainer.config.draft import Draft, beside, past
from trainer.config.positions import SPACE, Mark, Path

_TABS_AND_BLANKS = re.compile(r"[ \t]*")
_BLANKS_COMMENT = re.compile(r"[ \t]*(#[^\r\n]*)?")


def append_items(draft: Draft, path: Path, texts: Sequence[str]) -> None:
    """Behind the last item, each on its own line if that one begins a line."""
    last = _items(draft, path)[-1]
    end = last.value_end or 0
    if not _begins_line(draft, last.key):
        draft.splice((end, end, "".join(f", {text}" for text in texts)))
        return
    comma = _comma(draft, end)
    line = draft.newline + draft.indent(last.key)
    at = past(_BLANKS_COMMENT, draft.text, end if comma is None else comma + 1)
    if comma is None:
        draft.splice((end, at, "," + draft.text[end:at] + ",".join(line + text for text in texts)))
    else:
        draft.splice((at, at, "".join(f"{line}{text}," for text in texts)))


def remove_items(draft: Draft, path: Path, indexes: Sequence[int]) -> None:
    """Each with its comma; a line of which no item is left goes as a whole, with the comment on it."""
    items = _items(draft, path)
    runs: list[tuple[int, int]] = []
    for item in (items[index] for index in sorted(indexes)):
        end = item.value_end or 0
        comma = _comma(draft, end)
        end = end if comma is None else comma + 1
        if runs and not draft.text[runs[-1][1] : item.key].strip(" \t"):  # beside the one before
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((item.key, end))
    draft.splice(*((*_with_blanks(draft, start, end), "") for start, end in runs))


def _with_blanks(draft: Draft, start: int, end: int) -> tuple[int, int]:
    """The span of items that go, and what they would leave behind: an empty line, blanks at an end, two blanks."""
    rest = past(_BLANKS_COMMENT, draft.text, end)
    if not draft.is_blank_at(rest):
        return start, past(_TABS_AND_BLANKS, draft.text, end)
    if _begins_line(draft, start):
        return draft.line_start(start), draft.line_end(rest)
    return len(draft.text[:start].rstrip(" \t")), end


def replace_items(draft: Draft, path: Path, texts: Sequence[str]) -> None:
    """All items anew. An array of one item a line stays one; one of several items on its lines becomes a line."""
    items = _items(draft, path)
    mark = draft.marks[path]
    in_lines = [_begins_line(draft, item.key) for item in items]
    if not texts or not items or (in_lines[0] and not all(in_lines)):
        replace_list(draft, path, f"[{', '.join(texts)}]")
        return
    first, last = items[0].key, items[-1].value_end or 0
    if in_lines[0]:
        body = f",{draft.newline}{draft.indent(first)}".join(texts)
        draft.splice((first, mark.value_end or 0, f"{body},{draft.newline}{draft.indent(mark.key)}]"))
    else:
        draft.splice((first, last, ", ".join(texts)))


def replace_list(draft: Draft, path: Path, value_text: str) -> None:
    """Another list, on one line; the comment behind the old one's bracket comes to stand behind the new one."""
    mark = draft.marks[path]
    start, end = mark.value or 0, mark.value_end or 0
    comment = _BLANKS_COMMENT.match(draft.text, start + 1)
    if path not in draft.pairs or comment is None or comment[1] is None:
        draft.replace(path, value_text)
        return
    line = draft.line_start(start)
    new = beside(draft.text[line:start] + value_text, comment[1], comment.start(1) - line)
    draft.splice((start, end, new[start - line :]))


def _items(draft: Draft, path: Path) -> list[Mark]:
    items: list[Mark] = []
    while (*path, len(items)) in draft.marks:
        items.append(draft.marks[(*path, len(items))])
    return items


def _comma(draft: Draft, offset: int) -> int | None:
    """The comma behind an item, which may follow on a later line."""
    at = past(SPACE, draft.text, offset)
    return at if draft.text[at] == "," else None


def _begins_line(draft: Draft, offset: int) -> bool:
    return not draft.text[draft.line_start(offset) : offset].strip(" \t")
