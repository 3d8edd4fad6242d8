"""Under which names a file holds a key: its own, or old spellings of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.cli.keynames import old_spellings
from rltui.cli.output import CliError
from trainer.config import load_text
from trainer.config.errors import HIDDEN
from trainer.config.positions import Path, Positions
from trainer.config.secrets import is_secret, masked
from trainer.config.toml_values import format_value, split_key


@dataclass(frozen=True, slots=True)
class Written:
    """One value in a file.

    Attributes:
        key: the name it has there.
        value: what it is.
        text: how it is written there, `5e-5` or `1_000`; of a table with a header of its own, one line of TOML.
            Of what looks like a secret it is `***`, and the value None.
        line: where it stands, from 1.
        at: `file:line:column`.
    """

    key: str
    value: Any
    text: str
    line: int
    at: str


class Document:
    """A TOML text, asked for single keys. ConfigError: it is no TOML."""

    def __init__(self, text: str, name: str) -> None:
        text = text.removeprefix("\ufeff")
        try:
            self.data: Mapping[str, Any] = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError):
            load_text(text, name)  # says where, as for every config
            raise
        self.name = name
        self._positions = Positions(text)

    def written(self, key: str) -> Written | None:
        """What stands there under exactly this name."""
        path = split_key(key)
        mark = self._positions.marks.get(path)
        value: Any = self.data
        for part in path:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        if mark is None:
            return None
        start, end = mark.value, mark.value_end
        text = format_value(value) if start is None or end is None else self._positions.text[start:end]
        if is_secret(key, value):
            value, text = None, HIDDEN
        line, column = self._positions.line_column(mark.key if start is None else start)
        return Written(key, value, text, line, f"{self.name}:{line}:{column}")

    def masked(self) -> str:
        """Its text with `***` for every value that looks like a secret."""
        text = self._positions.text
        for path in sorted(_secrets(self.data, ()), key=lambda path: self._positions.marks[path].key, reverse=True):
            mark = self._positions.marks[path]
            if mark.value is not None:
                text = f'{text[: mark.value]}"{HIDDEN}"{text[mark.value_end :]}'
        return masked(text)

    def refuse_secrets(self) -> None:
        """CliError: it holds what looks like a secret, so no copy of it is made."""
        if (path := next(_secrets(self.data, ()), None)) is not None:
            line, _ = self._positions.line_column(self._positions.marks[path].key)
            raise CliError(
                f"{self.name}:{line}: this looks like a secret, and no copy of it is made: put it in a variable of "
                "the environment, delete it here, and do this again"
            )

    def spellings(self, key: str) -> list[Written]:
        """What stands there for `key`: under that name first, then under old ones."""
        found = (self.written(spelling) for spelling in (key, *old_spellings(key)))
        return [written for written in found if written is not None]


def _secrets(value: Any, path: Path) -> Iterator[Path]:
    """Paths of values that look like secrets, by themselves or by the name they have."""
    if isinstance(value, Mapping | list):
        for name, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _secrets(item, (*path, name))
    elif is_secret(".".join(part for part in path if isinstance(part, str)), value):
        yield path
