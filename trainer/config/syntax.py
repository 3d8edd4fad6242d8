"""What is no TOML: where, in which words of the file, and what was probably meant."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from trainer.config.errors import Place, Problem
from trainer.config.positions import Path, Positions, unfinished
from trainer.config.secrets import is_secret, masked, may_hold_secret
from trainer.config.toml_values import join_key, split_key

WIDTH = 72  # characters of a line that are shown
HELP = "see https://toml.io for the syntax"
WORDS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
NOTHING = ("none", "null", "nil", "undefined")
QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')
_NUMBER = r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_NO_NUMBER = "a number stands alone: no comma and no letter behind it, and _ between its digits"
_PAIR = re.compile(r"(?P<key>[^=#]+?)\s*=\s*(?P<value>.*?)\s*(?:\s#.*)?$")


@dataclass(frozen=True, slots=True)
class _Fault:
    """What tomllib says, and the line that it says it of.

    Attributes:
        what: its words.
        at: an offset into the text; for what is given twice where its second time begins.
        end: where tomllib stopped.
        is_open: it stopped at the end of the text, in the middle of something.
        line: the line at `at`, without its end; `start` is its offset.
    """

    what: str
    text: str
    at: int
    end: int
    is_open: bool
    start: int
    line: str

    @property
    def rest(self) -> str:
        return self.line[self.at - self.start :]

    @property
    def pair(self) -> tuple[str, str] | None:
        """Key and value as they are written, comment left out."""
        match = _PAIR.match(self.line.strip())
        return (match["key"], match["value"]) if match else None


def syntax_problem(error: tomllib.TOMLDecodeError, text: str, name: str) -> Problem:
    """The one error of a text that is no TOML, with the line and a caret below the place."""
    fault = _fault(error, text.replace("\r\n", "\n"))
    why, fix = next(_explanations(fault), None) or (_lower(fault.what), HELP)
    line = fault.text.count("\n", 0, fault.start) + 1
    place = Place(name, line, fault.at - fault.start + 1)
    return Problem(place, "", "\n".join([f"not TOML: {why}", *_excerpt(fault)]), fix=fix, code="syntax")


def _fault(error: tomllib.TOMLDecodeError, text: str) -> _Fault:
    """tomllib gives the place in words: `Invalid value (at line 3, column 5)`, or `(at end of document)`."""
    what, _, where = str(error).rpartition(" (at ")
    numbers = [int(part) for part in re.findall(r"\d+", where)]
    end = at = _offset(text, *numbers) if len(numbers) == 2 else len(text.rstrip())
    is_open = len(numbers) != 2 and not what.startswith("Cannot")
    if is_open:  # it is shown where it begins: the value, if there is one
        at = unfinished(text)
        pair = _PAIR.match(text[at:].partition("\n")[0])
        at += pair.start("value") if pair else 0
    elif what.startswith("Cannot"):
        at = _statement(text, end)
    start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", start)
    return _Fault(what, text, at, end, is_open, start, text[start : len(text) if line_end < 0 else line_end])


def _statement(text: str, end: int) -> int:
    """Where the `key = value` begins that ends at `end`, or the [section] whose name does."""
    start = text.rfind("\n", 0, end) + 1
    if text[start:end].lstrip().startswith("["):
        return start + len(text[start:end]) - len(text[start:end].lstrip())
    whole = Positions(text[:end])
    return whole.marks[whole.blocks[-1].pairs[-1]].key


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return min(start + column - 1, len(text))


def _excerpt(fault: _Fault) -> list[str]:
    """The line and a caret. Nothing of a line that may hold a secret."""
    if _is_hidden(fault):
        return []
    column = fault.at - fault.start
    first = max(0, column - WIDTH // 2)
    shown = "".join(char if char.isprintable() else " " for char in fault.line[first : first + WIDTH])
    return [f"  {shown}", f"  {' ' * (column - first)}^"]


def _is_hidden(fault: _Fault) -> bool:
    """Whether the statement that is at fault may hold a secret, on its line or on one before it."""
    begin = min(fault.start, unfinished(fault.text[: fault.at]))
    begin = fault.text.rfind("\n", 0, begin) + 1
    key, value = fault.pair or ("", fault.line)
    statement = fault.text[begin : fault.start + len(fault.line)]
    return may_hold_secret(statement) or is_secret(key.strip(), value.strip("\"' "))


# --- the usual causes: (why, fix) of the first that is one


def _explanations(fault: _Fault) -> Iterator[tuple[str, str]]:
    what = fault.what
    if what == "Invalid value":
        yield from _no_value(fault)
    elif what.startswith("Cannot overwrite") or what.startswith("Cannot declare"):
        yield from _given_twice(fault)
    elif what.startswith("Duplicate inline table key"):
        yield "one key is given twice between { and }", "delete one of the two"
    elif what.startswith("Cannot mutate") or what.startswith("Cannot redefine"):
        yield "what stands between { and }, or under a [section], is added to from elsewhere", "keep it in one place"
    elif what.startswith("Expected '='"):
        yield from _no_equals(fault)
    elif what.startswith("Illegal character") or what.startswith("Found invalid"):
        yield from _bad_character(fault)
    elif what == "Unterminated string" or what.startswith("Expected '\"") or what.startswith('Expected "'):
        yield from _open_string(fault)
    elif what.startswith("Expected ']"):
        yield "the ] that ends the name of the section is missing", _section(fault)
    elif what == "Unclosed array" and fault.is_open:
        yield "what [ opens is not closed", "a ] after the last item"
    elif what == "Unclosed array":
        yield "a list is not closed, or a comma is missing in it", "a comma between two items, ] after the last"
    elif what == "Unclosed inline table":
        yield "a { } is not closed on its line, or a comma is missing in it", "write it in one line, or as a [section]"
    elif what.startswith("Expected newline"):
        yield from _more_than_a_value(fault)
    elif what.startswith("Unescaped"):
        yield from _backslash(fault)
    elif what in ("Invalid statement", "Invalid initial character for a key part"):
        yield from _no_key(fault)


def _no_value(fault: _Fault) -> Iterator[tuple[str, str]]:
    key, given = fault.pair or ("", "")
    word = re.match(r"[^\s,\]}#]*", fault.rest)
    token = word[0] if word else ""
    if fault.is_open and given[:1] in ("[", "{"):
        yield f"what {given[0]} opens is not closed", f"a {']' if given[0] == '[' else '}'} after the last item"
        return
    if not fault.is_open and _begins_statement(fault):
        yield "a list or { } above is not closed", "a ] or } before this line"
        return
    if not token or fault.is_open:
        yield "no value after the =", "write a value there, or delete this line"
        return
    low = token.lower()
    if (number := _number(given)) is not None:
        yield _NO_NUMBER, _line(fault, key, number)
        return
    whole = given if fault.rest.startswith(given) else token
    if low in WORDS and low == whole.lower():
        yield f"TOML has true and false in small letters, and no {token}", _line(fault, key, WORDS[low])
    elif low in NOTHING:
        yield f"TOML has no {token}: a key that is left out is unset", "delete this line"
    elif token.translate(QUOTES) != token:
        yield 'these are not the quotes of TOML, which are "', _line(fault, key, whole.translate(QUOTES))
    elif re.match(r"[+-]?\.\d", token):
        yield "a number has a digit before its point", _line(fault, key, whole.replace(".", "0.", 1))
    else:
        yield "text without quotes", _line(fault, key, _quoted(whole))


def _begins_statement(fault: _Fault) -> bool:
    """Whether a value was wanted where a new line begins with a key or a section."""
    before = fault.line[: fault.at - fault.start]
    return not before.strip() and re.match(r"[\w.\"-]+\s*=|\[+[\w.\"-]+\]+\s*$", fault.rest) is not None


def _given_twice(fault: _Fault) -> Iterator[tuple[str, str]]:
    header = fault.rest.startswith("[")
    if header:
        path: Path = split_key(fault.text[fault.at : fault.end].lstrip("[ \t").rstrip())
    else:
        path = Positions(fault.text[: fault.end]).blocks[-1].pairs[-1]
    before = Positions(fault.text[: fault.at])
    for count in range(len(path), 0, -1):
        if (first := before.of_key(path[:count])) is None:
            continue
        name, line = masked(join_key(map(str, path))), first[0]
        outer = masked(join_key(map(str, path[:count])))
        if header and before.marks[path[:count]].value is not None:
            yield (
                f"{outer} has a value at line {line}, so there can be no section [{name}]",
                f"delete line {line}        or   this section",
            )
        elif header:
            yield (
                f"the section [{name}] begins at line {line} already",
                f"put its keys below line {line}, and delete this line",
            )
        elif count == len(path):
            yield f"{name} is given twice, first at line {line}", f"delete this line        or   line {line}"
        else:
            yield f"{outer} has a value at line {line}, so there can be no {name}", "delete one of the two"
        return


def _no_equals(fault: _Fault) -> Iterator[tuple[str, str]]:
    key = fault.line[: fault.at - fault.start].strip()
    rest = fault.rest.strip()
    value = rest.lstrip(":").strip()
    if rest.startswith(":"):
        yield "TOML has = between key and value, not :", _line(fault, key, value)
    elif not rest or rest.startswith("#"):
        yield "a key without = and a value", _line(fault, key, "VALUE")
    elif "=" in rest:
        name, _, after = rest.partition("=")
        yield "a key with blanks in it is written in quotes", _line(fault, f'"{key} {name.strip()}"', after.strip())
    else:
        yield "the = between key and value is missing", _line(fault, key, value)


def _bad_character(fault: _Fault) -> Iterator[tuple[str, str]]:
    character = fault.text[fault.at : fault.at + 1]
    if character in ("\n", ""):
        yield from _open_string(fault)
    else:
        yield (
            f"a control character, U+{ord(character):04X}",
            f"delete it, or write it as \\u{ord(character):04X} in a text",
        )


def _open_string(fault: _Fault) -> Iterator[tuple[str, str]]:
    if fault.pair is None:
        yield "a quote that opens a text is not closed", "close it with the same quote"
        return
    key, value = fault.pair
    triple = value[:3] if value[:3] in ('"""', "'''") else ""
    if triple:
        yield f"the text that {triple} opens is not closed", f"{triple} after its last line"
    else:
        yield "the quote that opens this text is not closed", _line(fault, key, f"{value}{value[:1]}")


