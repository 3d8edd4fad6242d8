"""`rltui doctor RUN`: what is wrong with a run, why, and which key to change."""

from __future__ import annotations

import argparse
import sys

from rltui.cli.common import add_run_argument, chosen_run, summary
from rltui.cli.configs import hanging
from rltui.cli.output import FAILED, FINDINGS, OK, CliError, add_data_options, add_examples, emit, say
from rltui.doctor import mutes, report
from rltui.doctor.checkup import Checkup
from rltui.doctor.doctor import speaking
from rltui.doctor.rule import State
from rltui.doctor.rules import RULES
from rltui.model.now import cause_lines
from rltui.model.run import RunModel
from rltui.state import Memory, state_file
from rltui.text import clean

LABEL = 9  # cells of the word at the left


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--rule", action="append", metavar="ID", help="this rule alone, such as D01; several times")
    parser.add_argument("--all", action="store_true", help="also the rules that are content, or have no data")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui doctor RUN                  exit 1 if a rule says act",
        "rltui doctor RUN --all",
        "rltui doctor RUN --rule D01 --json",
    )


def run(args: argparse.Namespace) -> int:
    wanted = _wanted(args.rule or [])
    chosen = chosen_run(args)
    model = RunModel(chosen.source)
    while model.refresh(budget_s=0.5).more:
        pass
    status = model.status
    if model.error:
        details = {"run": summary(chosen, status)}
        raise CliError(f"{chosen}: {model.error}", code=FAILED, details=details)
    checkup = Checkup()
    checkup.mute(mutes.muted(Memory(state_file(), readonly=True), str((status or {}).get("job_id") or chosen)))
    checkup.look(model)
    for problem in checkup.table.problems:
        say(f"warning: {problem}; its default holds")
    findings = [finding for finding in checkup.findings if not wanted or finding.rule.id in wanted]
    about = summary(chosen, status)
    emit({**about, **report.document(findings, checkup.record)}, as_json=args.json, out=args.out)
    if not args.json:
        step = model.metrics.step if about["step"] is None else about["step"]
        say(f"{clean(about['name'], 120)}  {about['state']}, step {step}", sys.stdout)
        for name, text, _ in cause_lines(status):
            _say(name, text)
        shown = findings if args.all or wanted else [f for f in findings if f.speaks]
        for finding in shown:
            for label, text in report.lines(finding, checkup.record):
                _say(label, text)
        say(report.summary(findings), sys.stdout)
    return FINDINGS if any(finding.state is State.ACT for finding in speaking(findings)) else OK


def _say(label: str, text: str) -> None:
    for line in hanging(text, f"{label:<{LABEL}}", " " * LABEL):
        say(line, sys.stdout)


def _wanted(ids: list[str]) -> set[str]:
    """CliError: no such rule."""
    known = {rule.id for rule in RULES}
    wanted = {id.upper() for id in ids}
    if unknown := sorted(wanted - known):
        raise CliError(f"no rule {clean(unknown[0], 40)}; they are {RULES[0].id} to {RULES[-1].id}")
    return wanted
