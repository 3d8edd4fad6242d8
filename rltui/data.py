"""Where the files that ship with rltui lie."""

from __future__ import annotations

from pathlib import Path

_HOME = Path(__file__).resolve().parent
_ROOTS = (_HOME / "_data", _HOME.parent)  # of a wheel, of a checkout


def data_dir(name: str) -> Path:
    """The folder `name` (sample_configs, themes) as installed; one that does not exist if the installation lost it."""
    for root in _ROOTS:
        if (folder := root / name).is_dir():
            return folder
    return _ROOTS[0] / name
