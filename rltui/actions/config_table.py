"""What can be done in the config editor: see table.py for what an action is."""

from __future__ import annotations

from rltui.actions.action import Action, move

_CONFIG = (
    Action("config.find", ("/",), "find", "Keep the fields whose name, value or help has these words.", footer=True),
    Action("config.problem", ("!",), "problem", "Go to the next field that is wrong, unknown or moved.", footer=True),
    Action("config.fix", ("x",), "fix", "Make the smallest edit that mends this field.", footer=True),
    Action("config.undo", ("u",), "undo", "Take the last edit back.", footer=True),
    Action("config.redo", ("U",), "redo", "Do again what was taken back.", footer=True),
    Action(
        "config.diff",
        ("D",),
        "diff",
        "Compare with the file, a preset, a run or another file, as a diff or side by side.",
        footer=True,
        cli="rltui config diff A B",
    ),
    Action(
        "config.save",
        ("s",),
        "save",
        "Show what changes in the file, then write it.",
        footer=True,
        cli="rltui config set FILE KEY VALUE",
        writes=True,
    ),
    Action(
        "config.editor", ("e",), "$EDITOR", "Edit the text at this field's line in $VISUAL or $EDITOR.", footer=True
    ),
    Action(
        "config.preset",
        ("p",),
        "preset",
        "Open a file, or begin with a preset, a run's config or a draft.",
        footer=True,
        cli="rltui config new NAME",
    ),
    Action(
        "config.migrate",
        ("m",),
        "migrate",
        "Write old spellings in their new form: this one, or all.",
        footer=True,
        cli="rltui config migrate FILE",
    ),
    Action(
        "config.launch",
        ("L",),
        "launch",
        "Go to Launch with this config, once it is saved.",
        footer=True,
        cli="rltui train FILE",
    ),
    Action(
        "config.smoke",
        ("T",),
        "smoke",
        "Smoke test this config's task app, once it is saved.",
        footer=True,
        cli="rltui smoke FILE",
    ),
    Action("config.unset", ("d", "delete"), "unset", "Take the field out of the file: its default counts again."),
    Action("config.reach", ("r",), "reach", "See whether the address in this field answers."),
    Action("config.save_as", ("S",), "save as", "Write it to another file, and go on with that one.", writes=True),
    Action("config.copy", ("y",), "copy", "Copy the field as a line of TOML."),
    Action("config.reload", ("R",), "read file", "Read the file again; your edits can be merged with it."),
    move("config.previous_section", ("[",), "section", "The section before.", footer=True, pair="next_section"),
    move("config.next_section", ("]",), "section", "The next section."),
    move("config.next_hit", ("n",), "next hit", "The next field that is wrong or, while a search is on, that fits."),
    move("config.previous_hit", ("N",), "last hit", "The one before."),
    Action("config.back", ("escape",), "back", "Take the search away; nothing is discarded.", palette=False),
)

_FIELDS = (Action("fields.edit", ("enter",), "edit", "Edit the value under the cursor.", footer=True, palette=False),)

_FIELD = (
    Action("field.accept", ("enter",), "accept", "Take what is typed.", footer=True, palette=False),
    Action(
        "field.next", ("tab",), "next", "Take what is typed, and go on with the next field.", footer=True, palette=False
    ),
    Action("field.previous", ("shift+tab",), "last", "Take what is typed, and go to the field before.", palette=False),
    Action("field.restore", ("escape",), "restore", "The field as it was before.", footer=True, palette=False),
)

_TEXT = (
    Action("text.accept", ("tab", "f2"), "accept", "Take the whole text.", footer=True, palette=False),
    Action("text.restore", ("escape",), "restore", "The field as it was before.", footer=True, palette=False),
)

_DIFF = (
    Action("diff.accept", ("enter",), "do it", "Do what the title asks.", footer=True, palette=False),
    Action(
        "diff.view", ("v",), "view", "As lines of the files, or the values side by side.", footer=True, palette=False
    ),
    Action("diff.copy", ("y",), "copy", "Copy the diff.", footer=True, palette=False),
    Action("diff.close", ("escape", "q"), "close", "Leave; nothing is changed.", footer=True, palette=False),
)

_STARTS = (Action("starts.close", ("escape",), "close", "Leave; nothing is opened.", footer=True, palette=False),)

CONFIG: tuple[Action, ...] = (*_CONFIG, *_FIELDS, *_FIELD, *_TEXT, *_DIFF, *_STARTS)
