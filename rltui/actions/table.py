"""The one table of actions: bindings, footer, palette, help, `rltui keys` and the docs are all read from it.

The order within a context is the order of the footer and of the help. A key is one printable character, or a
name (enter, escape, pageup, ctrl+p ...). No action needs ctrl+enter, ctrl+shift or alt: many terminals and
tmux drop them.
"""

from __future__ import annotations

from rltui.actions.action import Action, move
from rltui.actions.compare_table import COMPARE, CURVES, SEEDS
from rltui.actions.config_table import CONFIG
from rltui.actions.launch_table import LAUNCH
from rltui.actions.metrics_table import METRICS
from rltui.actions.past_table import PAST
from rltui.actions.pipeline_table import JUDGE, PIPELINE
from rltui.actions.rollouts_table import ROLLOUTS

LABEL_CELLS = 10  # a footer at 80 columns has room for little more


_APP = (
    Action("app.runs", ("1",), "runs", "The list of runs.", cli="rltui runs"),
    Action("app.config", ("2",), "config", "The config editor.", cli="rltui config edit FILE"),
    Action("app.launch", ("3",), "launch", "Look at what a run needs, and start it.", cli="rltui preflight FILE"),
    Action("app.monitor", ("4",), "monitor", "The run that is open, live.", cli="rltui show RUN --follow"),
    Action("app.smoke", ("5",), "smoke", "Test a task app, live or by hand.", cli="rltui smoke CONFIG"),
    Action("app.compare", ("6",), "compare", "Two to six runs side by side.", cli="rltui compare A B"),
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
    move("app.suspend", ("ctrl+z",), "suspend", "Back to the shell until `fg`; runs go on."),
    move("app.interrupt", ("ctrl+c",), "interrupt", "Says how to leave; a slip of the finger ends nothing."),
)

_SCREEN = (
    Action(
        "screen.zoom", ("z",), "zoom", "Give the pane with the focus the whole screen, or give it back.", footer=True
    ),
    Action("screen.reset_layout", ("0",), "reset", "The layout as it was at first."),
    move("screen.next_pane", ("tab",), "next pane", "Put the focus on the next pane."),
    move("screen.previous_pane", ("shift+tab",), "last pane", "Put the focus on the pane before."),
    move("screen.jump", (";",), "jump", "Show a letter on every pane; typing it puts the focus there."),
)

_LIST = (
    Action("list.select", ("enter",), "open", "Open the line under the cursor.", footer=True, palette=False),
    move("list.up", ("up", "k"), "up", "One line up."),
    move("list.down", ("down", "j"), "down", "One line down."),
    move("list.page_up", ("pageup",), "page up", "One page up."),
    move("list.page_down", ("pagedown",), "page down", "One page down."),
    move("list.first", ("g", "home"), "first", "The first line."),
    move("list.last", ("G", "end"), "last", "The last line; what grows is followed from there."),
)

_RUNS = (
    Action("runs.filter", ("/",), "filter", "Keep the runs that match; the filter stays in sight.", footer=True),
    Action(
        "runs.reading",
        ("C",),
        "end/go on",
        "End the reading of a large or slow folder, or go on where it was ended.",
        footer=True,
    ),
    Action("runs.mark", ("space",), "mark", "Mark the run for Compare, or take the mark away.", footer=True),
    Action("runs.sort", ("o",), "sort", "Choose what the runs are sorted by.", footer=True),
    Action(
        "runs.steer",
        ("S",),
        "steer",
        "Pause, resume, stop, kill, checkpoint, evaluate or set a value.",
        footer=True,
        cli="rltui steer RUN VERB",
        writes=True,
    ),
    Action(
        "runs.attach",
        ("a",),
        "attach",
        "Open a run or a folder of runs by path, a job or a server by address.",
        cli="rltui attach RUN",
        footer=True,
    ),
    Action("runs.new", ("+",), "new config", "Begin a config with a preset.", cli="rltui config new NAME", footer=True),
    Action(
        "runs.copy_config",
        ("c",),
        "copy conf.",
        "Edit a copy of this run's config.",
        cli="rltui config new --from RUN",
        footer=True,
    ),
    Action("runs.forget", ("x",), "forget", "List the jobs of this server no more; they go on."),
    Action(
        "runs.delete",
        ("X",),
        "delete",
        "Take the run off the disk, after a question that names its size.",
        writes=True,
    ),
    Action("runs.pin", ("p",), "pin", "Keep the run on top of the list, or let it go again.", writes=True),
    Action(
        "runs.archive",
        ("A",),
        "archive",
        "Take the run out of the list, which changes nothing of it, or put it back; / archived shows those.",
        writes=True,
    ),
    Action("runs.copy", ("y",), "copy path", "Copy the path of the run.", footer=True),
    Action("runs.back", ("escape",), "clear", "Take the filter away; it can be typed again.", palette=False),
)

