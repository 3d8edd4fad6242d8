"""`rltui`: opens the interface. All that decides how it looks is settled here, before the app object exists."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.output import FAILED, OK, CliError, program, say
from rltui.sources.find import default_runs_dir

if TYPE_CHECKING:
    from rltui.look import Theme, ThemeFiles
    from rltui.smoke.asked import Asked
    from rltui.terminal.capabilities import ColorMode, Terminal
    from rltui.terminal.crash import Recorder


def configure(parser: argparse.ArgumentParser) -> None:
    add_app_options(parser)


def add_app_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--theme", metavar="NAME", help="colours: a shipped theme, or one of yours")
    parser.add_argument("--ascii", action="store_true", help="no character outside ASCII is drawn")
    parser.add_argument("--fps", type=_fps, metavar="N", help="how often a live screen is drawn a second (default: 1)")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument("--readonly", action="store_true", help="look only: nothing is written, no run is steered")
    parser.add_argument("--quiet", action="store_true", help="no bell and no notice when a run ends")
    parser.set_defaults(json=False)


def default_options() -> argparse.Namespace:
    """For `open_app`, where a verb opens the interface that has none of its options."""
    parser = argparse.ArgumentParser()
    add_app_options(parser)
    return parser.parse_args([])


def run(args: argparse.Namespace) -> int:
    return open_app(args, None)


def open_app(
    args: argparse.Namespace, run_dir: Path | None, *, config: Path | None = None, smoke: Asked | None = None
) -> int:
    """Open the interface, on the run in `run_dir`, a config or a smoke test if one is given, and give its exit code.

    CliError: there is no terminal to draw on, or the theme cannot be read.
    """
    _need_terminal()
    from rltui.look import Look, ThemeFiles
    from rltui.terminal.modes import Guard

    terminal = _terminal(args)
    themes = ThemeFiles()
    theme = _theme(args.theme, themes, terminal)
    _tell_framework(terminal.color)
    from rltui.app import Options, RltuiApp

    options = Options(
        runs_dir=(args.runs_dir or default_runs_dir()).expanduser(),
        run_dir=run_dir,
        config=config,
        readonly=args.readonly,
        quiet=args.quiet,
        smoke=smoke,
    )
    app = RltuiApp(terminal, Look(theme, terminal.color, terminal.ascii), themes, options)
    failure: BaseException | None = None
    with Guard(app.hang_up, fd_in=sys.__stdin__.fileno(), fd_out=sys.__stderr__.fileno()) as guard:
        try:
            app.run(mouse=not args.no_mouse)
        except Exception as error:  # outside of what the framework catches itself
            failure = error
            guard.restore()
    failure = app.failure or failure
    if failure:
        for line in _report(failure, app.recorder, terminal):
            say(line)
        return FAILED
    if app.unsaved:
        say(f"draft kept: the unsaved edits of {app.unsaved} are offered when it is opened again")
    if app.opened is not None and app.opened.live:
        _part(app.opened.path, app.leaving)
    return guard.exit_code or OK


def _part(run_dir: Path, how: str) -> None:
    """Stop or kill the run that was open, if that was chosen, and say how to come back to it."""
    from rltui.cli.show import run_name
    from rltui.sources.local import LocalRunSource

    name, command = run_name(run_dir), program()
    if how == "detach":
        say(f"{name} goes on; `{command} attach {name}` opens it again")
        return
    source = LocalRunSource(run_dir)
    try:
        source.request(how)
    except OSError as error:
        say(f"the request to {how} could not be written in {run_dir}/control: {error.strerror}")
    if how == "kill":
        say(f"killing {name}")
        source.kill()
        say(f"{name} is killed; `{command} show {name}` has its end")
    else:
        say(f"asked {name} to stop; `{command} show {name} --follow` waits for its end")


def _theme(asked: str | None, themes: ThemeFiles, terminal: Terminal) -> Theme:
    """The one that was asked for, else the one chosen last, else by the background. CliError.

    A choice holds for the background that it was made on: on the other one its twin is worn.
    """
    from rltui.look import ThemeError
    from rltui.state import Memory, state_file

    memory, here = Memory(state_file()), "dark" if terminal.dark else "light"
    last = memory.get("theme")
    if asked is None and isinstance(last, str) and last in themes.list():
        with contextlib.suppress(ThemeError):
            theme = themes.load(last)
            if memory.get("theme_on", here) == here or not theme.twin:
                return theme
            return themes.load(theme.twin)
    try:
        return themes.load(asked or ("dark" if terminal.dark else "light"))
    except ThemeError as error:
        raise CliError(f"{error}\ngive another --theme") from error


def _tell_framework(color: ColorMode) -> None:
    """It reads these when it is imported and when its app object is made; a later theme changes neither."""
    from rltui.look.textual_app import environment

    for name, value in environment(color).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _terminal(args: argparse.Namespace) -> Terminal:
    from rltui.terminal.background import LATE_SSH_S, query_background
    from rltui.terminal.capabilities import detect, over_ssh

    late_s = LATE_SSH_S if over_ssh(os.environ) else 0.0
    return detect(
        os.environ,
        encoding=getattr(sys.stdout, "encoding", None),
        ascii=args.ascii,
        fps=args.fps,
        background=lambda: query_background(sys.stdin.fileno(), sys.stdout.fileno(), late_s=late_s),
    )


def _report(failure: BaseException, recorder: Recorder, terminal: Terminal) -> list[str]:
    """Write the report and give what to print."""
    from rltui.terminal.crash import installed_versions, message_lines, write_report

    try:
        path = write_report(failure, recorder, terminal, installed_versions(), shutil.get_terminal_size())
    except OSError:
        path = None
    return message_lines(failure, path)


def _need_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError(f"the interface needs a terminal; here there is none. `{program()} --help` lists the verbs.")
    term = os.environ.get("TERM")
    if not term:
        raise CliError(f"TERM is not set; set it to your terminal's name. `{program()} --help` lists the verbs.")
    if term == "dumb":
        raise CliError(f"TERM=dumb cannot show the interface; set TERM. `{program()} --help` lists the verbs.")


def _fps(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 30:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0.1 to 30")
    return value