def _more_than_a_value(fault: _Fault) -> Iterator[tuple[str, str]]:
    if fault.pair is None:
        yield "more after the ] of a section", "begin a new line after it"
        return
    key, value = fault.pair
    rest = fault.rest.strip()
    if (number := _number(value)) is not None:
        yield _NO_NUMBER, _line(fault, key, number)
    elif rest in (",", ";"):
        yield f"no {rest} ends a line", _line(fault, key, value[:-1])
    elif rest.startswith(("//", "--", ";")):
        yield "a comment begins with #", _comment(fault, rest.lstrip("/-; "))
    elif re.fullmatch(r"[+-]?0[0-9_]+", value):
        yield "a number does not begin with 0", _line(fault, key, value.replace("0", "", 1).lstrip("0") or "0")
    elif re.match(r"[\w.\"-]+\s*=", rest):
        yield "a second key in one line", "begin a new line before it"
    elif value[:1] in "\"'":
        yield 'more after the quote that ends the text; inside of it a quote is \\"', "one text, in one pair of quotes"
    else:
        yield "text without quotes, or a number that is none", _line(fault, key, _quoted(value))


def _backslash(fault: _Fault) -> Iterator[tuple[str, str]]:
    why = "a backslash in a text with double quotes means more than itself"
    if fault.pair is None:
        yield why, "two of them, or single quotes around the text"
        return
    key, value = fault.pair
    yield why, _line(fault, key, value.replace('"', "'") if value.count('"') == 2 else value.replace("\\", "\\\\"))


