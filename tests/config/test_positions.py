"""Positions against tomllib: every leaf is found, and the text at its position is its key and its value."""

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config.positions import Positions
from trainer.config.toml_values import format_key, format_value, split_key

names = st.one_of(
    st.from_regex(r"[a-z_][a-z0-9_-]{0,6}", fullmatch=True),
    st.text(min_size=1, max_size=4, alphabet="a .#=\"'é\\]"),
)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8, alphabet="ab \"'\\#[]{}=,\n\té"),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
documents = st.dictionaries(names, values, max_size=4)


def leaves(value: Any, path: tuple = ()) -> dict[tuple, Any]:
    if isinstance(value, dict) and (value or not path):
        return {p: v for name, item in value.items() for p, v in leaves(item, (*path, name)).items()}
    if isinstance(value, list) and value:
        return {p: v for i, item in enumerate(value) for p, v in leaves(item, (*path, i)).items()}
    return {path: value}


def check(text: str) -> None:
    positions = Positions(text)
    data = tomllib.loads(text)
    for path, value in leaves(data).items():
        mark = positions.marks[path]
        if mark.value is None:  # an empty table under a header of its own
            assert value == {}
            continue
        assert tomllib.loads(f"x = {positions.text[mark.value : mark.value_end]}")["x"] == value
        line, column = positions.of_value(path)
        assert positions.text.split("\n")[line - 1][column - 1] == positions.text[mark.value]
        if isinstance(path[-1], str):
            key_text = positions.text[mark.key : mark.value].rstrip().removesuffix("=").rstrip()
            assert split_key(key_text)[-1] == path[-1]


@st.composite
def written(draw: st.DrawFn) -> str:
    """A document in a random mix of styles: dotted keys, headers, multi-line strings and arrays, comments."""
    lines: list[str] = []

    def text_of(value: Any) -> str:
        if isinstance(value, str) and draw(st.booleans()):
            if "'" not in value and "\n" not in value:
                return f"'{value}'"
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"""\n{escaped}"""'
        if isinstance(value, list) and draw(st.booleans()):
            inner = "".join(f"\n  {text_of(item)}, # ], [" for item in value)
            return f"[{inner} # {{\n]"
        return format_value(value)

    def pair(prefix: str, name: str, value: Any) -> None:
        key = f"{prefix}{format_key(name)}"
        if isinstance(value, dict) and value and draw(st.booleans()):
            for inner, item in value.items():
                pair(f"{key} . ", inner, item)
        else:
            comment = draw(st.sampled_from(["", "  # x = [1, ", "\t"]))
            lines.append(f"{draw(st.sampled_from(['', '  ']))}{key} ={text_of(value)}{comment}")

    document = draw(documents)
    tables = {name: value for name, value in document.items() if isinstance(value, dict)}
    for name, value in document.items():
        if name not in tables:
            pair("", name, value)
    for name, value in tables.items():
        lines.append(f"[ {format_key(name)} ] # [not] a header")
        for inner, item in value.items():
            pair("", inner, item)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join("\n".join(lines).split("\n"))


@settings(max_examples=150, deadline=None)
@given(written())
def test_every_leaf_of_a_hand_written_document(text: str) -> None:
    check(text)


@settings(max_examples=80, deadline=None)
@given(documents)
def test_every_leaf_of_what_tomlkit_writes(document: dict[str, Any]) -> None:
    check(tomlkit.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        '[[a.b]]\nx = 1\n[[a.b]]\nx = 2\n[a.b.c]\ny = 1979-05-27 07:32:00 # date\n[a."d e"]\n',
        "x = \"\"\"a\"\"\"\"\ny = '''b'''''\nz = 1\n",
        'a = { b.c = [ { d = "}" }, 0x1F ] , "e" = nan }\n'.replace("nan", "1e5"),
        "a . 'b' . c = +1_000\n[t]\n\n\n",
    ],
)
def test_corners_of_the_syntax(text: str) -> None:
    check(text)


def test_line_and_column_count_from_one() -> None:
    positions = Positions("# ä\n[t]\nkey = 5\n")
    assert positions.of_key(("t", "key")) == (3, 1)
    assert positions.of_value(("t", "key")) == (3, 7)
    assert positions.of_value(("t",)) == (2, 2)
