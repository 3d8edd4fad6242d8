"""Which config is to be run: those of the folder that the person stands in, and the one that was used last."""

from __future__ import annotations

from pathlib import Path

from rltui.model.form_starts import about
from rltui.samples import presets
from rltui.screens.choice import Choice
from rltui.words import shortened

MOST = 12  # files that are offered
READ = 64 << 10  # characters in which a config names its algorithm
OTHER = ""  # the value of the last choice: a path is typed


def configs_in(folder: Path) -> list[Path]:
    """TOML files that look like configs of runs, the one that was saved last first."""
    found = []
    for path in folder.glob("*.toml"):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                if "[algorithm]" in file.read(READ):
                    found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    return [path for _, path in sorted(found, reverse=True)[:MOST]]


def choices(folder: Path, last: Path | None) -> list[Choice]:
    """What is offered, the last one used first."""
    paths = [path.absolute() for path in configs_in(folder)]
    if last is not None and last.is_file():
        paths = [last.absolute(), *(path for path in paths if path != last.absolute())]
    samples = {preset.title: preset.name for preset in presets()}
    return [
        *(Choice(str(path), shortened_in(path, folder), about(path, samples)) for path in paths),
        Choice(OTHER, "another", "its path is typed"),
    ]


def shortened_in(path: Path, folder: Path) -> str:
    """Its name, where it lies in `folder`."""
    return path.name if path.parent == folder.absolute() else shortened(path)
