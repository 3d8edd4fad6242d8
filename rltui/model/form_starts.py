"""What the editor can open or begin with: files here, drafts, presets, and the configs of runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.cli.configs import read_text
from rltui.model import drafts
from rltui.model.as_it_ran import as_it_ran
from rltui.model.form import Form
from rltui.model.form_merge import merge
from rltui.model.ran_with import run_values
from rltui.samples import presets
from rltui.sources.base import RunSource, Unreadable
from rltui.sources.local import LocalRunSource
from rltui.words import duration, shortened
from trainer.config.draft import EditError

MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Start:
    """kind: file, draft, preset, run. `about`: in a sentence."""

    kind: str
    name: str
    path: Path
    about: str = ""


def starts(folder: Path, runs: Iterable[tuple[str, Path, str]] = ()) -> list[Start]:
    """Everything, in the order of use; drafts of other folders last. runs: (name, folder, state)."""
    here = folder.absolute()
    found = _drafts()
    ours = [draft for draft in found if not draft.path.is_absolute() or draft.path.is_relative_to(here)]
    theirs = [draft for draft in found if draft not in ours]
    others = [replace(one, about=f"of {shortened(one.path.parent)}, {one.about}") for one in theirs]
    return [*ours, *_files(folder), *_presets(), *_runs(runs), *others]


def _drafts() -> list[Start]:
    now = time.time()
    return [
        Start(
            "draft", _called(draft), Path(draft.path or draft.name), f"unsaved edits, {duration(now - draft.saved)} ago"
        )
        for draft in drafts.all_drafts()
        if not draft.path or Path(draft.path).parent.is_dir()
    ]


def _called(draft: drafts.Draft) -> str:
    """By the name that a file of it has, or would have."""
    return draft.name or Path(draft.path).name


def draft_of(start: Start) -> drafts.Draft | None:
    """The draft that was chosen."""
    return drafts.of(str(start.path), "") if start.path.is_absolute() else drafts.of("", start.name)


def _files(folder: Path) -> list[Start]:
    """TOML files of `folder` that may be configs: those that have [algorithm] or [training]."""
    try:
        paths = sorted(path for path in folder.glob("*.toml") if path.is_file())[:MOST_FILES]
    except OSError:
        return []
    samples = {preset.title: preset.name for preset in presets()}
    return [Start("file", path.name, path, about(path, samples)) for path in paths if _may_be_config(path)]


def _may_be_config(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return False
    return b"[algorithm]" in head or b"[training" in head or b"[rollout" in head


def about(path: Path, samples: Mapping[str, str]) -> str:
    """The first comment of a config; of a copy, which has its sample's (`samples`: name by title), what it began as."""
    comment = _first_comment(path)
    return f"begun as {samples[comment]}" if comment in samples else comment


def _first_comment(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            line = file.readline(500)
    except OSError:
        return ""
    return line.removeprefix("#").strip() if line.startswith("#") else ""


def _presets() -> list[Start]:
    return [Start("preset", preset.name, preset.path, preset.title) for preset in presets()]


def _runs(runs: Iterable[tuple[str, Path, str]]) -> list[Start]:
    return [Start("run", name, path / "config.toml", f"its config; the run {state}") for name, path, state in runs]


def begin(start: Start, run: RunSource | None = None) -> Form:
    """The form that it means; of a preset or a run a copy that has no file yet. ConfigError: it cannot be read.

    run: whose config it is, where that is not the folder of `start.path`.
    """
    if start.kind in ("file", "draft"):
        return Form.open(start.path)
    if start.kind == "preset":
        return copy_of(start.path, f"{start.path.stem}.toml")
    form = copy_of(start.path, _name_of(start.path))
    with suppress(Unreadable):
        resolved = run_values(run or LocalRunSource(start.path.parent))
        form.replace(as_it_ran(form.text, form.name, resolved), "as it ran")
    return form


def copy_of(path: Path, name: str) -> Form:
    """A new config with the text of `path`. ConfigError: it cannot be read, or holds a secret."""
    free = free_name(name)
    text = read_text(path).replace(f"sample_configs/{path.name}", free)
    return Form(text, name=free)


def _name_of(config: Path) -> str:
    """For a copy of a run's config: its label."""
    label, found, _ = config.parent.name.rpartition("-rl_")
    return f"{label if found else config.parent.name}.toml"


def free_name(name: str) -> str:
    """`name`, or name-2 and so on where such a file is here already."""
    stem, path, number = Path(name).stem, Path(name), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.toml")
    return str(path)


def from_draft(draft: drafts.Draft) -> Form:
    """The form of one without a file, as it was."""
    form = Form(draft.base, name=draft.name)
    form.replace(draft.text, "draft")
    return form


def take_draft(form: Form, draft: drafts.Draft) -> str:
    """Put a draft's text into the form of its file, as one edit; what others changed there since stays.

    Gives what is to be said of it, "" for nothing. Where the two do not merge, the file counts as changed outside.
    """
    if draft.disk == form.disk or draft.disk is None:
        form.replace(draft.text, "draft")
        return ""
    try:
        merged = merge(draft.disk, draft.text, form.disk or "")
    except EditError:
        form.disk = form.base = draft.disk
        form.replace(draft.text, "draft")
        return "the file is another than the draft began with, and they do not merge: R asks"
    form.replace(merged.text, "draft")
    both = ", ".join(merged.conflicts)
    return f"merged with the file, which changed since{f'; yours is kept in {both}' if both else ''}"


def joined(old: drafts.Draft, new: drafts.Draft) -> drafts.Draft:
    """One draft of both, where `new` was begun beside `old`; where they do not merge, `old` gets a name of its own."""
    try:
        carried = merge(old.disk or "", old.text, new.disk or "").text
        return replace(new, text=merge(new.disk or "", new.text, carried).text)
    except EditError:
        name = free_name(f"{Path(old.path or old.name).stem}-draft.toml")
        drafts.keep(replace(old, path="", name=name, base=old.disk if old.disk is not None else old.base, disk=None))
        return new