_MONITOR = (
    Action(
        "monitor.overview", ("O",), "overview", "The overview: progress, charts, last events.", cli="rltui overview RUN"
    ),
    Action("monitor.metrics", ("M",), "metrics", "All metrics as charts.", cli="rltui metrics RUN"),
    Action(
        "monitor.rollouts",
        ("R",),
        "rollouts",
        "The episodes, and what was said in each.",
        cli="rltui rollouts RUN",
    ),
    Action("monitor.judge", ("J",), "judge", "What the judge said, and how it does.", cli="rltui judge --run RUN"),
    Action("monitor.pipeline", ("I",), "pipeline", "Who waits for whom.", cli="rltui pipeline RUN"),
    Action("monitor.logs", ("L",), "logs", "The logs of all processes of the run.", cli="rltui logs RUN -f"),
    Action(
        "monitor.steer",
        ("S",),
        "steer",
        "Pause, resume, stop, kill, checkpoint, evaluate or set a value.",
        footer=True,
        cli="rltui steer RUN VERB",
        writes=True,
    ),
    Action(
        "monitor.past",
        ("P",),
        "past",
        "The run as it was at an earlier time, in every tab; from there back to now.",
        footer=True,
        cli="rltui overview RUN --at STEP",
    ),
    Action("monitor.follow", ("F",), "follow", "Keep the newest in view, or let go of it.", footer=True),
    Action("monitor.retry", ("r",), "retry", "Read a source that was lost again now.", footer=True),
    move("monitor.next_tab", ("]",), "next tab", "The next tab."),
    move("monitor.previous_tab", ("[",), "last tab", "The tab before."),
    Action("monitor.back", ("escape",), "back", "Back to the list of runs.", palette=False),
)

_OVERVIEW = (Action("overview.open", ("enter",), "open", "Open the tab of this pane at this place.", footer=True),)

_TRANSCRIPT = (
    Action("transcript.toggle", ("enter",), "fold", "Fold the turn under the cursor, or open it.", footer=True),
    Action("transcript.open_all", ("e",), "open all", "Open every turn.", footer=True),
    Action("transcript.close_all", ("x",), "close all", "Fold every turn.", footer=True),
    Action(
        "transcript.view",
        ("V",),
        "view",
        "The conversation, its tokens, or the record.",
        footer=True,
        cli="rltui rollout RUN ID",
    ),
    Action("transcript.color", ("c",), "colour", "Colour the tokens by the next of their values.", footer=True),
    Action(
        "transcript.previous_token",
        ("left", "h"),
        "token",
        "The token before; the line below reads it out.",
        footer=True,
        palette=False,
        pair="next_token",
    ),
    Action("transcript.next_token", ("right", "l"), "token", "The token after.", palette=False),
    Action("transcript.find", ("/",), "find", "Find text in this episode.", footer=True),
    Action("transcript.next_match", ("n",), "match", "The next match.", footer=True, pair="previous_match"),
    Action("transcript.previous_match", ("N",), "match", "The match before."),
    Action("transcript.copy", ("y",), "copy", "Copy the turn under the cursor.", footer=True),
    Action(
        "transcript.write",
        ("w",),
        "write",
        "Write the episode to a file.",
        footer=True,
        cli="rltui rollout RUN ID --out FILE",
        writes=True,
    ),
)

_LOGS = (
    Action("logs.find", ("/",), "find", "Find text in the log.", footer=True),
    Action("logs.next_match", ("n",), "match", "The next match.", footer=True, pair="previous_match"),
    Action("logs.previous_match", ("N",), "match", "The match before."),
    Action("logs.follow", ("F",), "follow", "Stay at the end as lines come, or let go of it.", footer=True),
    Action("logs.wrap", ("W",), "wrap", "Wrap long lines, or cut them.", footer=True),
    Action("logs.file", ("f",), "file", "Choose the log that is shown, or the events alone.", footer=True),
    Action("logs.time", ("t",), "time", "Go to a time, or to a step.", footer=True),
    Action("logs.level", ("l",), "level", "Choose the lowest level that is shown.", footer=True),
    Action("logs.copy", ("y",), "copy", "Copy the line at the cursor.", footer=True),
    Action(
        "logs.write",
        ("w",),
        "write",
        "Write the lines that are shown to a file.",
        footer=True,
        cli="rltui logs RUN --last 0",
        writes=True,
    ),
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
    Action(
        "doctor.mute",
        ("M",),
        "mute",
        "Hear no more of the rule in this run, or hear it again.",
        footer=True,
        writes=True,
    ),
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
    move("chart.cursor_right", ("l", "right"), "cursor", "Move the cursor right."),
    Action("chart.zoom_in", ("+", "="), "range", "A narrower range of steps.", footer=True, pair="zoom_out"),
    Action("chart.zoom_out", ("-",), "range", "A wider range of steps; at the widest the chart follows the run."),
    Action("chart.pan_left", ("{",), "pan", "Earlier steps, after a zoom.", footer=True, pair="pan_right"),
    Action("chart.pan_right", ("}",), "pan", "Later steps, after a zoom."),
    Action(
        "chart.ema", ("e",), "EMA", "Smooth with an exponential moving average, or show the raw values.", footer=True
    ),
    Action("chart.log_y", ("Y",), "log y", "A logarithmic y-axis, or a linear one.", footer=True),
    Action("chart.log_x", ("X",), "log x", "A logarithmic x-axis, or a linear one."),
    Action("chart.clip", ("o",), "clip", "Leave outliers out of the range; the chart says how many.", footer=True),
    Action("chart.labels", ("a",), "x labels", "Label the points by step, time, tokens or episodes.", footer=True),
)

