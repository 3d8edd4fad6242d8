"""The help as data: keys by place with a paragraph on each, and topics that are no place. Screen and CLI print it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rltui.actions.action import Action
from rltui.actions.contexts import CONTEXTS, OF_ROWS
from rltui.actions.keymap import Keymap
from rltui.actions.keynames import shown
from rltui.actions.table import BY_ID, of_context

TOPICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "keys": (
        "Your own keys",
        (
            "`rltui keys` prints every action with its id and keys. Your own go to keys.toml in $XDG_CONFIG_HOME/rltui "
            "(else ~/.config/rltui), a line for each action:",
            '    "runs.sort" = "s"',
            '    "list.up" = ["up", "i"]',
            "[] takes an action's keys away.",
            "A key is one character, or a name such as enter, escape, space, pageup, f2, ctrl+l. Two actions that work "
            "in the same place cannot share a key: the line is left out, and `rltui keys` names both.",
            "Nothing needs alt, ctrl+enter or ctrl+shift, which tmux and many terminals drop.",
        ),
    ),
    "copying": (
        "Copying",
        (
            "y copies through the terminal (OSC 52), over SSH too. No terminal answers whether it took the text, so "
            "the notice says how much was sent, 'if your terminal allows it'. More than 74 kB go to a file, and its "
            "path is copied. Where there is w, it writes to a file instead.",
            "In tmux the copy gets through with these lines in tmux.conf:",
            "    set -g set-clipboard on",
            "    set -g allow-passthrough on",
            "The terminal's own selection works while shift is held, or everywhere with --no-mouse.",
        ),
    ),
    "colours": (
        "Colours and characters",
        (
            "Light or dark follows the terminal's background, then COLORFGBG. NO_COLOR=1 turns all colour off: every "
            "state has a sign and a word as well. COLORTERM=truecolor and TERM decide between 16 million, 256 and 16.",
            "--ascii draws with ASCII only, for consoles and locales that are not UTF-8; charts become coarser. "
            "--blocks draws charts of block characters, for fonts without braille.",
        ),
    ),
    "themes": (
        "Themes",
        (
            "Choose one in the palette, or with --theme NAME. Your own are TOML files in $XDG_CONFIG_HOME/rltui/themes "
            "(else ~/.config/rltui/themes). A file with a mistake is named with its line and key, and the theme "
            "before stays.",
        ),
    ),
    "leaving": (
        "Leaving, and coming back",
        (
            "A run is a process of its own. q, a closed terminal or a lost connection end the interface, never the "
            "run. `rltui attach RUN` opens it again where you left it.",
            "After a link that dropped, `reset` repairs the shell's terminal.",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Section:
    """One place of the help. `rows`: (keys as they are shown, label, sentence)."""

    title: str
    about: str
    rows: tuple[tuple[str, str, str], ...] = ()


def sections(
    contexts: Sequence[str], keymap: Keymap, *, only: Collection[str] = BY_ID, ascii: bool = False
) -> list[Section]:
    """The keys of `contexts` in this order, each once, with what each place is. KeyError: no such context.

    only: ids of the actions that are named; all by default.
    """
    result = []
    text = any("list" in CONTEXTS[context].bases for context in contexts)
    for context in dict.fromkeys(contexts):
        rows = tuple(
            _row(action, keymap, ascii)
            for action in of_context(context)
            if action.id in only and keymap.of(action.id) and not (text and action.id == OF_ROWS)
        )
        result.append(Section(CONTEXTS[context].title, CONTEXTS[context].about, rows))
    return result


def around(context: str) -> list[str]:
    """The places whose keys count in `context`, nearest first; the help of it shows them in this order."""
    here = CONTEXTS[context]
    everywhere = [] if here.modal else ["screen", "app"]
    return list(dict.fromkeys([context, *here.bases, *here.around, *everywhere]))


def topic_sections() -> list[Section]:
    """What is good to know and belongs to no place."""
    return [Section(title, "\n".join(paragraphs)) for title, paragraphs in TOPICS.values()]


def topic(name: str, keymap: Keymap) -> list[Section] | None:
    """The help on `name`, a context or one of TOPICS; None: there is no such topic."""
    if name in TOPICS:
        title, paragraphs = TOPICS[name]
        return [Section(title, "\n".join(paragraphs))]
    return sections(around(name), keymap) if name in CONTEXTS else None


def key_cell(keys: Sequence[str], *, ascii: bool = False) -> str:
    """Several keys in one cell of a table."""
    return " ".join(shown(key, ascii=ascii) for key in keys)


def _row(action: Action, keymap: Keymap, ascii: bool) -> tuple[str, str, str]:
    return key_cell(keymap.of(action.id), ascii=ascii), action.label, action.help


def lines(found: Sequence[Section], width: int) -> list[tuple[str, str, str]]:
    """(kind, left, right) of every line, wrapped to `width` cells: kind is title, about, key or blank."""
    result: list[tuple[str, str, str]] = []
    column = max((len(row[0]) for section in found for row in section.rows), default=0) + 2
    for section in found:
        if result:
            result.append(("blank", "", ""))
        result.append(("title", section.title, ""))
        for paragraph in section.about.split("\n"):
            pieces = [paragraph] if paragraph.startswith("    ") else wrap(paragraph, max(20, width - 2))
            result += [("about", piece, "") for piece in pieces]
        for keys, _label, sentence in section.rows:
            pieces = wrap(sentence, max(20, width - column - 4)) or [""]
            result.append(("key", keys.ljust(column), pieces[0]))
            result += [("key", " " * column, piece) for piece in pieces[1:]]
    return result
