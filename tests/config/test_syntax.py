"""What is no TOML: the line, a caret, the usual cause in plain words, and a line that is right."""

import random
import tomllib

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, Problem, load_text
from trainer.config.positions import unfinished


def problem_of(text: str) -> Problem:
    with pytest.raises(ConfigError) as caught:
        load_text(text, "my.toml", environ={})
    [problem] = caught.value.problems
    assert problem.code == "syntax"
    return problem


# line: (part of the reason, the line that is right)
LINES: dict[str, tuple[str, str]] = {
    "mode = lora": ("text without quotes", 'mode = "lora"'),
    "mode = lora   # why": ("text without quotes", 'mode = "lora"'),
    "x = C:\\models": ("text without quotes", "x = 'C:\\models'"),
    "x = True": ("true and false in small letters", "x = true"),
    "x = yes": ("true and false", "x = true"),
    'x = "abc': ("not closed", 'x = "abc"'),
    "x = 'abc": ("not closed", "x = 'abc'"),
    "x 5": ("the = between key and value is missing", "x = 5"),
    "x: 5": ("= between key and value, not :", "x = 5"),
    "a b = 1": ("blanks", '"a b" = 1'),
    "x = .5": ("a digit before its point", "x = 0.5"),
    "x = 05": ("begin with 0", "x = 5"),
    "x = 10s": ("text without quotes", 'x = "10s"'),
    "x = “abc”": ("quotes of TOML", 'x = "abc"'),
    'x = "C:\\models"': ("backslash", "x = 'C:\\models'"),
    "rate = 2e-3,": ("a number stands alone", "rate = 2e-3"),
    "rate = 2E-3f": ("a number stands alone", "rate = 2E-3"),
    "x = 1,000": ("a number stands alone", "x = 1_000"),
    "x = 3;": ("a number stands alone", "x = 3"),
    'x = "a",': ("no , ends a line", 'x = "a"'),
    "[section": ("] that ends", "[section]"),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("below", ["", "\ny = 2\n"])
def test_a_line_that_is_wrong_by_itself(line: str, below: str) -> None:
    problem = problem_of(f"[a]\nz = 1\n{line}{below}")
    why, right = LINES[line]
    assert why in problem.why and problem.fix == right
    assert problem.line == 3 and tomllib.loads(problem.fix)
    _, shown, caret = problem.why.splitlines()
    assert shown.strip() == line.strip() and caret.index("^") - 2 == problem.column - 1


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[a]\nx = None\n", 2, "a key that is left out is unset"),
        ("[a]\nx =\n", 2, "no value after the ="),
        ("x =", 1, "no value after the ="),
        ("[a]\nx = 1\nx = 2\n", 3, "a.x is given twice, first at line 2"),
        ("[a]\nx = 1\ny = [1,\n2]\nx = 2", 5, "a.x is given twice, first at line 2"),
        ("[a]\ny = 1\n[b]\n[a]\nz = 1\n", 4, "the section [a] begins at line 1 already"),
        ("a = 1\n[a]\nb = 1\n", 2, "a has a value at line 1, so there can be no section [a]"),
        ("[t]\nlora = 3\n[t.lora]\nr = 8", 3, "t.lora has a value at line 2, so there can be no section [t.lora]"),
        ("a = 1\na.b = 2\n", 2, "a has a value at line 1, so there can be no a.b"),
        ("x = {a = 1, a = 2}\n", 1, "given twice between { and }"),
        ("z = 1\nx = [\n1,\n2\n", 2, "what [ opens is not closed"),
        ("x = [1,\n\ny = 2\n", 3, "above is not closed"),
        ("x = [1 2]\n", 1, "a comma is missing"),
        ("x = {a = 1\n}\n", 1, "not closed on its line"),
        ('x = """abc\ndef\n', 1, 'the text that """ opens is not closed'),
        ("x = 1 y = 2\n", 1, "a second key in one line"),
        ("x = 1 // one\n", 1, "a comment begins with #"),
        ("= 1\n", 1, "no key before the ="),
        ('x = "a\x01"\n', 1, "a control character, U+0001"),
        ("[]\n", 1, "a line is NAME = VALUE"),
    ],
)
def test_what_is_wrong_between_lines(text: str, line: int, why: str) -> None:
    problem = problem_of(text)
    assert (problem.line, why in problem.why) == (line, True), str(problem)
    assert problem.fix and "\x01" not in str(problem)


@pytest.mark.parametrize(
    "line", ["api_key = hunter2hunter2", "url = http://me:hunter2hunter2@host", "= hf_abcdefghijklmnop1234"]
)
def test_a_line_that_may_hold_a_secret_is_not_repeated(line: str) -> None:
    problem = problem_of(f"[a]\n{line}\n")
    assert "hunter2" not in str(problem) and "hf_abc" not in str(problem) and problem.line == 2


@pytest.mark.parametrize(
    "lines",
    [
        'api_key: "hunter2xyz"',
        'x = { password = "hunter2xyz"',
        'x = { password = "hunter2xyz"\ny = 1',
        "password = [\n  hunter2xyz\n]",
        'password = """\nhunter2xyz\\q\n"""',
        'pass "hunter2xyz"',
        'pw = """\nhunter2xyz',
        "secret_token = hunter2xyz",
        "passphrase hunter2xyz",
        "x = 1 // password = hunter2xyz",
        "[p password = hunter2xyz",
        '{"password": "hunter2xyz"}',
        "export DB_PASSWORD=hunter2xyz",
    ],
)
def test_a_broken_line_that_names_a_secret_is_not_repeated(lines: str) -> None:
    problem = problem_of(f"[a]\n{lines}\n")
    assert "hunter2" not in str(problem) and problem.fix and problem.line in (2, 3)


def test_a_line_that_names_a_variable_is_shown() -> None:
    assert problem_of("api_key_env = OPENAI_API_KEY").fix == 'api_key_env = "OPENAI_API_KEY"'


def test_any_damage_has_an_answer() -> None:
    rng = random.Random(0)
    pieces = [
        '"',
        "'",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "\\",
        "True",
        "0",
        ".",
        ",",
        '"""',
        "[training]\n",
        "seed = 1\n",
        "\r\n",
    ]
    for _ in range(1500):
        text = SMALL
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(pieces) + text[at + rng.randint(0, 3) :]
        try:
            load_text(text, "my.toml", environ={})
        except ConfigError as error:
            assert all("(at line" not in problem.why and problem.place.line != 0 for problem in error.problems)


def test_where_an_open_statement_begins() -> None:
    assert unfinished("a = 1\nb = [1,\n\n2,") == len("a = 1\n")
    assert unfinished("a = 1  # end\n") == len("a = 1  # end")
