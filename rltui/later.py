"""What is imported after the first paint, so that no screen waits for it when it is opened."""

from __future__ import annotations

import importlib

LATER = (
    "rltui.screens.monitor.screen",
    "rltui.screens.monitor.overview",
    "rltui.screens.monitor.rollouts",
    "rltui.screens.monitor.logs",
    "rltui.screens.doctor.screen",
    "rltui.model.run",
    "rltui.model.transcript",
    "rltui.screens.palette",
    "rltui.screens.help",
    "rltui.screens.config.screen",
    "rltui.screens.compare.screen",
)


def import_what_comes() -> None:
    """In a thread of its own, so that no key waits for it."""
    for name in LATER:
        importlib.import_module(name)
