"""Edits of a config's text: what was meant is there, and not a byte more has changed."""

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.config import all_keys
from trainer.config.draft import EditError
from trainer.config.edit import UNSET, Raw, edit
from trainer.config.positions import Positions
from trainer.config.toml_values import format_key, split_key

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.toml"))

AWKWARD = """\
# A banner, and no blank line below it
type = "rl"  # at the top
algorithm . type = 'online' # dotted, with blanks
"algorithm".variety = "gspo"
compute = { gpu_type = "H100", topology.type = "cpu", gpu_count = 1 } # inline, dotted inside
[training.lora] # before its parent, which has no header
r=8
alpha=0x10 # hex
  [ training . rewards ]
  # nothing but comments here, and " quotes # hashes
[rollout]
max_turns      = 4      # aligned
ops            = ["agent", "env"]
env_config     = {}
ops_text       = \"\"\"
# no comment
key = "value"
# the end\"\"\"
seeds = [
    1, # one
    2_000 # two
    # ]
  , 3,
]
grid = [ [1, 2], # row
  [3], ]
[evaluation]
seeds=[0,1 , 2]
[[criteria.items]]
id = "a" # first
[criteria.items.inner]
x = 1
[[criteria.items]]
id = "b"
[tags]
"a.b" = 1e3
'' = 2
when = 1979-05-27 07:32:00 # a date
odd = [ {a = 1}, {b.c = 2, d = []} ]
[training.weight_sync]
enable = true"""

SMALL_ONES = (
    "",
    "# only a comment",
    "\n\n[a]\n[a.b.c]\nd=1",
    "a.b.c = 1\na.b.d = 2\n[z]\n",
    "[[a]]\n[[a]]\nb = 1\n[[a.c]]\nd = 1\n[[a.c]]\n",
    "x = [ # open\n]\ny = [\n  1\n  # end\n]\nz = [\n1,2,\n3]\n",
)

CRLF = AWKWARD.replace("\n", "\r\n") + "\r\n"
LEGACY = (SAMPLES[0].parent / "legacy.toml").read_bytes().decode()
TEXTS = [*(path.read_bytes().decode() for path in SAMPLES), AWKWARD, CRLF, "\ufeff" + AWKWARD, *SMALL_ONES]

RAWS = [
    "5e-5",
    " 1_000\t",
    "0x1F",
    "'lit\"eral'",
    '"""two\nlines # [x]"""',
    "[1, # one\n 2]",
    "{ a = 5e-5, b.c = 'x', d = [] }",
    "[{ a = 1 }, { a = 0x2 }]",
    "1979-05-27",
    "-inf",
    "nan",
]
WRONG_RAWS = ["", "one two", "1 # why", "[1", '"open', "1\nb = 2", "{ a = 1\n}", "1]", "1" * 5000, "[" * 3000]

names = st.sampled_from(["a", "b", "c d", "x.y", ""])
scalars = st.one_of(
    st.booleans(),
    st.integers(-5, 5000),
    st.floats(),
    st.text(max_size=6, alphabet="ab \"'\\#[]=\n\r\té\x00"),
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)


def paths_of(data: Any, path: tuple = ()) -> Iterator[tuple]:
    for name, value in data.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from paths_of(value, (*path, name))


def dotted(path: tuple) -> str:
    return ".".join(map(format_key, path))


@st.composite
def changes_of(draw: st.DrawFn, data: dict[str, Any]) -> tuple[str, Any]:
    there = [dotted(path) for path in paths_of(data)]
    new = [*all_keys(), "zz", "zz.new", 'zz."d.e".f', 'tags."x y"', "training.lora.sub.key", "a.b.new", "a.new.deep"]
    key = draw(st.one_of(st.sampled_from(there), st.sampled_from(new)) if there else st.sampled_from(new))
    now = at(data, split_key(key))
    options = [values, st.sampled_from(RAWS).map(Raw), st.just(UNSET), st.sampled_from(WRONG_RAWS).map(Raw)]
    if isinstance(now, list):
        item = st.sampled_from(now) if now else values
        options += [
            st.lists(st.one_of(item, values), max_size=len(now) + 2),
            values.map(lambda value: [*now, value]),
            st.lists(st.booleans(), min_size=len(now), max_size=len(now)).map(
                lambda keep: [item for item, kept in zip(now, keep, strict=True) if kept]
            ),
        ]
    elif isinstance(now, dict):
        options += [st.dictionaries(names, values, max_size=2).map(lambda more: now | more)]
    elif now is not None:
        options += [st.just(now)]
    return key, draw(st.one_of(options))


