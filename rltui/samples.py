"""The configs that ship with rltui, by name."""

from __future__ import annotations

from pathlib import Path

from rltui.data import data_dir


def samples() -> dict[str, Path]:
    """Every sample config by its name without `.toml`, sorted. Empty: the installation lost them."""
    return {path.stem: path for path in sorted(data_dir("sample_configs").glob("*.toml"))}


def title(path: Path) -> str:
    """What a sample shows: its first comment line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
