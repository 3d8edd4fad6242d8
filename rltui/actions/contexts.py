"""The places an action can belong to: what each is in words, and which of them are in force together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Context:
    """One place.

    Attributes:
        title: how the help calls it.
        about: one paragraph: what the thing is.
        bases: contexts whose keys the same widget also has; no key may mean two things among them.
        around: what a person sees inside it or below it: contexts that the help of this place shows too.
        modal: whether it covers the screen, so that the keys of the screen and of the app are out of force.
    """

    title: str
    about: str
    bases: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    modal: bool = False


CONTEXTS: dict[str, Context] = {
    "app": Context(
        "Everywhere",
        "rltui shows and steers runs of reinforcement learning. A run lives without it: leaving it, or losing the "
        "connection, never ends a run.",
    ),
    "screen": Context(
        "Every screen", "Screens are made of panes. The pane with the focus has a border in the accent colour."
    ),
    "list": Context(
        "List", "Lines with a cursor, or text that scrolls. Only what is in view is drawn, so its length costs nothing."
    ),
    "runs": Context(
        "Runs",
        "One line for each run of the folder: its state, step, last reward, the reward's course, its age and what "
        "is wrong with it. A run that cannot be read stays as a line that says why.",
        around=("list",),
    ),
    "monitor": Context(
        "Monitor",
        "One run, live or finished. The tabs show its charts and events, its episodes and its logs. When the source "
        "is lost the last data stay, dim, with their age.",
    ),
    "overview": Context(
        "Overview",
        "Where the run is: progress and what is left, the reward, the evaluations, the clipped share, entropy and "
        "length, and the last events. Every chart is over steps: a step is one update of the optimizer.",
        around=("chart",),
    ),
    "rollouts": Context(
        "Rollouts",
        "The episodes that the policy played, each with its seed, group, reward, length and why it ended or was "
        "left out. Some hundred thousand of them cost no more than a few.",
        around=("list",),
    ),
    "transcript": Context(
        "Transcript",
        "One episode, turn by turn: what the task app said, what the policy answered, the reward of each turn. "
        "Long reasoning is folded at first. The text is the model's: it is shown as data and can do nothing.",
        bases=("list",),
    ),
    "logs": Context(
        "Logs",
        "What the processes of the run wrote. Progress bars are folded into one line. While it follows, new lines "
        "come into view; else their number is shown.",
        bases=("list",),
    ),
    "doctor": Context(
        "Doctor",
        "What is wrong with the run that is open, and which key of its config to change. Each rule measures one thing: "
        "act wants something done now, watch may become worse, ok is content, no data has too little to go by. A state "
        "changes after three steps in a row that say the same. The bands are yours to change: doctor.toml beside your "
        "keys.toml, such as [D01] and watch = 0.4 below it.",
        bases=("list",),
    ),
    "chart": Context(
        "Chart",
        "Values over steps. Each column shows the smallest and the largest value in it, so no spike is lost. A gap "
        "is a value that is not finite; it is counted and never part of the range.",
    ),
    "prompt": Context("Input line", "A line to type in. The keys of the screen come back when it is left."),
    "palette": Context(
        "Palette", "Everything that can be done or opened, by name. What cannot be done now says why.", modal=True
    ),
    "help": Context("Help", "The keys that work where the focus is.", bases=("list",), modal=True),
    "log": Context(
        "Command log",
        "The exact command or request behind every action since the start, newest last.",
        around=("list",),
        modal=True,
    ),
    "choice": Context("Question", "A question with its answers. Escape changes nothing.", modal=True),
}


OF_ROWS = "list.select"  # a text that scrolls has the keys of a list, but no row to open


@dataclass(frozen=True, slots=True)
class Place:
    """One of the seven screens. `today`: what does its work until it is built; "" once it is."""

    name: str
    title: str
    today: str = ""


PLACES: tuple[Place, ...] = (
    Place("runs", "Runs"),
    Place("config", "Config", "rltui config show FILE, rltui config set FILE KEY VALUE, rltui validate FILE"),
    Place("launch", "Launch", "rltui train FILE"),
    Place("monitor", "Monitor"),
    Place("smoke", "Smoke", "rltui smoke CONFIG, rltui scan"),
    Place("compare", "Compare", "rltui config diff A B, rltui show RUN"),
    Place("doctor", "Doctor"),
)


def in_force_with(context: str) -> tuple[str, ...]:
    """The contexts whose keys must differ from those of `context`: its own, its bases', and those of every screen.

    A focused widget may well have a key that its screen has too: the widget's counts then.
    """
    here = CONTEXTS[context]
    everywhere = () if here.modal else ("screen", "app")
    return tuple(dict.fromkeys((context, *here.bases, *everywhere)))
