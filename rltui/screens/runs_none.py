"""What stands in place of the list of runs while no run shows: why, and what can be done."""

from __future__ import annotations

from pathlib import Path

from rltui.words import shortened

Said = tuple[str, str]  # text, style


def why_none(folder: Path, *, filter: str, known: int, reading: bool, ended: bool, open_run: str | None) -> list[Said]:
    """`known`: runs that are known, shown or not; `reading`: not all of the folder was read, as its reading `ended` or
    still goes on; `open_run`: the name of the run that is open, which then lies elsewhere."""
    if known and filter:
        return [(f"No run matches {filter}", "text"), ("/ changes the filter, esc clears it", "dim")]
    if known:
        return [("Every run here is archived.", "text"), ("/ archived shows them", "dim")]
    if reading:
        return [("C goes on reading the folder" if ended else "Reading the folder", "dim")]
    return [
        (f"No runs under {shortened(folder)}.", "text"),
        *([(f"4: back to {open_run}", "dim")] if open_run is not None else []),
        ("a: open a run or another folder, +: a new config", "dim"),
        ("`rltui demo` makes a run, `rltui train FILE` starts yours.", "dim"),
    ]
