"""The table of actions as Textual's bindings, and which of them work at the moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.widgets import Input

from rltui.actions.action import Action
from rltui.actions.contexts import CONTEXTS, OF_ROWS
from rltui.actions.keymap import Keymap, default_keys
from rltui.actions.table import BY_ID, of_context

NO_KEY = "nokey"  # what no terminal sends: Textual cannot be told that an action has lost its keys
_COMMON = ("screen", "list")  # a widget's or a screen's own keys come before those that all of them have
READONLY = "the interface was started with --readonly"


def bindings(*contexts: str) -> list[BindingType]:
    """BINDINGS of the widget or screen that does the actions of `contexts` (and of their bases).

    Each calls the method `action_NAME`, NAME being the last part of the action's id. ValueError: two contexts use
    one key, which belong on two nodes: Textual cannot remap one of two actions on the same key of a node.
    """
    wanted = dict.fromkeys(name for context in contexts for name in (context, *CONTEXTS[context].bases))
    actions = [action for context in wanted for action in of_context(context)]
    if contexts != ("list",):
        actions = [action for action in actions if action.id != OF_ROWS]
    keys = [key for action in actions for key in action.keys]
    if len(set(keys)) < len(keys):
        raise ValueError(f"the contexts {', '.join(wanted)} share a key")
    return [_binding(action) for action in actions]


def one_binding(id: str) -> list[BindingType]:
    """The binding of one action of the table, for a node that does it but nothing else of its context."""
    return [_binding(BY_ID[id])]


def _binding(action: Action) -> Binding:
    return Binding(_textual_keys(action.keys), action.name, action.label, show=action.footer, id=action.id)


def textual_keymap(keymap: Keymap) -> dict[str, str]:
    """What App.set_keymap takes: the keys that the user has changed."""
    return {id: _textual_keys(keymap.of(id)) for id in keymap.changed}


def keymap_of(app: App) -> Keymap:
    """The keymap of the app; the default one in an app that has none."""
    return cast(Keymap, getattr(app, "keymap", None)) or Keymap(default_keys())


def readonly(app: App) -> bool:
    """Whether actions that write are refused."""
    return bool(getattr(getattr(app, "options", None), "readonly", False))


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that would be done now.

    Attributes:
        keys: those of its keys that reach it; a key that is taken by something nearer is not among them.
        node: who does it.
    """

    action: Action
    keys: tuple[str, ...]
    node: DOMNode


def offered(screen: Screen) -> list[Offer]:
    """What works where the focus is: the focused widget's actions first, then the screen's, then the app's."""
    keymap = keymap_of(screen.app)
    reaching: dict[tuple[str, DOMNode], list[str]] = {}
    taken: set[str] = set()
    # Not `active_bindings`: a key goes on to the next node where the nearer one has no method for it.
    for node, found in screen._modal_binding_chain:
        for key, binding in found:
            action = BY_ID.get(binding.id or "")
            if key in taken or (action is not None and not _does(node, action)):
                continue
            taken.add(key)
            if action is not None and not refusal(screen.app, action):
                reaching.setdefault((action.id, node), []).append(key)
    offers = []
    typing = isinstance(screen.focused, Input)  # which takes every character; the framework forgets some of them
    for (id, node), keys in reaching.items():
        shown = tuple(key for key in keymap.of(id) if textual_key(key) in keys and not (typing and len(key) == 1))
        if shown:
            offers.append(Offer(BY_ID[id], shown, node))
    nodes = list(dict.fromkeys(offer.node for offer in offers))
    return sorted(offers, key=lambda offer: (nodes.index(offer.node), offer.action.context in _COMMON))


def reachable(screen: Screen) -> dict[str, DOMNode]:
    """Who does each action where the focus is, nearest first; also those without a key or with one that is taken."""
    chain = screen.focused.ancestors_with_self if screen.focused is not None else [screen, screen.app]
    found: dict[str, DOMNode] = {}
    for node in chain:
        for _, binding in node._bindings:
            action = BY_ID.get(binding.id or "")
            if action is not None and _does(node, action):
                found.setdefault(action.id, node)
        if node.is_modal:
            break
    return found


def _does(node: DOMNode, action: Action) -> bool:
    """Whether `node` has the method, and allows it now."""
    return callable(getattr(node, f"action_{action.name}", None)) and bool(node.check_action(action.name, ()))


def refusal(app: App, action: Action) -> str:
    """Why the action may not be done in this app; "" if it may. For `check_action` and for who starts a write."""
    return READONLY if action.writes and readonly(app) else ""


async def done_at_once(app: App, key: str) -> bool:
    """Do what the key is bound to where the focus is, now; False if it is not bound.

    The framework first hands a key to the widget with the focus, from where it comes back up to the app: of keys that
    arrive together (a quick person, a slow line) the second would be on its way before the first has opened what it
    is meant for.
    """
    if any(hasattr(node, "on_key") for node in (app.focused or app.screen).ancestors_with_self):
        return False  # that one reads keys itself
    app.app_focus = True
    return await app._check_bindings(key, priority=True) or await app._check_bindings(key)


def allowed(node: DOMNode, action: str) -> bool:
    """For `check_action` of whatever has bindings of the table: False for what `refusal` speaks of."""
    found = (BY_ID.get(binding.id or "") for _, binding in node._bindings if binding.action == action)
    return not any(refusal(node.app, one) for one in found if one is not None)


def textual_key(key: str) -> str:
    """A key of the table by Textual's name: "?" is question_mark."""
    *modifiers, last = [key] if len(key) == 1 else key.rsplit("+", 1) if not key.endswith("++") else [key[:-2], "+"]
    return "+".join([*modifiers, _character_to_key(last) if len(last) == 1 else last])


def _textual_keys(keys: tuple[str, ...]) -> str:
    return ",".join(map(textual_key, keys)) or NO_KEY
