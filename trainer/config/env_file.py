"""`env_file_path`: variables for a run and its children, kept beside the config. Values are never shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from trainer.config.errors import ConfigError, Problem, shown
from trainer.config.secrets import is_secret
from trainer.config.sources import Given

MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class EnvFile:
    """
    Attributes:
        path: as it was given; empty: there is none.
        values: its variables by name. Secrets among them.
    """

    path: str
    values: Mapping[str, str]


NO_FILE = EnvFile("", {})


def variables(given: Iterable[Given], folder: Path | None, environ: Mapping[str, str]) -> tuple[EnvFile, list[Problem]]:
    """The variables of env_file_path, of several the strongest.

    Args:
        given: all that the sources give.
        folder: what the path is relative to; None: it is not followed.
        environ: the variables that are set already: those win.
    """
    named = [item for item in given if item.key == "env_file_path"][-1:]
    if not named or named[0].value is None or is_secret(named[0].key, named[0].value):  # that has its own error
        return NO_FILE, []
    item = named[0]
    if folder is None:
        why = "not followed here: it names a file of where this config came from"
        return NO_FILE, [Problem(item.place, item.key, why, fix="delete this line", level="note", code="no_effect")]
    try:
        values = read_env_file(item, folder)
    except ConfigError as error:
        return NO_FILE, error.problems
    why = f"{len(values)} variables are loaded from it"
    if already := sorted(name for name in values if name in environ):
        why += f"; set already, so not taken from it: {', '.join(already)}"
    note = Problem(item.place, item.key, why, shown(item.value), level="note", code="env_file")
    return EnvFile(item.value, values), [note]


def read_env_file(given: Given, folder: Path) -> Mapping[str, str]:
    """Variables by name. `given` is the value of env_file_path, `folder` what it is relative to.

    Raises:
        ConfigError: no such file, or a line that assigns nothing; the line is named, never quoted.
    """
    if not isinstance(given.value, str) or not given.value.strip():
        why, fix = "the path of a file of variables is wanted", 'env_file_path = ".env"'
        raise _refuse(given, why, fix, allowed="a string that is not empty", code="type")
    try:
        path = folder / Path(given.value).expanduser()
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (RuntimeError, ValueError):  # the home of nobody; a path that no file can have
        why, fix = "no file can have this path", 'env_file_path = ".env"'
        raise _refuse(given, why, fix, allowed="the path of a file of variables") from None
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or type(error).__name__
        why = f"{path}: {what}; the path is relative to the config's folder"
        raise _refuse(given, why, "create it, or delete this line") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refuse(given, f"{path} is not UTF-8 text", "save the file as UTF-8") from None
    if len(raw) > MOST_BYTES or "\0" in text:
        raise _refuse(given, f"{path} is no file of variables", "give a file of NAME=value lines")
    return _parse(given, path, text)


def _parse(given: Given, path: Path, text: str) -> Mapping[str, str]:
    from dotenv import dotenv_values  # here: most configs name no such file
    from dotenv.parser import parse_stream

    broken = [binding.original.line for binding in parse_stream(StringIO(text)) if binding.error]
    if broken:
        lines = ", ".join(map(str, broken[:8]))
        raise _refuse(given, f"{path}: not a NAME=value line: {lines}", "write each line as NAME=value")
    values = dotenv_values(stream=StringIO(text))
    return {name: value for name, value in values.items() if value is not None and "=" not in name}


def _refuse(given: Given, why: str, fix: str, allowed: str | None = None, code: str = "env_file") -> ConfigError:
    problem = Problem(given.place, given.key, why, shown(given.value), allowed=allowed, fix=fix, code=code)
    return ConfigError([problem])
