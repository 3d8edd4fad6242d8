"""Valid JSON, bytes and files, changed a little."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]

ODD = [
    None, True, False, 0, -1, 1, 2, 10**30, 10**400, -(2**63), 2**64, 0.5, 1e308, -0.0, math.nan, math.inf, -math.inf,
    "", " ", "x", "0", "NaN", "\x00", "\x1b[2J", "\ud800", "é\u202e漢", "a" * 5_000, "../../x", "/etc/passwd",
    [], [[]], [None], [1, "x"], {}, {"": 1}, {"a": {"b": [None]}},
]  # fmt: skip

values = st.one_of(
    st.sampled_from(ODD),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.recursive(
        st.sampled_from(ODD),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=5,
    ),
)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where something stands in a JSON value, the whole of it first."""
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def at(value: Any, path: Path) -> Any:
    for name in path:
        value = value[name]
    return value


def changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy in which the value at `path` is what `change` makes of it; a LookupError takes it out."""
    if not path:
        return change(value)
    name, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    try:
        copy[name] = changed(copy[name], tuple(rest), change)
    except LookupError:
        del copy[name]
    return copy


def _out(_: Any) -> Any:
    raise LookupError


@st.composite
def mutated(draw: st.DrawFn, value: Any, times: int = 3, more: Sequence[Any] = ()) -> Any:
    """`value` with up to `times` of its parts replaced, taken out, doubled or put in another's place.

    more: values that are odd for this reader alone.
    """
    odd = st.one_of(st.sampled_from(list(more)), values) if more else values
    for _ in range(draw(st.integers(1, times))):
        path = draw(st.sampled_from(list(places(value))))
        what = draw(st.sampled_from(["replace", "replace", "out", "add", "move", "double"]))
        if what == "replace":
            new = draw(odd)
            value = changed(value, path, lambda _, new=new: new)
        elif what == "out" and path:
            value = changed(value, path, _out)
        elif what == "move":
            new = at(value, draw(st.sampled_from(list(places(value)))))
            value = changed(value, path, lambda _, new=new: new)
        elif what == "double":
            value = changed(value, path, lambda old: old + old if isinstance(old, str | list) else [old, old])
        elif what == "add" and isinstance(at(value, path), dict):
            name, new = draw(st.text(max_size=5)), draw(odd)
            value = changed(value, path, lambda old, name=name, new=new: {**old, name: new})
    return value


def to_json(value: Any) -> bytes:
    """As lenient writers do: NaN as NaN, half characters escaped."""
    return json.dumps(value).encode()


@st.composite
def torn(draw: st.DrawFn, data: bytes, times: int = 3) -> bytes:
    """Bytes with some flipped, cut out, doubled, or put in."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, times))):
        start = draw(st.integers(0, len(out)))
        end = min(len(out), start + draw(st.sampled_from([0, 1, 2, 7, 64, 1_000])))
        what = draw(st.sampled_from(["flip", "cut", "end", "double", "put"]))
        if what == "flip" and start < len(out):
            out[start] ^= draw(st.integers(1, 255))
        elif what == "cut":
            del out[start:end]
        elif what == "end":
            del out[start:]
        elif what == "double":
            out[end:end] = out[start:end]
        elif what == "put":
            out[start:start] = draw(st.sampled_from(PIECES))
    return bytes(out)


PIECES = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\n\n{}\n", b"[" * 3_000, b'{"a":' * 3_000, b"1" * 5_000,
    b"NaN", b"1e999", b"-", b'"', b"\\u", b'\\ud800', b"\x1b]0;x\x07", b"{", b"}", b"]", b",", b"null", b"\xe2\x80",
    b" " * 600,
]  # fmt: skip
