"""Does to a text what the `fix:` lines of its errors say, as a person would who reads nothing else."""

import re
from collections.abc import Iterable

from trainer.config import Problem

ALTERNATIVE = re.compile(r"\s+or\s+(?=--set )")


def apply_fixes(text: str, problems: Iterable[Problem]) -> tuple[str, list[str]]:
    """The text with the first fix of each error applied, and the `--set` texts where that is the fix.

    Raises:
        AssertionError: a fix is none of: `delete this line`, `name = value`, `--set key=value`, a block to paste.
    """
    lines: list[str | None] = [*text.splitlines()]
    sets, pasted = [], []
    for problem in problems:
        assert problem.fix, f"no fix is printed: {problem}"
        fix = ALTERNATIVE.split(problem.fix)[0]
        if problem.code == "missing":
            pasted.append(fix)
        elif fix.startswith("--set "):
            sets.append(fix.removeprefix("--set "))
        else:
            assert problem.line is not None, f"nowhere to apply: {problem}"
            lines[problem.line - 1] = _edited(lines[problem.line - 1], fix, problem)
    kept = [line for line in lines if line is not None]
    for block in pasted:
        _paste(kept, block)
    return "\n".join(kept) + "\n", sets


def _edited(line: str | None, fix: str, problem: Problem) -> str | None:
    if fix.startswith("delete this line"):
        return None
    assert line is not None and re.fullmatch(r"[a-z_]+ = .+", fix), f"not a fix that can be typed in: {problem}"
    return line[: len(line) - len(line.lstrip())] + fix


def _paste(lines: list[str], block: str) -> None:
    """Each section of the block goes under its header, which is added at the end where there is none."""
    _, *rows = (row.strip() for row in block.splitlines())
    at = len(lines)
    for row in rows:
        if row.startswith("["):
            header = row.partition("#")[0].strip()
            headers = [line.partition("#")[0].strip() for line in lines]
            if header not in headers:
                lines += ["", header]
                headers += ["", header]
            at = headers.index(header)
        else:
            at += 1
            lines.insert(at, row)
