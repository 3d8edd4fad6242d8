"""The actions of the Compare screen."""

from __future__ import annotations

from rltui.actions.action import Action, move

COMPARE = (
    Action(
        "compare.baseline",
        ("b",),
        "baseline",
        "Measure the runs against the one under the cursor; in the other panes, against the next one.",
        footer=True,
        cli="rltui compare A B",
    ),
    Action("compare.axis", ("a",), "axis", "Put the curves along steps, time, tokens or episodes.", footer=True),
    Action("compare.diff_only", ("d",), "diff only", "Only the keys that differ, or all of the configs.", footer=True),
    Action("compare.previous_page", ("[",), "page", "Config and curves.", footer=True, pair="next_page"),
    Action("compare.next_page", ("]",), "page", "The evaluation seeds, and their episodes side by side."),
    Action(
        "compare.earlier",
        (",",),
        "evaluation",
        "Compare an earlier evaluation.",
        footer=True,
        pair="later",
        cli="rltui compare A B --at STEP",
    ),
    Action("compare.later", (".",), "evaluation", "Compare a later evaluation, in the end the newest of each run."),
    Action("compare.filter", ("/",), "filter", "Keep the curves whose name has a regular expression.", footer=True),
    move(
        "compare.previous_column", ("left", "h"), "column", "The column at the left.", footer=True, pair="next_column"
    ),
    move("compare.next_column", ("right", "l"), "column", "The column at the right."),
    Action("compare.copy", ("y",), "copy", "Copy the comparison as text.", footer=True),
    Action(
        "compare.write",
        ("w",),
        "write",
        "Write the comparison to a file.",
        footer=True,
        cli="rltui compare A B",
        writes=True,
    ),
    Action("compare.back", ("escape",), "back", "Out of the pane, then back to the runs.", palette=False),
)

CURVES = (
    move("curves.previous_curves", ("k", "up", "pageup"), "curves", "Those before.", footer=True, pair="next_curves"),
    move("curves.next_curves", ("j", "down", "pagedown"), "curves", "Those after."),
    Action("curves.seeds", ("s",), "seeds", "The evaluations up to the step under the cursor, by seed.", footer=True),
)

SEEDS = (
    Action("seeds.select", ("enter",), "episodes", "The episodes of the seed, side by side.", footer=True),
    Action("seeds.sort", ("o",), "sort", "By seed, or by the largest difference from the baseline.", footer=True),
    Action(
        "seeds.checkpoints",
        ("t",),
        "over time",
        "The seed in each evaluation of the run under the cursor, or in each run again.",
        footer=True,
    ),
)
