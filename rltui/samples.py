"""The configs that ship with rltui, by name."""

from __future__ import annotations

from pathlib import Path

_HOME = Path(__file__).resolve().parent
_FOLDERS = (_HOME / "_data" / "sample_configs", _HOME.parent / "sample_configs")  # of a wheel, of a checkout


def samples() -> dict[str, Path]:
    """Every sample config by its name without `.toml`, sorted. Empty: the installation lost them."""
    for folder in _FOLDERS:
        if found := sorted(folder.glob("*.toml")):
            return {path.stem: path for path in found}
    return {}


def title(path: Path) -> str:
    """What a sample shows: its first comment line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
