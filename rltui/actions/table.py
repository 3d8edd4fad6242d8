"""The one table of actions: bindings, footer, palette, help, `rltui keys` and the docs are all read from it.

The order within a context is the order of the footer and of the help. A key is one printable character, or a
name (enter, escape, pageup, ctrl+p ...). No action needs ctrl+enter, ctrl+shift or alt: many terminals and
tmux drop them.
"""

from __future__ import annotations

from dataclasses import dataclass

LABEL_CELLS = 10  # a footer at 80 columns has room for little more


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    Attributes:
        id: "context.name". It stays for ever: the user's keymap refers to it.
        keys: the default ones, the one that is shown first; none: it is found in the palette.
        label: what the footer calls it.
        help: one sentence for the help and the palette.
        footer: whether the footer offers it.
        palette: whether the palette offers it; moving a cursor needs no entry there.
        pair: name of the action of the same context that shares its place in the footer ("h/l cursor").
        cli: the command that does the same without the interface.
        writes: whether it changes something outside the interface, which --readonly refuses.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    footer: bool = False
    palette: bool = True
    pair: str = ""
    cli: str | None = None
    writes: bool = False

    @property
    def context(self) -> str:
        return self.id.partition(".")[0]

    @property
    def name(self) -> str:
        """The last part of the id: a widget or screen of its context does it in its method `action_NAME`."""
        return self.id.partition(".")[2]


def _move(id: str, keys: tuple[str, ...], label: str, help: str, *, footer: bool = False, pair: str = "") -> Action:
    """An action that only moves a cursor or a view: in the help, never in the palette."""
    return Action(id, keys, label, help, footer=footer, palette=False, pair=pair)


_APP = (
    Action("app.runs", ("1",), "runs", "The list of runs.", cli="rltui runs"),
    Action("app.config", ("2",), "config", "The config editor (not built yet).", cli="rltui config show FILE"),
    Action("app.launch", ("3",), "launch", "Launch a run (not built yet).", cli="rltui train FILE"),
    Action("app.monitor", ("4",), "monitor", "The run that is open, live.", cli="rltui show RUN --follow"),
    Action("app.smoke", ("5",), "smoke", "Smoke test a task app (not built yet)."),
    Action("app.compare", ("6",), "compare", "Compare runs (not built yet)."),
    Action("app.doctor", ("7",), "doctor", "What is wrong with the run, and why.", cli="rltui doctor RUN"),
    Action(
        "app.palette",
        (":", "ctrl+p"),
        "palette",
        "Find any action, run, metric or theme by its name.",
        footer=True,
        palette=False,
    ),
    Action(
        "app.help",
        ("?", "f1"),
        "help",
        "The keys that work here, and what this is.",
        footer=True,
        cli="rltui help TOPIC",
    ),
    Action("app.log", (), "log", "The exact command or request of every action so far."),
    Action("app.quit", ("q",), "quit", "Leave. Runs go on without the interface.", footer=True),
    _move("app.suspend", ("ctrl+z",), "suspend", "Back to the shell until `fg`; runs go on."),
    _move("app.interrupt", ("ctrl+c",), "interrupt", "Says how to leave; a slip of the finger ends nothing."),
)

_SCREEN = (
    Action(
        "screen.zoom", ("z",), "zoom", "Give the pane with the focus the whole screen, or give it back.", footer=True
    ),
    Action("screen.reset_layout", ("0",), "reset", "The layout as it was at first."),
    _move("screen.next_pane", ("tab",), "next pane", "Put the focus on the next pane."),
    _move("screen.previous_pane", ("shift+tab",), "last pane", "Put the focus on the pane before."),
    _move("screen.jump", (";",), "jump", "Show a letter on every pane; typing it puts the focus there."),
)

_LIST = (
    Action("list.select", ("enter",), "open", "Open the line under the cursor.", footer=True, palette=False),
    _move("list.up", ("up", "k"), "up", "One line up."),
    _move("list.down", ("down", "j"), "down", "One line down."),
    _move("list.page_up", ("pageup",), "page up", "One page up."),
    _move("list.page_down", ("pagedown",), "page down", "One page down."),
    _move("list.first", ("g", "home"), "first", "The first line."),
    _move("list.last", ("G", "end"), "last", "The last line; what grows is followed from there."),
)

