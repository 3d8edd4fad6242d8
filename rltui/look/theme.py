"""A theme: colours by meaning, read from a TOML file.

```toml
name = "dark"      # the file's name
dark = true
twin = "light"     # the same theme for the other background
series = ["#...", ...]          # 8 colours that stay apart for the colour blind

[colors]           # COLORS, each "#rrggbb"
[gradients]        # sequential and diverging: stops from 0 to 1
[ansi]             # all of the above for terminals of 16 colours: "red", "bright_black", "default"
```
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

COLORS = (
    "background",
    "surface",
    "text",
    "strong",
    "dim",
    "border",
    "grid",
    "accent",
    "selection",
    "selection_idle",
    "match",
    "marked",
    "good",
    "watch",
    "act",
    "info",
    "live",
    "replay",
    "role_system",
    "role_user",
    "role_assistant",
    "role_tool",
)
SERIES = 8
GRADIENTS = ("sequential", "diverging")
_PLAIN = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI_COLORS = ("default", *_PLAIN, *(f"bright_{name}" for name in _PLAIN))

Fits = Callable[[Any], bool]

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_SYNTAX_LINE = re.compile(r"\(at line (\d+), column \d+\)|\(at end of document\)")
_LARGEST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours in one notation: "#rrggbb", or names of ANSI_COLORS."""

    colors: Mapping[str, str]
    series: tuple[str, ...]
    gradients: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    dark: bool
    twin: str
    rgb: Palette
    ansi: Palette


class ThemeError(Exception):
    """A theme that cannot be used. `str()` has one line a problem: `FILE:LINE: key: what is wrong`."""

    def __init__(self, file: str, problems: list[tuple[int, str, str]]):
        """`problems`: line (from 1), key ("" for the file as a whole), sentence."""
        self.file = file
        self.problems = problems
        lines = [f"{file}:{line}: {key}: {what}" if key else f"{file}:{line}: {what}" for line, key, what in problems]
        super().__init__("\n".join(lines))


def read_theme(path: Path) -> Theme:
    """The theme in a file. Raises ThemeError, also for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ThemeError(str(path), [(1, "", f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ThemeError(str(path), [(line, "", "is not UTF-8")]) from None
    if len(data) > _LARGEST_BYTES:
        raise ThemeError(str(path), [(1, "", f"is no theme: larger than {_LARGEST_BYTES // 1024} KiB")])
    return parse_theme(text, str(path), path.stem)


def parse_theme(text: str, file: str, stem: str) -> Theme:
    """The theme in `text`; `stem` is the name that it must have. Raises ThemeError with every problem."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_LINE.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        what = _SYNTAX_LINE.sub("", str(error)).strip()
        raise ThemeError(file, [(line, "", f"no TOML: {what}")]) from None
    check = _Check(data)
    name, twin, dark = check.string("name"), check.string("twin"), check.boolean("dark")
    if name and name != stem:
        check.say("name", f'"{name}" must be the name of the file, "{stem}"')
    rgb = check.palette("colors", "series", "gradients.", _is_hex, 'a colour such as "#1a2b3c"')
    ansi = check.palette("ansi", "ansi.series", "ansi.", _is_ansi, 'one of the 16 terminal colours or "default"')
    check.unknown()
    if check.problems:
        lines = key_lines(text)
        problems = [(_line_of(key, lines), key, what) for key, what in check.problems]
        raise ThemeError(file, sorted(problems))
    return Theme(name, dark, twin, rgb, ansi)


def key_lines(text: str) -> dict[str, int]:
    """The line of each table and key. For text that is TOML without multi-line strings, as themes are."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = ".".join(_parts(header[1]))
            lines.setdefault(table, number)
        elif pair := re.match(r"\s*([\w\-.\"' ]+?)\s*=", line):
            lines.setdefault(".".join(filter(None, (table, *_parts(pair[1])))), number)
    return lines


def _parts(key: str) -> list[str]:
    return [part.strip().strip("\"'") for part in key.split(".")]


def _line_of(key: str, lines: Mapping[str, int]) -> int:
    while key and key not in lines:  # a key that is missing: where its table begins
        key = key.rpartition(".")[0]
    return lines.get(key, 1)


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _is_ansi(value: Any) -> bool:
    return value in ANSI_COLORS


T = TypeVar("T")


class _Check:
    """Reads values by dotted key and collects what is wrong with them."""

    def __init__(self, data: Mapping[str, Any]):
        self._values = dict(_leaves(data))
        self._asked: set[str] = set()
        self.problems: list[tuple[str, str]] = []

    def say(self, key: str, what: str) -> None:
        self.problems.append((key, what))

    def _get(self, key: str, kind: type[T], words: str) -> T:
        self._asked.add(key)
        if key not in self._values:
            self.say(key, f"is missing, expected {words}")
        elif not isinstance(value := self._values[key], kind):
            self.say(key, f"expected {words}")
        else:
            return value
        return kind()

    def string(self, key: str) -> str:
        value = self._get(key, str, "the name of a theme")
        if self._values.get(key) == "":
            self.say(key, "expected the name of a theme")
        return value

    def boolean(self, key: str) -> bool:
        return self._get(key, bool, "true or false")

    def palette(self, table: str, series: str, gradients: str, fits: Fits, words: str) -> Palette:
        colors = {name: self._color(f"{table}.{name}", fits, words) for name in COLORS}
        found = self._colors(series, fits, words, f"{SERIES} colours", lambda count: count == SERIES)
        stops = {
            name: self._colors(gradients + name, fits, words, "2 to 16 colours", lambda count: 2 <= count <= 16)
            for name in GRADIENTS
        }
        return Palette(colors, found, stops)

    def _color(self, key: str, fits: Fits, words: str) -> str:
        value = self._get(key, str, words)
        if isinstance(self._values.get(key), str) and not fits(value):
            self.say(key, f'"{value}" is not {words}')
        return value

    def _colors(
        self, key: str, fits: Fits, words: str, size: str, long_enough: Callable[[int], bool]
    ) -> tuple[str, ...]:
        values = self._get(key, list, f"a list of {size}")
        if isinstance(self._values.get(key), list) and not long_enough(len(values)):
            self.say(key, f"expected {size}, found {len(values)}")
        for value in values:
            if not fits(value):
                self.say(key, f"{value!r} is not {words}")
        return tuple(values)

    def unknown(self) -> None:
        for key in self._values:
            if key not in self._asked:
                near = get_close_matches(key, self._asked, 1)
                self.say(key, "is not a key of a theme" + (f"; did you mean {near[0]}?" if near else ""))


def _leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield path + key, value
