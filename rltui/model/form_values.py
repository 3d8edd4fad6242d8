"""Values between a config's text and a person: as they are shown, typed, and edited over several lines."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from typing import Any

from rltui.cli.config.change import typed
from rltui.cli.output import CliError
from trainer.config.edit import Raw
from trainer.config.keys import Key
from trainer.config.toml_values import format_key, format_value, parse_value


class FormError(ValueError):
    """What was typed cannot be taken; the text says why."""


class Kind(StrEnum):
    """How a value is edited."""

    FLAG = "flag"
    CHOICE = "choice"
    NUMBER = "number"
    TEXT = "text"
    PATH = "path"
    URL = "url"
    LIST = "list"
    TABLE = "table"


PATHS = ("runs_dir", "dir", "task_app_env_file", "sqld_db_path", "env_file_path", "source")


def kind_of(known: Key | None, value: Any = None) -> Kind:
    """`value`: of a key that is not ours, which has no other type."""
    if known is None:
        return _kind_of_value(value)
    types = known.types
    if known.is_table:
        return Kind.TABLE
    if list in types:
        return Kind.LIST
    if types == (bool,):
        return Kind.FLAG
    if known.choices:
        return Kind.CHOICE
    if int in types or float in types:
        return Kind.NUMBER
    if known.name.endswith("_url") or known.name in ("url", "base_url"):
        return Kind.URL
    return Kind.PATH if known.name in PATHS else Kind.TEXT


def _kind_of_value(value: Any) -> Kind:
    for type_, kind in ((bool, Kind.FLAG), (int | float, Kind.NUMBER), (list, Kind.LIST), (dict, Kind.TABLE)):
        if isinstance(value, type_):
            return kind
    return Kind.TEXT


def shown_value(value: Any, text: str | None = None) -> str:
    """One line: as it is spelt in the file (`5e-5`), text without quotes where that is the same."""
    if isinstance(value, str) and value and value == value.strip() and "\n" not in value:
        if parse_value_or_none(value) == value:
            return value
    return format_value(value) if text is None else text


def parse_value_or_none(text: str) -> Any:
    try:
        return parse_value(text)
    except ValueError:
        return None


def meant(key: str, known: Key | None, text: str) -> Any:
    """What is meant by `text`, for `edit`: TOML as typed, a bare word as a string. FormError: it is neither.

    Where only text can stand, text is meant: `2024` is a label like any other.
    """
    text = text.strip()
    if "\n" not in text and known is not None and set(known.types) <= {str} and text[:1] not in "\"'":
        return text
    try:
        return typed(key, text)
    except CliError as error:
        raise FormError(str(error)) from None


# Lists and tables, over several lines


def as_lines(value: Any) -> str:
    """A list as a line an item, a table as lines of TOML."""
    if isinstance(value, list):
        return "\n".join(shown_value(item) for item in value)
    if isinstance(value, dict):
        return "\n".join(f"{format_key(str(name))} = {format_value(item)}" for name, item in value.items())
    return ""


def from_lines(text: str, kind: Kind) -> Raw:
    """The inverse, as TOML of one line. FormError: a line is no TOML."""
    if kind is Kind.LIST:
        return Raw(f"[{', '.join(_item(line) for line in text.splitlines() if line.strip())}]")
    try:
        return Raw(format_value(tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormError(f"no TOML: {error}") from None


def _item(line: str) -> str:
    text = line.strip().removesuffix(",")
    try:
        value = parse_value(text)
    except ValueError as error:
        raise FormError(f"{text}: {error}") from None
    return format_value(value) if isinstance(value, str) else text
