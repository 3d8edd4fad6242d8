"""`rltui`: opens the interface. All that decides how it looks is settled here, before the app object exists."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.output import FAILED, OK, CliError, add_examples, program, say
from rltui.sources.find import default_runs_dir
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.look import Theme, ThemeFiles
    from rltui.opened import OpenRun
    from rltui.smoke.asked import Asked
    from rltui.terminal.capabilities import ColorMode, Terminal
    from rltui.terminal.crash import Recorder


WEB_PORT = 8000
SWITCH_S = 0.001  # a key waits no longer than this for the thread that reads; the default is five times as much


def configure(parser: argparse.ArgumentParser) -> None:
    add_app_options(parser)
    parser.add_argument("--web", action="store_true", help="show it to a browser of this machine, not in this terminal")
    parser.add_argument("--port", type=int, metavar="N", help=f"with --web: where (default: {WEB_PORT})")
    add_examples(
        parser,
        "rltui",
        "rltui --runs-dir ~/experiments --theme paper",
        "rltui --web --port 8080",
    )


def add_app_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--theme", metavar="NAME", help="colours: a shipped theme, or one of yours")
    parser.add_argument("--ascii", action="store_true", help="no character outside ASCII is drawn")
    parser.add_argument("--blocks", action="store_true", help="charts of block characters, for a font without braille")
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
    if args.web:
        return _serve(args)
    if args.port is not None:
        raise CliError("--port belongs to --web")
    return open_app(args, None)


def _serve(args: argparse.Namespace) -> int:
    """Show the interface to a browser until Ctrl-C."""
    port = WEB_PORT if args.port is None else args.port
    if not 1 <= port <= 65_535:
        raise CliError("--port is 1 to 65535")
    try:
        from rltui.web import HOST, new_secret, serve
    except ImportError as error:
        raise CliError(f"--web needs textual-serve ({error}): pip install 'rltui[web]'") from error
    options = ["--runs-dir", str((args.runs_dir or default_runs_dir()).expanduser().absolute())]
    options += ["--theme", args.theme] if args.theme else []
    options += ["--fps", f"{args.fps:g}"] if args.fps else []
    options += [f"--{name}" for name in ("ascii", "blocks", "no_mouse", "readonly", "quiet") if getattr(args, name)]
    secret = new_secret()
    try:
        with socket.create_server((HOST, port)):  # taken, it is said before an address is
            pass
        say(f"open http://{HOST}:{port}/?key={secret} in a browser of this machine; Ctrl-C ends it, runs go on")
        serve([option.replace("no_mouse", "no-mouse") for option in options], port, secret)
    except OSError as error:
        raise CliError(
            f"port {port} of {HOST} cannot be used: {os.strerror(error.errno or 0)}; give another --port"
        ) from error
    return OK


def open_app(
    args: argparse.Namespace,
    run: str | None,
    *,
    config: Path | None = None,
    smoke: Asked | None = None,
    server: str | None = None,
) -> int:
    """Open the interface, on the run in a folder or at an address, a config, a smoke test or the jobs of a server if
    one is given, and give its exit code.

    CliError: there is no terminal to draw on, or the theme cannot be read.
    """
    browser = os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")  # see rltui.web
    if not browser:
        _need_terminal()
    from rltui.look import Look, ThemeFiles
    from rltui.terminal.modes import Guard

    terminal = _terminal(args, asks=not browser)
    themes = ThemeFiles()
    theme = _theme(args.theme, themes, terminal)
    _tell_framework(terminal.color)
    from rltui.app import Options, RltuiApp

    options = Options(
        runs_dir=(args.runs_dir or default_runs_dir()).expanduser(),
        run=run,
        config=config,
        readonly=args.readonly,
        quiet=args.quiet,
        smoke=smoke,
        server=server,
    )
    sys.setswitchinterval(SWITCH_S)
    app = RltuiApp(terminal, Look(theme, terminal.color, terminal.ascii, blocks=terminal.blocks), themes, options)
    failure: BaseException | None = None
    assert sys.__stdin__ is not None and sys.__stderr__ is not None
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
    if app.opened is not None and app.opened.unsent:
        say(f"{app.opened.name} gives no answer: it was not asked to {', '.join(app.opened.unsent)}")
    if app.opened is not None and app.opened.live:
        _part(app.opened, app.leaving)
    return guard.exit_code or OK


def _part(opened: OpenRun, how: str) -> None:
    """Stop or kill the run that was open, if that was chosen, and say how to come back to it."""
    from rltui.cli.show import run_name
    from rltui.launch.runs import in_folder
    from rltui.sources.base import Unreadable

    name = run_name(in_folder(opened.folder)) if opened.folder is not None else opened.where
    command = program()
    if how == "detach":
        say(f"{name} goes on; `{command} attach {name}` opens it again")
        return
    assert opened.model is not None
    source = opened.model.source
    try:
        source.request(how)
    except OSError as error:
        say(f"the request to {how} could not be made: {error.strerror}")
    except ValueError as error:
        say(f"{name} refuses to {how}: {clean(error, 300)}")
    if how == "kill":
        say(f"killing {name}")
        try:
            source.kill()
        except Unreadable as error:
            say(f"{name} could not be killed: {clean(error, 300)}")
            return
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


def _terminal(args: argparse.Namespace, *, asks: bool = True) -> Terminal:
    """`asks`: the terminal is asked whether its background is dark."""
    from rltui.terminal.background import LATE_SSH_S, query_background
    from rltui.terminal.capabilities import detect, over_ssh

    late_s = LATE_SSH_S if over_ssh(os.environ) else 0.0
    return detect(
        os.environ,
        encoding=getattr(sys.stdout, "encoding", None),
        ascii=args.ascii,
        blocks=args.blocks,
        fps=args.fps,
        background=lambda: query_background(sys.stdin.fileno(), sys.stdout.fileno(), late_s=late_s) if asks else None,
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
    if sys.__stderr__ is None or not sys.__stderr__.isatty():
        raise CliError("the interface draws on stderr, which is not a terminal here; leave `2>` out of the command.")
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
