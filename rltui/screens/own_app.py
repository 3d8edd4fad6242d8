"""The app by its own type: the framework knows it as any app."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.dom import DOMNode

if TYPE_CHECKING:
    from rltui.app import RltuiApp


def own_app(node: DOMNode) -> RltuiApp:
    """The app that `node` is in."""
    return cast("RltuiApp", node.app)
