"""What the verbs that look at configs share: reading one, and saying what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltui.cli.output import CliError
from rltui.sources.find import NoSuchRun, default_runs_dir, find_run, is_run
from rltui.text import clean
from trainer.config import ConfigError, Loaded, Place, Problem, load, load_mapping, load_text

# pydantic looks for plugins in every installed package; the schema wants none, and that is a tenth of the time
# that `rltui validate` takes.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

STDIN = "-"
_SPACES = re.compile(r"([ \t]+)")
_LONGEST = 4000  # characters between two spaces; longer ones are cut


def add_loading_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="KEY=VALUE", help="change a key, for this call only"
    )
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")


def add_examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)])


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
    """The file that `name` means: itself, or the config of the run whose folder it is."""
    path = Path(name).expanduser()
    return path / "config.toml" if path.is_dir() else path


def run_folder(name: str) -> Path | None:
    """The folder of the run that `name` means: a path, a folder's name or a job id. None: it is a file, or nothing."""
    path = Path(name).expanduser()
    if path.is_file():
        return None
    if is_run(path):
        return path
    try:
        return find_run(name, default_runs_dir())
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


def refusal(error: ConfigError, ending: str = "") -> CliError:
    """The problems of a config as the error of a verb. `ending` says what was not done because of them."""
    count = len(error.problems)
    tail = f"; {ending}" if ending else ""
    text = f"{said(error.problems)}\n{count} problem{'s' * (count != 1)}{tail}"
    return CliError(text, details={"errors": [problem.as_dict() for problem in error.problems]})


def said(problems: Iterable[Problem]) -> str:
    return printable("\n".join(map(str, problems)))


def printable(text: str) -> str:
    """`text` with its lines and spaces kept, and nothing in it that a terminal would obey."""
    return "\n".join(
        "".join(part if _SPACES.fullmatch(part) else clean(part, _LONGEST) for part in _SPACES.split(line))
        for line in text.split("\n")
    )


def columns() -> int:
    """How wide lines may be: COLUMNS, else the terminal, else 100."""
    return max(shutil.get_terminal_size((100, 24)).columns, 40)


def _mapping(text: str, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place, why = Place(name, error.lineno, error.colno), f"not JSON: {error.msg}"
        raise ConfigError([Problem(place, "", why, fix="correct it there", code="syntax")]) from None
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
