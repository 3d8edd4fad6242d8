"""What the verbs that look at configs share: reading one, and saying what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rltui.cli.output import CliError
from rltui.launch.runs import RunAt, config_of, in_folder, is_address, run_at
from rltui.sources.find import NoSuchRun, default_runs_dir, find_run, is_run
from rltui.text import clean, width
from trainer.config import ConfigError, Loaded, Place, Problem, load, load_mapping, load_text, render
from trainer.config.errors import shown
from trainer.config.secrets import masked
from trainer.config.toml_values import TOO_MANY_DIGITS

# pydantic looks for plugins in every installed package; the schema wants none, and that is a tenth of the time
# that `rltui validate` takes.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

STDIN = "-"
_SPACES = re.compile(r"([ \t]+)")
_LONGEST = 4000  # characters between two spaces; longer ones are cut
# Lines that are not prose: a place with its key, a fix that is TOML or a command, a block to paste.
_WHOLE = re.compile(r"(?!note: )\S+: (?:warning: |note: )?[\w.\"-]+(?: = |$)|  fix: .*(?: = |--set |rltui )|    ")


def add_loading_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="KEY=VALUE", help="change a key, for this call only"
    )
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")


def open_config(name: str, sets: Sequence[str] = (), *, allow_unknown: bool = False) -> Loaded:
    """The config that `name` means: a TOML file, a JSON one, a run's folder, or `-` for standard input.

    Raises:
        ConfigError: all that is wrong with it.
    """
    options: dict[str, Any] = {"sets": sets, "allow_unknown": allow_unknown}
    if name == STDIN:
        text = _decoded(sys.stdin.buffer.read(), "stdin").removeprefix("\ufeff")
        if text.lstrip().startswith("{"):  # no TOML document does
            return load_mapping(_mapping(text, "stdin"), "stdin", **options)
        return load_text(text, "stdin", **options)
    path = config_path(name)
    if path.suffix == ".json":
        return load_mapping(_mapping(read_text(path).removeprefix("\ufeff"), str(path)), str(path), **options)
    return load(path, follow_env_file=not is_run(path.parent), **options)


def config_path(name: str) -> Path:
    """The file that `name` means: itself, or the config of the run whose folder or address it is. CliError."""
    if is_address(name):
        try:
            return config_of(name)
        except NoSuchRun as error:
            raise CliError(str(error)) from error
    path = Path(name).expanduser()
    return path / "config.toml" if path.is_dir() else path


def run_of(name: str) -> RunAt | None:
    """The run that `name` means: an address, or what `run_folder` takes. None: a file, or nothing. CliError."""
    if is_address(name):
        try:
            return run_at(name)
        except NoSuchRun as error:
            raise CliError(str(error)) from error
    folder = run_folder(name)
    return None if folder is None else in_folder(folder)


def run_folder(name: str) -> Path | None:
    """The run that `name` means: a path, a folder's name, a job id, or a beginning. None: a file, or nothing."""
    path = Path(name).expanduser()
    if path.is_file():
        return None
    if is_run(path):
        return path
    runs = default_runs_dir()
    if path.parent != Path() and path.parent.resolve() == runs.resolve():  # runs/BEGINNING
        name = path.name
    try:
        return find_run(name, runs)
    except NoSuchRun:
        return None


def read_text(path: Path) -> str:
    """A file's text to the byte: line ends and a byte order mark stay. ConfigError: it cannot be read."""
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror or error}"
        raise _fault(str(path), why, "check the path", "file") from None


def refuse_record(path: Path) -> None:
    """CliError where `path` is what a run was started with: that is a record, not a draft."""
    if path.name == "config.toml" and is_run(path.parent):
        raise CliError(
            f"{path} is the record of a run and stays as it is; a copy to change: "
            f"rltui config new --from {path.parent} --out my.toml"
        )


def refuse_json(path: Path) -> None:
    """CliError where `path` is a JSON file, which `open_config` reads and nothing here rewrites."""
    if path.suffix == ".json":
        raise CliError(f"{path} is JSON, and this verb edits TOML files only; nothing was written")


def refusal(error: ConfigError, ending: str = "") -> CliError:
    """The problems of a config as the error of a verb. `ending` says what was not done because of them."""
    tail = f"; {ending}" if ending else ""
    found = [*error.problems, *error.warnings]
    details = {
        "errors": [problem.as_dict() for problem in error.problems],
        "warnings": [problem.as_dict() for problem in error.warnings],
    }
    return CliError(f"{told(found)}\n{', '.join(counts(found))}{tail}", details=details)


def counted(count: int, what: str) -> str:
    """`1 problem`, `2 problems`."""
    return f"{count} {what}{'s' * (count != 1)}"


