"""The actions of the tab Rollouts, and of the group that is compared in it."""

from __future__ import annotations

from rltui.actions.action import Action, move

ROLLOUTS = (
    Action(
        "rollouts.back",
        ("escape",),
        "back",
        "Back to the list; there, take the filter away, then go back to where you came from.",
        footer=True,
        palette=False,
    ),
    Action(
        "rollouts.view",
        ("v",),
        "group",
        "The group of this episode, its members side by side, or the list of episodes.",
        footer=True,
        cli="rltui rollouts RUN --where EXPR",
    ),
    Action(
        "rollouts.filter",
        ("/",),
        "filter",
        "Keep the episodes that match, such as `reward > 0.5`.",
        footer=True,
        cli="rltui rollouts RUN --where EXPR",
    ),
    Action(
        "rollouts.sort",
        ("o",),
        "sort",
        "Choose what the episodes are sorted by.",
        footer=True,
        cli="rltui rollouts RUN --sort ORDER",
    ),
    Action(
        "rollouts.search",
        ("C",),
        "end/go on",
        "End the search behind a filter or a sort, or go on where it was ended.",
        footer=True,
    ),
    Action(
        "rollouts.diff", ("d",), "diff", "This member and the next, word by word; again: the one after.", footer=True
    ),
    Action(
        "rollouts.previous_group",
        ("{",),
        "group",
        "The group before this one.",
        footer=True,
        pair="next_group",
    ),
    Action("rollouts.next_group", ("}",), "group", "The group after this one."),
    Action(
        "rollouts.same_seed",
        ("t",),
        "same seed",
        "The episodes of this seed in all iterations.",
        footer=True,
        cli="rltui rollouts RUN --where 'seed = N'",
    ),
    Action(
        "rollouts.smoke",
        ("p",),
        "play again",
        "Ask the policy the recorded first prompt in Smoke, then play its seed, by the run's config.",
        cli="rltui smoke CONFIG --seeds N",
    ),
    Action(
        "rollouts.previous_episode",
        ("left", "h"),
        "episode",
        "The episode before this one.",
        footer=True,
        pair="next_episode",
    ),
    Action("rollouts.next_episode", ("right", "l"), "episode", "The episode after this one."),
    Action("group.open", ("enter",), "open", "The whole transcript of this member.", footer=True, palette=False),
    move("group.previous", ("left", "h"), "member", "The member before.", footer=True, pair="next"),
    move("group.next", ("right", "l"), "member", "The member after; the next page of them at the edge."),
    move("group.up", ("up", "k"), "turn", "The turn before.", footer=True, pair="down"),
    move("group.down", ("down", "j"), "turn", "The turn after."),
    move("group.page_up", ("pageup",), "page up", "One page up."),
    move("group.page_down", ("pagedown",), "page down", "One page down."),
    Action("group.lock", ("s",), "lock", "Scroll the turns of all members together, or each by itself.", footer=True),
    Action("group.color", ("c",), "colour", "What the strips below the turns show.", footer=True),
)
