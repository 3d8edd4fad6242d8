"""The verbs, options and arguments of `rltui`, read from the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

# What may stand at a place, by the name that its help gives it. Of other names nothing is known: NOTHING.
RUN, CONFIG, FILE, FOLDER, KEY, PAIR, NOTHING = "run", "config", "file", "folder", "key", "pair", "nothing"
_ARGUMENTS = {
    "RUN": RUN,
    "CONFIG": CONFIG,
    "FILE": CONFIG,
    "A": CONFIG,
    "B": CONFIG,
    "DIR": FOLDER,
    "APP": FILE,
    "KEY": KEY,
    "SECTION|KEY": KEY,
    "KEY VALUE": KEY,
}
_VALUES = _ARGUMENTS | {"FILE": FILE, "RUN|FILE": CONFIG, "KEY=VALUE": PAIR}
_PLAIN = re.compile(r"[\w.+-]+")  # a word that means the same in every shell


@dataclass(frozen=True)
class Option:
    """`takes`: what its value may be; "" without one. `choices` narrow that."""

    flags: tuple[str, ...]
    about: str
    takes: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Argument:
    takes: str
    choices: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(frozen=True)
class Verb:
    """`path`: the words after `rltui`; () is `rltui` itself. A group has `verbs` (word, about) and no arguments."""

    path: tuple[str, ...]
    about: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    verbs: tuple[tuple[str, str], ...] = ()


def grammar() -> list[Verb]:
    """Every verb, `rltui` itself first. Imports the module of each."""
    from rltui.cli.main import APP, VERBS

    options, _ = _parts(importlib.import_module(APP[0]), ())
    options = (*options, Option(("-V", "--version"), "print the version", ""))
    return [Verb((), APP[1], options, (), _listed(VERBS)), *_below((), VERBS)]


def _below(path: tuple[str, ...], verbs: dict[str, tuple[str, str]]) -> Iterator[Verb]:
    for word, (module_name, about) in verbs.items():
        module = importlib.import_module(module_name)
        here = (*path, word)
        if hasattr(module, "VERBS"):
            yield Verb(here, about, (_HELP,), (), _listed(module.VERBS))
            yield from _below(here, module.VERBS)
        else:
            options, arguments = _parts(module, here)
            yield Verb(here, about, options, arguments)


_HELP = Option(("-h", "--help"), "show its help", "")


def _listed(verbs: dict[str, tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((word, about) for word, (_, about) in verbs.items())


def _parts(module: ModuleType, path: tuple[str, ...]) -> tuple[tuple[Option, ...], tuple[Argument, ...]]:
    parser = argparse.ArgumentParser(add_help=False)
    module.configure(parser)
    options, arguments = [_HELP], []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        choices = tuple(str(choice) for choice in action.choices or () if _PLAIN.fullmatch(str(choice)))
        if action.option_strings:
            takes = "" if action.nargs == 0 else _VALUES.get(name, NOTHING)
            about = " ".join((action.help or "").replace("%%", "%").split())
            options.append(Option(tuple(action.option_strings), about, takes, choices))
        else:
            repeats = action.nargs in ("*", "+")
            arguments.append(Argument(_ARGUMENTS.get(name, NOTHING), choices or _names(path, name), repeats))
    return tuple(options), tuple(arguments)


def _names(path: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The words of an argument that its parser does not list."""
    if (path, name) == (("config", "new"), "NAME"):
        from rltui.samples import samples

        return tuple(samples())
    return ()


def config_keys() -> list[str]:
    """Every key that a config may have, in the order of the schema."""
    from trainer.config.keys import all_keys

    return [key for key in all_keys() if _PLAIN.fullmatch(key)]
