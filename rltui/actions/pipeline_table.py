"""The actions of the Pipeline and the Judge tab of the monitor."""

from __future__ import annotations

from rltui.actions.action import Action, move

PIPELINE = (
    Action(
        "pipeline.open",
        ("enter",),
        "unfold",
        "Since when it waits, how much of the time, and which keys shorten it.",
        footer=True,
        cli="rltui pipeline RUN",
    ),
)

JUDGE = (
    Action(
        "scatter.open",
        ("enter",),
        "rollouts",
        "The episodes of the point under the cursor.",
        footer=True,
        cli="rltui judge --run RUN",
    ),
    move("scatter.left", ("left", "h"), "point", "The next point to the left.", footer=True, pair="right"),
    move("scatter.right", ("right", "l"), "point", "The next point to the right."),
    move("scatter.up", ("up", "k"), "point", "The next point above."),
    move("scatter.down", ("down", "j"), "point", "The next point below."),
)
