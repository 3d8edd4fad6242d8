"""The config: whether it is valid, whether a run of it would start, and whether it was smoke-tested."""

from __future__ import annotations

import time
from datetime import datetime

from rltui.cli.configs import amount, counts
from rltui.cli.output import CliError
from rltui.cli.start import load_for, plan_of
from rltui.cli.task_apps import start_problems
from rltui.launch.base import Launcher
from rltui.preflight.base import Context, Found, ok, skipped
from rltui.smoke.kept import read_kept
from rltui.words import duration
from trainer.config import ConfigError, Loaded, Problem, load

MOST = 6  # problems that are told one by one


def valid(context: Context) -> Found:
    """Reads the file; everything else needs it."""
    tried = f"rltui validate {context.config}"
    try:
        loaded, context.sets = _loaded(context)
    except ConfigError as error:
        first = error.problems[0]
        rest = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        return Found("fail", f"{_said(first)}{rest}", first.fix or "", first.key, tried, _notes(error.problems[1:]))
    context.loaded = loaded
    warnings = [item for item in loaded.warnings if item.level == "warning"]
    if warnings:
        first = warnings[0]
        text = f"valid, {', '.join(counts(warnings))}: {_said(first)}"
        return Found("warn", text, first.fix or "", first.key, tried, _notes(warnings[1:]))
    return ok(amount(loaded.derived), tried=tried)


def _loaded(context: Context) -> tuple[Loaded, tuple[str, ...]]:
    environ, allow = context.environ, context.allow_unknown
    if context.launcher is None:
        return load(context.config, sets=context.sets, environ=environ, allow_unknown=allow), context.sets
    loaded, sets = load_for(context.launcher, context.config, context.sets, environ=environ, allow_unknown=allow)
    return loaded, tuple(sets)


def starts(context: Context) -> Found:
    """What this machine or this environment lacks for it."""
    assert context.loaded is not None
    found = start_problems(context.loaded)
    if not found:
        return ok("this machine refuses nothing in it")
    first = found[0]
    return Found("fail", _said(first), first.fix or "", first.key, notes=_notes(found[1:]))


def smoke_report(context: Context) -> Found:
    """Whether the task app was tested with these values: reports are kept by the hash of what was tested."""
    command = f"rltui smoke {context.config}"
    environ, allow = context.environ, context.allow_unknown
    here = load(context.config, sets=context.sets, environ=environ, allow_unknown=allow)  # where it was tested
    report = read_kept(here.config_hash, context.environ)
    if report is None:
        return Found("skipped", "not smoke-tested as it stands now", f"{command} plays some episodes first")
    try:
        age = time.time() - datetime.fromisoformat(str(report["created"])).timestamp()
        told = f"{duration(age)} ago, by {report['policy']}"
        verdict, text = str(report["verdict"]), str(report["verdict_text"])
    except (KeyError, ValueError):
        return Found("skipped", "the kept smoke report cannot be read", command)
    if verdict == "not_ready":
        return Found("warn", f"{told}: {text}", f"mend the task app, then {command}", "services.task_url")
    return ok(f"{verdict.replace('_', ' ')}, {told}")


def target(context: Context) -> Found:
    """Where it will run, and what is to be known of that place."""
    if context.launcher is not None and context.launcher.name != "local":
        return _elsewhere(context, context.launcher)
    if context.cfg.compute.launcher != "local":
        return skipped(f"compute.launcher = {context.cfg.compute.launcher}")
    return ok("this machine, in a session of its own: it goes on without this terminal")


def _elsewhere(context: Context, launcher: Launcher) -> Found:
    assert context.loaded is not None
    try:
        plan = plan_of(
            context.loaded,
            context.config,
            context.sets,
            run_dir=context.run_dir,
            allow_unknown=context.allow_unknown,
            launcher=launcher,
        )
        facts = launcher.facts(plan.job)
    except CliError as error:  # of the folder, of which another check says it too
        return Found("fail", str(error))
    worst = next((ok_ for ok_ in (False, None) if any(fact.ok is ok_ for fact in facts)), True)
    if worst is True:
        return ok(*[fact.text for fact in facts] or ("nothing is known of it",))
    bad = [fact for fact in facts if fact.ok is worst]
    notes = tuple(f"{fact.name}: {fact.text}" for fact in facts if fact not in bad)
    told = "; ".join(f"{fact.name}: {fact.text}" for fact in bad)
    return Found("warn" if worst is None else "fail", told, bad[0].fix, notes=notes)


def _said(problem: Problem) -> str:
    return f"{problem.key}: {problem.why}" if problem.key else f"{problem.place}: {problem.why}"


def _notes(problems: list[Problem]) -> tuple[str, ...]:
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return tuple([_said(item) for item in problems[:MOST]] + more)
