"""The actions of screen 3, Launch."""

from __future__ import annotations

from rltui.actions.action import Action

LAUNCH = (
    Action(
        "launch.go",
        ("enter",),
        "launch",
        "Start the run and open it in Monitor; warnings are asked about, a failed check refuses it.",
        footer=True,
        cli="rltui train FILE",
        writes=True,
    ),
    Action("launch.details", ("space",), "details", "Show all that the check found, or fold it.", footer=True),
    Action("launch.again", ("r",), "check", "Look at everything again.", footer=True, cli="rltui preflight FILE"),
    Action("launch.edit", ("e",), "edit", "Open the config at the key that this check is about.", footer=True),
    Action("launch.choose", ("c",), "config", "Choose the config that is to be run.", footer=True),
    Action("launch.copy", ("y",), "copy", "Copy the exact command.", footer=True),
    Action("launch.command", ("v",), "command", "Show the whole command, or one line of it.", footer=True),
    Action(
        "launch.target",
        ("t",),
        "target",
        "Choose where the run starts.",
        cli="rltui train CONFIG --target T",
        footer=True,
    ),
    Action(
        "launch.script", ("b",), "script", "Change the batch script in your editor before it is submitted.", footer=True
    ),
    Action("launch.folder", ("n",), "folder", "Give the run another folder.", footer=True),
    Action(
        "launch.dry_run",
        ("d",),
        "dry run",
        "Show what would be done, and do nothing.",
        footer=True,
        cli="rltui train FILE --dry-run",
    ),
    Action("launch.back", ("escape",), "back", "Back to the list of runs.", palette=False),
)
