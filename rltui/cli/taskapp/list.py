"""`rltui taskapp list [PACKAGE]`: what there is to train on without writing an app."""

from __future__ import annotations

import argparse
import importlib
import importlib.util

from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.text import clean
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.registry import ADAPTERS, BUILTIN, SPELLINGS, builtin_factory


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", nargs="?", choices=sorted(ADAPTERS), help="names the data sets of this package")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui taskapp list",
        "rltui taskapp list reasoning_gym",
    )


def run(args: argparse.Namespace) -> int:
    stream = words(args)
    if args.package is not None:
        try:
            names = importlib.import_module(ADAPTERS[args.package]).datasets()
        except TaskAppError as error:
            raise CliError(clean(f"{error.message}. {error.hint}", 1000)) from error
        for name in names:
            say(f"{args.package}:{name}", stream)
        emit({"package": args.package, "datasets": names}, as_json=args.json, out=args.out)
        return OK
    apps = [_app(name) for name in sorted(BUILTIN)]
    packages = [_package(spelling) for spelling in SPELLINGS]
    for app in apps:
        sizes = ", ".join(f"{split} {size}" for split, size in app["splits"].items())
        say(f"{app['name']:12}{app['description']} ({sizes})", stream)
    for package in packages:
        how = "`rltui taskapp list {}` names them" if package["installed"] else "not installed: pip install {}"
        known = package["name"] if package["installed"] else package["name"].replace("_", "-")
        say(f"{package['app']}  any task of that package; {how.format(known)}", stream)
    say("serve one: rltui taskapp serve NAME   train on one: services.task_url = builtin:NAME", stream)
    emit({"apps": apps, "packages": packages}, as_json=args.json, out=args.out)
    return OK


def _app(name: str) -> Json:
    config = builtin_factory(name)()
    return {"name": name, "description": config.description, "splits": config.describe_taskset()["sizes"]}


def _package(spelling: str) -> Json:
    name = spelling.partition(":")[0]
    return {"name": name, "app": spelling, "installed": importlib.util.find_spec(name) is not None}
