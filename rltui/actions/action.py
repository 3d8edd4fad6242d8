"""What one entry of the table of actions says."""

from __future__ import annotations

from dataclasses import dataclass


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


def move(id: str, keys: tuple[str, ...], label: str, help: str, *, footer: bool = False, pair: str = "") -> Action:
    """An action that only moves a cursor or a view: in the help, never in the palette."""
    return Action(id, keys, label, help, footer=footer, palette=False, pair=pair)