_RUNS = (
    Action("runs.filter", ("/",), "filter", "Keep the runs that match; the filter stays in sight.", footer=True),
    Action("runs.mark", ("space",), "mark", "Mark the run, or take the mark away.", footer=True),
    Action("runs.sort", ("o",), "sort", "Choose what the runs are sorted by.", footer=True),
    Action(
        "runs.steer",
        ("S",),
        "steer",
        "Pause, resume, stop, kill, checkpoint, evaluate or set a value.",
        footer=True,
        cli="rltui stop RUN",
        writes=True,
    ),
    Action(
        "runs.attach",
        ("a",),
        "attach",
        "Open a run or a folder of runs by its path.",
        cli="rltui attach RUN",
        footer=True,
    ),
    Action("runs.copy", ("y",), "copy path", "Copy the path of the run.", footer=True),
    Action("runs.back", ("escape",), "clear", "Take the filter away; it can be typed again.", palette=False),
)

_MONITOR = (
    Action(
        "monitor.overview", ("O",), "overview", "The overview: progress, charts, last events.", cli="rltui show RUN"
    ),
    Action("monitor.metrics", ("M",), "metrics", "The grid of all charts (not built yet)."),
    Action("monitor.rollouts", ("R",), "rollouts", "The episodes, and what was said in each."),
    Action("monitor.judge", ("J",), "judge", "The judge's scores (not built yet)."),
    Action("monitor.pipeline", ("I",), "pipeline", "Who waits for whom (not built yet)."),
    Action("monitor.logs", ("L",), "logs", "The logs of all processes of the run."),
    Action(
        "monitor.steer",
        ("S",),
        "steer",
        "Pause, resume, stop, kill, checkpoint, evaluate or set a value.",
        footer=True,
        cli="rltui stop RUN",
        writes=True,
    ),
    Action("monitor.follow", ("F",), "follow", "Keep the newest in view, or let go of it.", footer=True),
    Action("monitor.retry", ("r",), "retry", "Read a source that was lost again now.", footer=True),
    _move("monitor.next_tab", ("]",), "next tab", "The next tab."),
    _move("monitor.previous_tab", ("[",), "last tab", "The tab before."),
    Action("monitor.back", ("escape",), "back", "Back to the list of runs.", palette=False),
)

_OVERVIEW = (Action("overview.open", ("enter",), "open", "Open the tab of this pane at this place.", footer=True),)

_ROLLOUTS = (
    Action(
        "rollouts.back",
        ("escape",),
        "back",
        "Back to the list; there, take the filter away.",
        footer=True,
        palette=False,
    ),
    Action("rollouts.filter", ("/",), "filter", "Keep the episodes that match, such as `reward > 0.5`.", footer=True),
    Action("rollouts.sort", ("o",), "sort", "Choose what the episodes are sorted by.", footer=True),
    Action(
        "rollouts.previous_episode",
        ("left", "h"),
        "episode",
        "The episode before this one.",
        footer=True,
        pair="next_episode",
    ),
    Action("rollouts.next_episode", ("right", "l"), "episode", "The episode after this one."),
)

_TRANSCRIPT = (
    Action("transcript.toggle", ("enter",), "fold", "Fold the turn under the cursor, or open it.", footer=True),
    Action("transcript.open_all", ("e",), "open all", "Open every turn.", footer=True),
    Action("transcript.close_all", ("x",), "close all", "Fold every turn.", footer=True),
    Action("transcript.raw", ("v",), "raw", "The text as recorded, or as a conversation.", footer=True),
    Action("transcript.find", ("/",), "find", "Find text in this episode.", footer=True),
    Action("transcript.next_match", ("n",), "match", "The next match.", footer=True, pair="previous_match"),
    Action("transcript.previous_match", ("N",), "match", "The match before."),
    Action("transcript.copy", ("y",), "copy", "Copy the turn under the cursor.", footer=True),
    Action("transcript.write", ("w",), "write", "Write the episode to a file.", footer=True, writes=True),
)

_LOGS = (
    Action("logs.find", ("/",), "find", "Find text in the log.", footer=True),
    Action("logs.next_match", ("n",), "match", "The next match.", footer=True, pair="previous_match"),
    Action("logs.previous_match", ("N",), "match", "The match before."),
    Action("logs.follow", ("F",), "follow", "Stay at the end as lines come, or let go of it.", footer=True),
    Action("logs.wrap", ("W",), "wrap", "Wrap long lines, or cut them.", footer=True),
    Action("logs.file", ("f",), "file", "Choose the log that is shown.", footer=True),
    Action("logs.level", ("l",), "level", "Choose the lowest level that is shown.", footer=True),
    Action("logs.copy", ("y",), "copy", "Copy the line at the cursor.", footer=True),
    Action("logs.write", ("w",), "write", "Write the lines that are shown to a file.", footer=True, writes=True),
)

