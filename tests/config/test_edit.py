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


TEXT = """\
[training]
a      = 5e-5
longer = 1_000   # keep
# batch_size = 3
  [training.lora]
  r = 16

# about rollouts
[rollout]
ops = ["agent", "env"] # who
x = { a = 1, b = 2 }
seeds = [
  1, # one
  0x2, # two
  3 # three
]
"""


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"training.a": Raw("1e-4")}, "5e-5", "1e-4"),
        ({"training.longer": 2000}, "1_000   # keep", "2000    # keep"),
        ({"training.longer": UNSET}, "longer = 1_000   # keep\n", ""),
        ({"training.b": Raw("0x10")}, "# keep\n", "# keep\nb      = 0x10\n"),
        ({"training.lora.alpha": 32}, "  r = 16\n", "  r = 16\n  alpha = 32\n"),
        (
            {"training.rewards.step_rewards_mode": "off"},
            "# about",
            '  [training.rewards]\n  step_rewards_mode = "off"\n\n# about',
        ),
        ({"evaluation.seeds": [1]}, "three\n]\n", "three\n]\n\n[evaluation]\nseeds = [1]\n"),
        ({"type": "rl"}, "[training]\n", 'type = "rl"\n\n[training]\n'),
        ({"rollout.x.c": 3}, "b = 2 }", "b = 2, c = 3 }"),
        ({"rollout.x": {"b": 2}}, "{ a = 1, b = 2 }", "{ b = 2 }"),
        ({"rollout.x": {"z": 1, "b": 2}}, "{ a = 1,", "{ z = 1,"),
        ({"rollout.seeds": [1, 5, 3]}, "0x2,", "5,"),
        ({"rollout.seeds": [2, 3]}, "  1, # one\n", ""),
        ({"rollout.seeds": [1, 2, 3, 4, 5]}, "3 # three\n", "3, # three\n  4,\n  5\n"),
        ({"rollout.seeds": [3, 2]}, "1, # one\n  0x2, # two\n  3 # three\n", "3,\n  0x2,\n"),
        ({"rollout.ops": ["env"]}, '["agent", "env"] #', '["env"] #'),
        ({"rollout.ops": ["agent", "env", "x"]}, '"env"] #', '"env", "x"] #'),
        ({"rollout.x": Raw("{ a = 1, b = 0x2, c = 5e-5 }")}, "b = 2 }", "b = 2, c = 5e-5 }"),
        ({"training.lora": UNSET}, "  [training.lora]\n  r = 16\n", ""),
        ({"training.a": 5e-5, "training.longer": 1000, "rollout.seeds": [1, 2, 3]}, "5e-5", "5e-5"),
    ],
)
def test_the_style_of_an_edit(changes: dict[str, Any], old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert edit(TEXT, changes) == TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("a = 1    # c\n", 1000, "a = 1000 # c\n"),
        ("a = 1    # c\n", 100_000, "a = 100000 # c\n"),
        ("a = 1000 # c\n", 1, "a = 1 # c\n"),
        ("a = 1000 # c\nb = 1    # d\n", 1, "a = 1    # c\nb = 1    # d\n"),
        ("b = 1    # d\na = 1000 # c\n", 1, "b = 1    # d\na = 1    # c\n"),
        ("a = 'x # y'   # c\n", "z", 'a = "z"       # c\n'),
        ("a = 1\t\t# c\n", 1000, "a = 1000\t\t# c\n"),
        ("a = [1, 2]  # c\r\n", [1, 2, 3], "a = [1, 2, 3] # c\r\n"),
        ("a = [1, 2]     # c\n", [1], "a = [1]        # c\n"),
        ("a = { b = 1 }   # c\n", {"b": 10, "c": 2}, "a = { b = 10, c = 2 } # c\n"),
        ("a = '1'  # c", "123", 'a = "123" # c'),
    ],
)
def test_a_comment_keeps_its_column_where_the_blanks_allow(old: str, value: Any, new: str) -> None:
    assert edit(old, {"a": value}) == new


def test_a_section_known_by_its_sub_table_gets_its_header_above() -> None:
    text = "[a]\nb = 1\n\n# about lora\n[training.lora]\nr = 8\n"
    new = edit(text, {"training.group_size": 4})
    assert new == text.replace("# about", "[training]\ngroup_size = 4\n\n# about")


