"""What an edit leaves of the style of a file, and what cannot be edited."""

from typing import Any

import pytest

from trainer.config.draft import EditError
from trainer.config.edit import UNSET, Raw, edit

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
