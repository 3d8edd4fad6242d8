"""Synthetic runs that have a config, as the trainer records it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rltui.samples import samples
from tests.tui.app_driver import run_in
from trainer.config import load_text


def configured(folder: Path, name: str, number: int, *sets: str, **more: Any) -> Path:
    """A run `NAME-rl_…` of the demo's config with KEY=VALUE changed."""
    path, text = run_in(folder, name, number=number, **more), samples()["demo"].read_text()
    loaded = load_text(text, "guess.toml", sets=list(sets), environ={}, device="cpu")
    (path / "config.toml").write_text(text)
    document = path / "resolved.json"
    recorded = json.loads(document.read_text())
    document.write_text(json.dumps({**recorded, "values": loaded.resolved()["values"]}))
    return path
