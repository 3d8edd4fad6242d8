"""The pages as data: their text, code blocks, inline code, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs/config.md"
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
]
WRITTEN = [page for page in PAGES if page != GENERATED]

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")  # of pictures, too


@dataclass(frozen=True)
class Block:
    page: str
    language: str  # the first word behind the fence
    mark: str  # the second one: run, app, example, config; or none
    text: str


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text(page: Path | str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(*languages: str) -> Iterator[Block]:
    """All, or those in one of the languages."""
    for page in WRITTEN:
        for head, body in _FENCE.findall(text(page)):
            language, _, mark = head.strip().partition(" ")
            if not languages or language in languages:
                yield Block(name(page), language, mark, body)


def block(page: str, language: str, mark: str) -> str:
    """The one block of a page with this mark."""
    (found,) = [b.text for b in blocks(language) if (b.page, b.mark) == (page, mark)]
    return found


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", text(page))


def inline(page: Path) -> Iterator[str]:
    """What stands between single backticks, lines joined."""
    for code in re.findall(r"`([^`]+)`", prose(page)):
        yield " ".join(code.split())


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """As the headings of a page are addressed where Markdown is rendered."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if i == 0 else f"{slug}-{i}" for slug, most in found.items() for i in range(most + 1)}


def commands(marked: tuple[str, ...] = ("", "sh")) -> Iterator[tuple[str, str]]:
    """(page, command) of the blocks that hold commands, continued lines joined."""
    for found in blocks(*marked):
        for line in found.text.replace("\\\n", " ").splitlines():
            yield found.page, line.strip().removeprefix("$ ")