def counts(problems: Sequence[Problem]) -> list[str]:
    """`2 problems`, `1 warning`, `3 notes`: of those levels that occur."""
    names = {"error": "problem", "warning": "warning", "note": "note"}
    return [
        counted(count, name)
        for level, name in names.items()
        if (count := sum(item.level == level for item in problems))
    ]


def said(problems: Iterable[Problem]) -> str:
    return wrapped(printable("\n".join(map(str, problems))))


def told(problems: Sequence[Problem]) -> str:
    """Problems as a person reads them: values that were overruled as one line each, moved keys as blocks."""
    overruled = [
        f"note: {item.key} = {item.value} ({_where(item)}) is overruled by {item.why.removeprefix('beaten by ')}"
        for item in problems
        if item.code == "beaten"
    ]
    rest = render([item for item in problems if item.code != "beaten"])
    return wrapped(printable("\n".join([*overruled, *([rest] if rest else [])])))


def cannot_run(refusals: Sequence[Problem]) -> str:
    """What the launch problems of a valid config amount to; empty where there are none."""
    return f"a run of it would not start: {', '.join(item.key for item in refusals)}" if refusals else ""


def _where(problem: Problem) -> str:
    return str(problem.place) if problem.line is None else f"line {problem.line}"


def wrapped(text: str, stream: IO[str] | None = None) -> str:
    """The prose of problems in the columns of the terminal that it goes to (default: that of stderr).

    What is to be pasted, and where a value stands, stays whole.
    """
    if "COLUMNS" not in os.environ and not (stream or sys.stderr).isatty():
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if width(line) <= columns() or _WHOLE.match(line):
            lines.append(line)
        else:
            indent = line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(
                line.strip(),
                columns(),
                initial_indent=indent,
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def printable(text: str) -> str:
    """`text` with its lines and spaces kept, and nothing in it that a terminal would obey."""
    return "\n".join(
        "".join(part if _SPACES.fullmatch(part) else clean(part, _LONGEST) for part in _SPACES.split(line))
        for line in text.split("\n")
    )


def columns() -> int:
    """How wide lines may be: COLUMNS, else the terminal, else 100."""
    return max(shutil.get_terminal_size((100, 24)).columns, 40)


def hanging(text: str, first: str = "", later: str | None = None) -> list[str]:
    """`text` in lines of at most 100 columns: `first` before the first one, `later` (or its width) before others."""
    return textwrap.wrap(
        text,
        min(columns(), 100),
        initial_indent=first,
        subsequent_indent=" " * len(first) if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _mapping(text: str, name: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object, whose keys are given once each: JSON's readers keep the last of two."""
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _fault(
                    name, f"{shown(masked(key))} is given twice in one object", "delete one of the two", "syntax"
                )
            found[key] = value
        return found

    try:
        data = json.loads(text, object_pairs_hook=once)
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        place, why = Place(name, error.lineno, error.colno), f"not JSON: {error.msg}"
        raise ConfigError([Problem(place, "", why, fix="correct it there", code="syntax")]) from None
    except ValueError:  # Python's limit for integers in decimal
        raise _fault(name, TOO_MANY_DIGITS, "delete it", "syntax") from None
    except RecursionError:
        raise _fault(name, "nested too deeply", "give a config", "syntax") from None
    if not isinstance(data, dict):
        raise _fault(name, "not a config: a JSON object is wanted", 'give {"algorithm": {...}, ...}', "type")
    inner = data.get("data")
    if "algorithm" not in data and isinstance(inner, dict) and "config" in inner:
        raise _fault(name, "a whole job body, not a config", "give the object that is its data.config", "type")
    return data


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _fault(name, f"not UTF-8 text (byte {error.start})", "save the file as UTF-8", "encoding") from None


def _fault(name: str, why: str, fix: str, code: str) -> ConfigError:
    return ConfigError([Problem(Place(name), "", why, fix=fix, code=code)])


def amount(numbers: Mapping[str, int]) -> str:
    """How much is trained, in words: CONFIG section 3's numbers as `Loaded.derived` has them."""
    return (
        f"{numbers['iterations']} iterations of {numbers['E']} episodes in {numbers['groups']} groups, "
        f"{_steps(numbers)}: {numbers['steps']} steps"
    )


def _steps(numbers: Mapping[str, int]) -> str:
    """m updates of U sequences, in words; the last one may be smaller."""
    episodes, size, steps = numbers["E"], numbers["U"], numbers["m"]
    if steps == 1:
        return f"1 step of {min(size, episodes)}"
    last = episodes - (steps - 1) * size
    return f"{steps} steps of {size}" + (f" (the last of {last})" if last < size else "")
