"""Half characters: lone surrogates, which JSON escapes, arguments and variables can give and no file can hold."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from trainer.config.errors import Problem
from trainer.config.sources import Given

_WHY = "holds half a character (a lone surrogate), which is no text and cannot be stored"
_IN_KEY = re.compile(r"(?<!\\)\\U0000D[89A-F]")  # as `format_key` writes it


def has_broken_text(item: Given) -> bool:
    return is_broken(item.value) or _IN_KEY.search(item.key) is not None


def is_broken(value: Any) -> bool:
    """Whether a text in `value`, at any depth, cannot be written as UTF-8."""
    if isinstance(value, dict):
        return any(is_broken(str(name)) or is_broken(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return any(map(is_broken, value))
    return isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)


def broken_texts(given: Iterable[Given]) -> list[Problem]:
    """An error for each value or key that holds half a character."""
    return [
        Problem(
            replace(item.place, file=_whole(item.place.file)),  # a JSON pointer holds the key
            item.key,
            _WHY,
            allowed="text, all of it in UTF-8",
            fix="write the whole character, or leave it out",
            code="encoding",
        )
        for item in given
        if has_broken_text(item)
    ]


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