def test_a_key_goes_into_the_dotted_group_of_its_table() -> None:
    text = "[training]\nlora.r = 8\nbatch_size = 2\n"
    assert edit(text, {"training.lora.alpha": 1}) == "[training]\nlora.r = 8\nlora.alpha = 1\nbatch_size = 2\n"


def test_an_array_of_tables_changes_item_by_item() -> None:
    text = "[[c]]\nid = 'a' # first\n[[c]]\nid = 'b'\n\n[z]\nx = 1\n"
    new = edit(text, {"c": [{"id": "a", "w": 0.5}, {"id": "b"}, {"id": "c"}]})
    assert new == "[[c]]\nid = 'a' # first\nw = 0.5\n[[c]]\nid = 'b'\n\n[[c]]\nid = \"c\"\n\n[z]\nx = 1\n"
    assert edit(text, {"c": [{"id": "b"}]}) == '[[c]]\nid = "b" # first\n\n[z]\nx = 1\n'


def test_a_text_of_several_lines_stays_one() -> None:
    text = 'x = """\na\nb"""\r\n'
    assert edit(text, {"x": 'a\n"c"\\'}) == 'x = """\na\n\\"c\\"\\\\"""\r\n'


def test_a_file_without_a_last_newline_gets_none() -> None:
    assert edit("[a]\nx = 1", {"a.y": 2}) == "[a]\nx = 1\ny = 2"
    assert edit("[a]\nx = 1", {"b.y": 2}) == "[a]\nx = 1\n\n[b]\ny = 2"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training.a.b": 1}, "training.a is 5e-5"),
        ({"rollout.seeds.x": 1}, "rollout.seeds is a list; set it as a whole"),
        ({"training.a": None}, "use UNSET"),
        ({"training.a": object()}, "which TOML has not"),
        ({"training.a": 2**64}, "64 bits"),
        ({"training.a": "\ud800"}, "surrogate"),
        ({"training.a": Raw("1 # why")}, "leave out what follows"),
        ({"training.a": Raw("[1")}, "not a TOML value"),
        ({"a b": 1}, "not a TOML key"),
        ({"rollout.x.y": Raw("[1,\n2]"), "training.": 1}, "not a TOML key"),
    ],
)
def test_what_cannot_be_done_is_said_in_plain_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(EditError) as caught:
        edit(TEXT, changes)
    assert words in str(caught.value)


def test_a_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(EditError, match=r"not TOML: .*line 2"):
        edit("a = 1\nb = \n", {"a": 2})
    with pytest.raises(EditError):
        edit("a = " + "[" * 5000, {"a": 2})


SEEDS = """\
seeds = [            # held out
  160, 161, 162, # first
  163, 164,
]
temperature = 0.0    # greedy
"""


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("[1,2,3]", "seeds = [1,2,3]      # held out\n"),
        ("[]", "seeds = []           # held out\n"),
        ("[1000, 2000, 3000]", "seeds = [1000, 2000, 3000] # held out\n"),
        ("[160,161]", "seeds = [            # held out\n  160, 161, # first\n]\n"),
        ("[163, 164]", "seeds = [            # held out\n  163, 164,\n]\n"),
        ("[160, 162, 163]", "seeds = [            # held out\n  160, 162, # first\n  163,\n]\n"),
        ("[163, 5]", "seeds = [163, 5]     # held out\n"),
    ],
)
def test_another_list_leaves_no_blank_line_and_keeps_the_comment_on_it(typed: str, wanted: str) -> None:
    for newline in ("\n", "\r\n"):
        text = SEEDS.replace("\n", newline)
        new = edit(text, {"seeds": Raw(typed)})
        assert new == (wanted + "temperature = 0.0    # greedy\n").replace("\n", newline)


def test_one_item_a_line_stays_so_below_the_comment_on_the_bracket() -> None:
    text = "a = [ # b\n  # c\n  0x1, # d\n  2,\n]\n"
    assert edit(text, {"a": [5, 1, 6]}) == "a = [ # b\n  # c\n  5,\n  0x1,\n  6,\n]\n"


def test_both_comments_of_a_list_that_becomes_a_line_stay() -> None:
    assert edit("a = [ # b\n  1,\n] # c\n", {"a": Raw("[7,8]")}) == "a = [7,8] # b # c\n"
    nested = "a = [\n  [ # b\n    1,\n  ], [2]\n]\n"  # no place for a comment
    assert edit(nested, {"a": Raw("[[7,8],[2]]")}) == "a = [\n  [7,8], [2]\n]\n"
