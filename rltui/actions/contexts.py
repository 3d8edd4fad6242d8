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
    "past": Context(
        "The past",
        "The run as it was at an earlier time: every tab shows what was recorded by then, and the line above them says "
        "when that is. F goes to the end of the record, P back to the present. A run cannot be steered in its past.",
    ),
    "overview": Context(
        "Overview",
        "Where the run is: progress and what is left, the reward, the evaluations, the clipped share, entropy and "
        "length, and the last events. Every chart is over steps: a step is one update of the optimizer.",
        around=("chart",),
    ),
    "metrics": Context(
        "Metrics",
        "Every number that the run writes, as a list in groups and as charts over steps. Pinned ones come first. The "
        "cursor, the range and the labels of x are shared by all charts; smoothing, log y, clip and limits belong to "
        "each.",
        around=("list", "chart"),
    ),
    "rollouts": Context(
        "Rollouts",
        "The episodes that the policy played, each with its seed, group, reward, length and why it ended or was "
        "left out. Some hundred thousand of them cost no more than a few.",
        around=("list",),
    ),
    "group": Context(
        "Group",
        "The members of one group side by side, with their rewards, advantages and the ratio s that decides whether a "
        "sequence is clipped. A: advantage. The strip below a turn has a cell for some of its sampled tokens, coloured "
        "by what stands at its end. ZERO: all rewards are equal, so it teaches nothing. The sign of inequality: judge "
        "and environment disagree by half a point or more.",
    ),
    "transcript": Context(
        "Transcript",
        "One episode, turn by turn: what the task app said, what the policy answered, the reward of each turn. "
        "Long reasoning is folded at first. The text is the model's: it is shown as data and can do nothing.",
        bases=("list",),
    ),
    "pipeline": Context(
        "Who waits for whom",
        "What holds the run up: the wait of this moment first, then those of the last steps by their share of the "
        "time. Inference-bound, trainer-bound and so on name the largest of them.",
        bases=("list",),
        around=("chart",),
    ),
    "scatter": Context(
        "Judge against task app",
        "A point is an episode: how far right, the task app's reward, how high, the judge's score. On the line from "
        "corner to corner the two agree.",
        around=("chart",),
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
    "smoke": Context(
        "Smoke",
        "A task app, tested stage by stage before any GPU hour is spent: whether it keeps the contract, what its "
        "rewards would teach, and how long a run would take. The test goes on while other screens are looked at; it "
        "ends with the interface.",
        around=("checklist", "episode"),
    ),
    "checklist": Context(
        "Checklist",
        "The stages in their order. A failure stops only what depends on it. Unfolded, a stage shows its notes and "
        "the exact requests and replies, without what is secret.",
        bases=("list",),
    ),
    "episode": Context(
        "Episode",
        "One episode by turns: what the policy was told, what it answered, and in the end the rewards. While you play "
        "it, it waits for you at each call.",
        bases=("list",),
        around=("reply",),
    ),
    "reply": Context(
        "Your reply",
        'Text, or an action: NAME(a=1, b="text") or NAME {"a": 1}. enter sends it, !give up ends the episode, escape '
        "goes back to the episode and keeps the line.",
        modal=True,  # tab is not the screen's there
    ),
    "compare": Context(
        "Compare",
        "Two to six runs, marked with space in Runs, against one of them: the keys of their configs, their curves over "
        "one another, and the evaluation seed by seed. The test pairs the seeds that both runs were evaluated on; a "
        "seed counts once, however often it was repeated. A run has one colour and one marker everywhere.",
        around=("list", "curves", "seeds"),
    ),
    "curves": Context("Curves", "One metric of all the runs. Their cursor and range are shared.", bases=("chart",)),
    "seeds": Context(
        "Seeds",
        "The mean reward of each evaluation seed. enter puts its episodes side by side.",
        bases=("list",),
    ),
    "config": Context(
        "Config",
        "Every key of a config with its value, where that comes from and what follows from it. Signs: a dot is a "
        "default, ~ changed, ! wrong, ? unknown, ^ an old spelling. Nothing is written before s has shown the "
        "change; comments and whatever you did not touch stay as they are.",
        around=("fields",),
    ),
    "fields": Context(
        "Fields",
        "The keys of a section, or those that fit the search, with their values.",
        bases=("list",),
    ),
    "field": Context(
        "Field", "One value, typed as TOML spells it; text needs no quotes. Empty takes the key away.", modal=True
    ),
    "text": Context("Value", "A list with an item a line, or a table as lines of TOML.", modal=True),
    "diff": Context("Diff", "What differs, line by line or value by value.", bases=("list",), modal=True),
    "starts": Context("Begin", "Configs to open, and what a new one can begin with.", around=("list",), modal=True),
    "launch": Context(
        "Launch",
        "What a run of this config needs, looked at before it is started: each check with its time, what it found and "
        "how to mend it. No check costs money or memory of a GPU. A run that is started goes on without the interface.",
        around=("list",),
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
    """One of the seven screens."""

    name: str
    title: str


PLACES: tuple[Place, ...] = (
    Place("runs", "Runs"),
    Place("config", "Config"),
    Place("launch", "Launch"),
    Place("monitor", "Monitor"),
    Place("smoke", "Smoke"),
    Place("compare", "Compare"),
    Place("doctor", "Doctor"),
)


def in_force_with(context: str) -> tuple[str, ...]:
    """The contexts whose keys must differ from those of `context`: its own, its bases', and those of every screen.

    A focused widget may well have a key that its screen has too: the widget's counts then.
    """
    here = CONTEXTS[context]
    everywhere = () if here.modal else ("screen", "app")
    return tuple(dict.fromkeys((context, *here.bases, *everywhere)))