_DOCTOR = (
    Action(
        "doctor.field",
        ("enter",),
        "field",
        "Open the config's field that the finding blames.",
        footer=True,
        cli="rltui explain KEY",
    ),
    Action("doctor.evidence", ("E",), "evidence", "The chart, the episodes or the logs that show it.", footer=True),
    Action("doctor.mute", ("M",), "mute", "Hear no more of the rule in this run, or hear it again.", footer=True),
    Action("doctor.copy", ("y",), "copy", "Copy the finding as text.", footer=True),
    Action("doctor.back", ("escape",), "back", "Back to the monitor.", palette=False),
)

_CHART = (
    Action("chart.open", ("enter",), "rollouts", "The episodes of the step under the cursor.", footer=True),
    Action(
        "chart.cursor_left",
        ("h", "left"),
        "cursor",
        "Move the cursor left.",
        footer=True,
        palette=False,
        pair="cursor_right",
    ),
    _move("chart.cursor_right", ("l", "right"), "cursor", "Move the cursor right."),
    Action("chart.zoom_in", ("+", "="), "range", "A narrower range of steps.", footer=True, pair="zoom_out"),
    Action("chart.zoom_out", ("-",), "range", "A wider range of steps; at the widest the chart follows the run."),
    Action(
        "chart.ema", ("e",), "EMA", "Smooth with an exponential moving average, or show the raw values.", footer=True
    ),
    Action("chart.log_y", ("Y",), "log y", "A logarithmic y-axis, or a linear one.", footer=True),
    Action("chart.log_x", ("X",), "log x", "A logarithmic x-axis, or a linear one."),
    Action("chart.clip", ("o",), "clip", "Leave outliers out of the range; the chart says how many.", footer=True),
    Action("chart.labels", ("a",), "x labels", "Label the points by step, time or episodes.", footer=True),
)

_PROMPT = (
    Action("prompt.accept", ("enter",), "apply", "Use what is typed.", footer=True, palette=False),
    Action(
        "prompt.cancel",
        ("escape",),
        "cancel",
        "Leave the line; what was in use before stays.",
        footer=True,
        palette=False,
    ),
)

_PALETTE = (
    Action("palette.run", ("enter",), "run", "Do what the line says.", footer=True, palette=False),
    _move("palette.up", ("up",), "choose", "One line up.", footer=True, pair="down"),
    _move("palette.down", ("down",), "choose", "One line down."),
    _move("palette.page_up", ("pageup",), "page up", "One page up."),
    _move("palette.page_down", ("pagedown",), "page down", "One page down."),
    Action("palette.close", ("escape",), "close", "Leave, and do nothing.", footer=True, palette=False),
)

_HELP = (Action("help.close", ("escape", "q", "?", "f1"), "close", "Close the help.", footer=True, palette=False),)

_LOG = (
    Action("log.copy", ("y",), "copy", "Copy the command under the cursor.", footer=True, palette=False),
    Action("log.close", ("escape", "q"), "close", "Close the command log.", footer=True, palette=False),
)

_CHOICE = (
    _move("choice.up", ("up", "k"), "choose", "The choice above.", footer=True, pair="down"),
    _move("choice.down", ("down", "j"), "choose", "The choice below."),
    Action("choice.take", ("enter",), "take", "Take the choice that is marked.", footer=True, palette=False),
    Action("choice.cancel", ("escape",), "cancel", "Change nothing.", footer=True, palette=False),
)

ACTIONS: tuple[Action, ...] = (
    *_APP, *_SCREEN, *_LIST,  *_RUNS, *_MONITOR, *_OVERVIEW, *_ROLLOUTS, *_TRANSCRIPT, *_LOGS, *_DOCTOR, *_CHART,
    *_PROMPT, *_PALETTE, *_HELP, *_LOG, *_CHOICE,
)  # fmt: skip

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}


def of_context(context: str) -> tuple[Action, ...]:
    """The actions of one context, in order. KeyError: there is no such context (a programming error)."""
    found = tuple(action for action in ACTIONS if action.context == context)
    if not found:
        raise KeyError(context)
    return found