def _no_key(fault: _Fault) -> Iterator[tuple[str, str]]:
    if fault.line.strip().startswith("="):
        yield "no key before the =", "NAME = VALUE"
    else:
        yield "a line is NAME = VALUE, a [section], or a # comment", _comment(fault, fault.line.strip()[:60])


# --- fixes


def _line(fault: _Fault, key: str, value: str) -> str:
    """`key = value` if that is TOML and may be shown, else what a line looks like."""
    line = f"{key.strip()} = {value}"
    try:
        tomllib.loads(line)
    except (ValueError, RecursionError):
        return "NAME = VALUE: text in quotes, true or false, a number, a [list]"
    return "NAME = VALUE" if _is_hidden(fault) or may_hold_secret(line) else line


def _comment(fault: _Fault, text: str) -> str:
    return "# and the text" if _is_hidden(fault) else f"# {text}"


def _section(fault: _Fault) -> str:
    line = f"{fault.line.partition('#')[0].strip()}]"
    try:
        tomllib.loads(line)
    except ValueError:
        return "[NAME]"
    return "[NAME]" if _is_hidden(fault) else line


def _quoted(text: str) -> str:
    text = text.strip("\"'")
    return f"'{text}'" if "\\" in text or '"' in text else f'"{text}"'


def _number(text: str) -> str | None:
    """The number that was meant by one with a comma behind it, a suffix of other languages, or commas in it."""
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", text):
        return text.replace(",", "_")
    match = re.fullmatch(rf"({_NUMBER})\s*(?:[fFdDlL]|[fFdDlL]?\s*[,;])", text)
    return match[1] if match else None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