_SMOKE = (
    Action("smoke.run", ("r",), "run", "Run every stage.", footer=True, cli="rltui smoke CONFIG", writes=True),
    Action("smoke.pause", ("space",), "pause", "Pause before the next turn, or go on.", footer=True),
    Action("smoke.step", (".",), "one turn", "Go on for one turn, then pause.", footer=True),
    Action("smoke.stop", ("X",), "stop", "Stop after the current call.", footer=True),
    Action("smoke.view", ("v",), "view", "The checklist, or the episode with its rewards.", footer=True),
    Action("smoke.group_size", ("x",), "group size", "Write the advised group_size.", footer=True, writes=True),
    Action("smoke.target", ("enter", "t"), "target", "Choose the config, address or app that is tested.", footer=True),
    Action("smoke.app", ("a",), "app", "Test a built-in task app, which is started for it.", footer=True),
    Action("smoke.policy", ("p",), "policy", "Choose who answers the task app's model calls.", footer=True),
    Action(
        "smoke.hand",
        ("H",),
        "by hand",
        "Play an episode yourself: it waits for you at each call.",
        footer=True,
        cli="rltui smoke CONFIG --policy human",
        writes=True,
    ),
    Action("smoke.rerun", ("R",), "rerun", "Run the stage under the cursor again.", footer=True, writes=True),
    Action("smoke.replay", ("P",), "replay", "Play the seed of the shown episode again.", footer=True, writes=True),
    Action(
        "smoke.write",
        ("w",),
        "export",
        "Write the report as JSON.",
        footer=True,
        cli="rltui smoke CONFIG --out FILE",
        writes=True,
    ),
)

_CHECKLIST = (
    Action("checklist.toggle", ("enter",), "unfold", "The exact requests and replies of the stage.", footer=True),
    Action("checklist.copy", ("y",), "copy", "Copy the stage with its requests and replies."),
)

_EPISODE = (
    Action("episode.answer", ("enter",), "answer", "Type your reply to the call that waits.", footer=True),
    Action(
        "episode.previous",
        ("left", "h"),
        "episode",
        "The episode before this one.",
        footer=True,
        pair="next",
    ),
    Action("episode.next", ("right", "l"), "episode", "The episode after this one; at the last, what comes is shown."),
    Action("episode.copy", ("y",), "copy", "Copy the episode."),
)

_REPLY = (
    Action("reply.send", ("enter",), "send", "Answer the call with what is typed.", footer=True, palette=False),
    Action("reply.complete", ("tab",), "complete", "Go on with a tool's name or argument.", footer=True, palette=False),
    Action("reply.leave", ("escape",), "leave", "Back to the episode; the line stays.", footer=True, palette=False),
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
    move("palette.up", ("up",), "choose", "One line up.", footer=True, pair="down"),
    move("palette.down", ("down",), "choose", "One line down."),
    move("palette.page_up", ("pageup",), "page up", "One page up."),
    move("palette.page_down", ("pagedown",), "page down", "One page down."),
    Action("palette.close", ("escape",), "close", "Leave, and do nothing.", footer=True, palette=False),
)

_HELP = (Action("help.close", ("escape", "q", "?", "f1"), "close", "Close the help.", footer=True, palette=False),)

_LOG = (
    Action("log.copy", ("y",), "copy", "Copy the command under the cursor.", footer=True, palette=False),
    Action("log.close", ("escape", "q"), "close", "Close the command log.", footer=True, palette=False),
)

_CHOICE = (
    move("choice.up", ("up", "k"), "choose", "The choice above.", footer=True, pair="down"),
    move("choice.down", ("down", "j"), "choose", "The choice below."),
    Action("choice.take", ("enter",), "take", "Take the choice that is marked.", footer=True, palette=False),
    Action("choice.cancel", ("escape",), "cancel", "Change nothing.", footer=True, palette=False),
)

ACTIONS: tuple[Action, ...] = (
    *_APP, *_SCREEN, *_LIST,  *_RUNS, *_MONITOR, *_OVERVIEW, *ROLLOUTS, *_TRANSCRIPT, *_LOGS, *_DOCTOR, *_CHART,
    *_SMOKE, *_CHECKLIST, *_EPISODE, *_REPLY, *_PROMPT, *_PALETTE, *_HELP, *_LOG, *_CHOICE, *CONFIG, *LAUNCH,
    *METRICS, *PAST, *PIPELINE, *JUDGE,
    *COMPARE, *CURVES, *SEEDS,
)  # fmt: skip

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}


def of_context(context: str) -> tuple[Action, ...]:
    """The actions of one context, in order. KeyError: there is no such context (a programming error)."""
    found = tuple(action for action in ACTIONS if action.context == context)
    if not found:
        raise KeyError(context)
    return found
