"""Lines of a TOML text that go to other keys: sections renamed, pairs moved with their comments, empty headers gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trainer.config.draft import Draft
from trainer.config.edit import MISSING, lookup
from trainer.config.keys import all_keys, all_sections
from trainer.config.positions import Block, Path
from trainer.config.toml_values import format_key


def relocate(draft: Draft, targets: Mapping[Path, Path], drops: Collection[Path]) -> None:
    """Moves lines to other keys, each with its comments.

    Args:
        targets: by the path of a key that is there the one to which its lines go.
        drops: keys that go; every comment on them stays.
    """
    for old, new in targets.items():
        _rename_tables(draft, old, new)
    for path in [block.path for block in draft.blocks]:
        block = next((block for block in draft.blocks if block.path == path), None)
        if block is not None:
            _move_pairs(draft, targets, drops, block)
    for old in (*targets, *drops):
        if lookup(draft.data, old) is not MISSING:
            _move_from_inline(draft, old, targets.get(old))


def _rename_tables(draft: Draft, old: Path, new: Path) -> None:
    """An old key that is a table, or list of tables, with headers."""
    edits = []
    for block in draft.blocks:
        if block.path[: len(old)] == old:
            edits.append((*block.names, _dotted((*new, *block.path[len(old) :]))))
    if edits and not _is_closed(draft, new):
        draft.splice(*edits)


def _move_pairs(draft: Draft, targets: Mapping[Path, Path], drops: Collection[Path], block: Block) -> None:
    new_paths = {pair: _new_path(targets, pair) for pair in block.pairs}
    going = {pair: new for pair, new in new_paths.items() if new is not None}
    dropped = [pair for pair in block.pairs if _within(pair, drops) is not None]
    if not going and not dropped:
        return
    path = block.path
    is_old = bool(path) and _dotted(path) not in all_sections() and all(isinstance(part, str) for part in path)
    if is_old and len(going) + len(dropped) == len(block.pairs) and (new := _new_home(draft, path, going)) is not None:
        for pair in dropped:
            draft.remove_but_comments(pair)
        _rename_section(draft, path, new, going)
        rest = {(*new, *pair[len(path) :]): target for pair, target in going.items() if target[: len(new)] != new}
        _move_lines(draft, rest)
        return
    for pair in dropped:
        draft.remove_but_comments(pair)
    for pair in [pair for pair, target in going.items() if target[:-1] == path]:
        draft.rename(pair, str(going.pop(pair)[-1]))
    _move_lines(draft, going)
    if is_old:
        _remove_if_empty(draft, path)


def _within(path: Path, olds: Collection[Path]) -> Path | None:
    """The old key that a path is, or is part of."""
    return next((path[:count] for count in range(len(path), 0, -1) if path[:count] in olds), None)


def _new_path(targets: Mapping[Path, Path], pair: Path) -> Path | None:
    old = _within(pair, targets)
    return None if old is None else (*targets[old], *pair[len(old) :])


def _new_home(draft: Draft, path: Path, going: Mapping[Path, Path]) -> Path | None:
    """A section, not there yet, that takes a key of this one, so that the header can be renamed."""
    for pair, target in going.items():
        new = target[:-1]
        if len(pair) == len(path) + 1 and new and lookup(draft.data, new) is MISSING and not _is_closed(draft, new):
            return new
    return None


def _is_closed(draft: Draft, path: Path) -> bool:
    """Whether a header for this path would reach into an inline table, a dotted key or a value."""
    for count in range(1, len(path) + 1):
        table = path[:count]
        if draft.has_value(table):
            return True
        if any(pair[:count] == table and len(block.path) < count for pair, block in draft.pairs.items()):
            return True
    return False


def _rename_section(draft: Draft, path: Path, new: Path, going: Mapping[Path, Path]) -> None:
    block = next(block for block in draft.blocks if block.path == path)
    edits = [(*block.names, _dotted(new))]
    for pair, target in going.items():
        if target[: len(new)] == new:
            edits.append((draft.marks[pair].key, draft.key_end(pair), _dotted(target[len(new) :])))
    draft.splice(*edits)


def _move_lines(draft: Draft, going: Mapping[Path, Path]) -> None:
    """Pairs of one section, each with the comment on its line and those directly above it."""
    cuts: list[tuple[int, int, str]] = []
    lines = []
    for pair, target in going.items():
        start, end = draft.pair_lines(pair)
        above = draft.above(start)
        if above == 0:  # what stands at the top of a file is about the file
            above = start
        comments = draft.text[above:start]
        value_end = draft.marks[pair].value_end or 0
        tail = draft.text[value_end:end].rstrip()
        if draft.is_blank_before(above):  # one of the blank lines around goes along, or else goes
            if comments:
                comments, above = draft.newline + comments, draft.line_start(above - 1)
            elif draft.is_blank_at(end):
                end = draft.line_end(end)
        cuts.append((max(above, cuts[-1][1] if cuts else 0), end, ""))
        lines.append((target, draft.value_text(pair), comments, tail, draft.comment_column(value_end)))
    if cuts:
        draft.splice(*cuts)
    for target, value, comments, tail, column in lines:
        draft.add(target, value, comments, tail, column)


def _remove_if_empty(draft: Draft, path: Path) -> None:
    """An old header below which nothing is left; a comment on its line stays, one of two blank lines goes."""
    block = next(block for block in draft.blocks if block.path == path)
    if block.pairs:
        return
    start, end = draft.line_start(block.start), draft.line_end(block.end)
    comment = draft.text[block.end : end].strip()
    if not comment and draft.is_blank_at(end) and (start == 0 or draft.is_blank_before(start)):
        end = draft.line_end(end)
    draft.splice((start, end, comment + draft.newline if comment else ""))


def _move_from_inline(draft: Draft, old: Path, target: Path | None) -> None:
    """An old key in an inline table; the comment on a line that goes stays."""
    text = draft.value_text(old) if draft.has_value(old) else None
    draft.remove(old)
    if target is not None and text is not None:
        draft.add(target, text)
    holder = next((old[:count] for count in range(len(old) - 1, 0, -1) if old[:count] in draft.pairs), None)
    if holder is None or lookup(draft.data, holder) != {} or _dotted(holder) in {*all_sections(), *all_keys()}:
        return
    start, end = draft.pair_lines(holder)
    comment = draft.text[draft.marks[holder].value_end : end].strip()
    draft.splice((start, end, draft.indent(start) + comment + draft.newline if comment else ""))


def _dotted(path: Path) -> str:
    return ".".join(format_key(part) for part in path if isinstance(part, str))