def at(data: Any, path: tuple) -> Any:
    for name in path:
        if not isinstance(data, dict) or name not in data:
            return None
        data = data[name]
    return data


def exact(value: Any) -> Any:
    """A form in which 1, 1.0 and true differ, and NaN equals itself."""
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    return [exact(item) for item in value] if isinstance(value, list) else repr(value)


def meant_by(data: dict[str, Any], path: tuple, change: Any) -> dict[str, Any] | None:
    """The data after the change, by plain means; None: there is a value in the way."""
    meant = table = copy.deepcopy(data)
    for name in path[:-1]:
        if name not in table and change is UNSET:
            return meant
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return None
    if change is UNSET:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = tomllib.loads(f"x = {change.text}")["x"] if isinstance(change, Raw) else change
    return meant


def without_empty(data: dict[str, Any], path: tuple) -> Any:
    data = copy.deepcopy(data)
    for count in range(len(path) - 1, 0, -1):
        if at(data, path[:count]) == {}:
            at(data, path[: count - 1]).pop(path[count - 1])
    return exact(data)


def touched(old: str, path: tuple) -> tuple[int, int] | None:
    """The span that an edit of this path may touch, as far as that is one span; None: not to say."""
    positions = Positions(old)
    for count in range(len(path), 0, -1):
        mark = positions.marks.get(path[:count])
        if mark is not None and mark.value is not None:
            start = old.rfind("\n", 0, mark.key) + 1
            return start, old.find("\n", mark.value_end) + 1 or len(old)
    return None


def check(old: str, key: str, change: Any) -> str:
    """Makes one edit and holds it against what was meant."""
    bom = "\ufeff" if old.startswith("\ufeff") else ""
    body, path = old.removeprefix(bom), split_key(key)
    data = tomllib.loads(body)
    wrong = isinstance(change, Raw) and change.text in WRONG_RAWS
    meant = None if wrong else meant_by(data, path, change)
    try:
        new = edit(old, {key: change})
    except EditError as error:
        assert meant is None, error
        assert str(error) and len(str(error).splitlines()) <= 12
        return old
    assert meant is not None
    assert new.startswith(bom)
    after = tomllib.loads(new.removeprefix(bom))
    if change is UNSET:
        assert without_empty(after, path) == without_empty(meant, path)
    else:
        assert exact(after) == exact(meant)
    if exact(after) == exact(data) and change is not UNSET:
        assert new == old
        return new
    new_body = new.removeprefix(bom)
    if (span := touched(body, path)) is not None:
        start, end = span
        assert new_body.startswith(body[:start]) and new_body.endswith(body[end:])
        assert len(new_body) >= len(body) - (end - start)
    elif at(data, path) is None and change is not UNSET:
        ahead = next((i for i, (a, b) in enumerate(zip(body, new_body, strict=False)) if a != b), len(body))
        assert new_body.endswith(body[ahead:])
    if "\r\n" in body and "\n" not in body.replace("\r\n", "") and not isinstance(change, Raw):
        assert "\n" not in new_body.replace("\r\n", "")
    return new


def some_edits(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(5):
        key, change = data.draw(changes_of(tomllib.loads(text.removeprefix("\ufeff"))))
        text = check(text, key, change)


QUIETLY = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=200, **QUIETLY)
@given(st.data())
def test_a_thousand_random_edits(data: st.DataObject) -> None:
    some_edits(data)


@pytest.mark.slow
@settings(max_examples=2000, **QUIETLY)
@given(st.data())
def test_ten_thousand_random_edits(data: st.DataObject) -> None:
    some_edits(data)


def test_every_leaf_can_be_changed_and_removed() -> None:
    """No layout is left out because chance never came to it."""
    count = 0
    for text in (LEGACY, AWKWARD, CRLF, *SMALL_ONES):
        for path in paths_of(tomllib.loads(text.removeprefix("\ufeff"))):
            for change in (Raw("5e-5"), UNSET, ["x", 1]):
                check(text, dotted(path), change)
                count += 1
    print(f"{count} edits")
    assert count > 400
