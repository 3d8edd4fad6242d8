"""Which rubric a run is judged by: the project's files, then the task app, then the judge service (CONFIG [judge])."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from trainer.config.schema import JudgeOptionsConfig
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.rubric import KINDS, Json, Rubric, RubricError, RubricPart, read_part, read_rubric_file
from trainer.judge.score import weightless
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import RubricInfo

_KEY = "judge.options"
RUBRICS = "rubrics"  # the folder beside the config


class Resolved(msgspec.Struct, frozen=True):
    """`rubric` None: a judge service knows it by `rubric_id`, or has one of its own."""

    rubric: Rubric | None
    source: str  # what it is taken from, in words
    warnings: tuple[str, ...] = ()


def resolve_rubric(
    options: JudgeOptionsConfig,
    *,
    folder: Path | None,
    app: RubricInfo | None = None,
    service: bool = False,
    given: Rubric | None = None,
) -> Resolved:
    """The rubric with its overrides, the kinds and tracks that are judged, and its weights.

    Args:
        folder: the project's `rubrics/`; it need not exist.
        app: what the task app publishes.
        service: a judge service scores, which may know ids that nobody here knows.
        given: takes the place of what is looked up.

    Raises:
        JudgeMisconfigured: no such rubric (the known ids are listed), or one that scores nothing.
    """
    try:
        base, source = (given, "the given rubric") if given is not None else _look_up(options, folder, app, service)
        rubric, warnings = _shaped(base, options)
    except RubricError as error:
        raise JudgeMisconfigured(
            "judge_rubric", f"the rubric cannot be used: {error}", f"Correct it, or {_KEY}"
        ) from None
    if rubric is None:
        if service:
            return Resolved(None, source)
        hint = f"Set {_KEY}.rubric_id, or give criteria in {_KEY}.rubric_overrides"
        raise JudgeMisconfigured(
            "judge_rubric", "there is no rubric: neither the config nor the task app has one", hint
        )
    return Resolved(rubric, source, tuple(warnings))


def _look_up(
    options: JudgeOptionsConfig, folder: Path | None, app: RubricInfo | None, service: bool
) -> tuple[Rubric | None, str]:
    wanted = options.rubric_id
    published, names = _published(app)
    if wanted is None:
        return published, "the task app" if published else "the config"
    files = rubric_files(folder)
    if wanted in files:
        return msgspec.structs.replace(read_rubric_file(files[wanted]), id=wanted), str(files[wanted])
    if published is not None and wanted in names:
        return msgspec.structs.replace(published, id=wanted), "the task app"
    if service:
        return None, "the judge service"
    known = ", ".join(sorted({*files, *names})) or "none"
    where = f"put rubrics/{clean(wanted, 60)}.toml or .json beside the config" if folder else "give one of these"
    raise JudgeMisconfigured(
        "judge_rubric",
        f"there is no rubric {clean(wanted, 60)}: known are {clean(known, 600)}",
        f"Correct {_KEY}.rubric_id, or {where}",
    )


def carried(options: JudgeOptionsConfig, folder: Path) -> dict[str, Json] | None:
    """The rubric of a file in `folder` as `rubric_overrides` that need no file, with the config's own laid over it, for
    a run on another machine. None: `rubric_id` names no file there. Raises JudgeMisconfigured."""
    file = rubric_files(folder).get(options.rubric_id or "")
    if file is None:
        return None
    rubric, found = read_rubric_file(file), dict(options.rubric_overrides)
    try:
        for kind in KINDS:
            if (part := read_part(found.get(kind), kind, rubric.part(kind))) is not None:
                found[kind] = _plain(part)
    except RubricError as error:
        raise JudgeMisconfigured("judge_rubric", f"the rubric {file}: {error}", "Correct it") from None
    return found


def _plain(part: RubricPart) -> Json:
    data: Json = msgspec.to_builtins(part)
    data["criteria"] = [{k: v for k, v in item.items() if v is not None} for item in data["criteria"]]
    return data


def rubric_files(folder: Path | None) -> dict[str, Path]:
    """By id: the path in the folder without suffix. An id is compared, never made a path of."""
    if folder is None or not folder.is_dir():
        return {}
    found = sorted(path for suffix in ("toml", "json") for path in folder.rglob(f"*.{suffix}"))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def _published(app: RubricInfo | None) -> tuple[Rubric | None, set[str]]:
    """The task app's rubric, and the names by which it is known."""
    sections = {"event": app.events, "outcome": app.outcome} if app else {}
    present = {kind: section for kind, section in sections.items() if section is not None and section.criteria}
    if not present:
        return None, set()
    parts = {kind: read_part(section.model_dump(), kind) for kind, section in present.items()}
    names = {section.name for section in present.values() if section.name}
    return Rubric(id=min(names, default=None), event=parts.get("event"), outcome=parts.get("outcome")), names


def _shaped(base: Rubric | None, options: JudgeOptionsConfig) -> tuple[Rubric | None, list[str]]:
    """`base` under the overrides, cut to what is judged. None: there is nothing to shape."""
    overrides = options.rubric_overrides
    if base is None and not any(isinstance(part, Mapping) and part.get("criteria") for part in overrides.values()):
        return None, []
    base = base or Rubric(id=options.rubric_id)
    warnings: list[str] = []
    parts: dict[str, RubricPart | None] = {}
    judged = [kind for kind, on in zip(KINDS, (options.event, options.outcome), strict=True) if on]
    for kind in judged:
        part = read_part(overrides.get(kind), kind, base.part(kind))
        if part is None or not part.criteria:
            raise RubricError(f"{_KEY}.{kind} is true, and it has no criteria for {kind}")
        parts[kind] = _of_tracks(part, options.tracks, kind)
    everything = [c for part in parts.values() if part for c in part.criteria]
    present = {criterion.track for criterion in everything}
    for name in options.tracks or ():
        if name not in present:
            warnings.append(f"{_KEY}.tracks: no criterion is of the track {clean(name, 60)}; it counts for nothing")
    for name in options.weights:
        if name not in present:
            warnings.append(f"{_KEY}.weights: no criterion is of the track {clean(name, 60)}")
    if options.weights:
        for name in sorted(present - set(options.weights)):
            warnings.append(f"{_KEY}.weights leaves out the track {clean(name, 60)}, which weighs 0")
    for kind, part in parts.items():
        if part is not None and (why := weightless(part, options.weights)):
            raise RubricError(f"{kind}: {why}")
    return Rubric(id=base.id, weights=dict(options.weights), **parts), warnings


def _of_tracks(part: RubricPart, tracks: list[str] | None, kind: str) -> RubricPart:
    if tracks is None:
        return part
    kept = tuple(criterion for criterion in part.criteria if criterion.track in tracks)
    if not kept:
        known = ", ".join(sorted({criterion.track for criterion in part.criteria}))
        raise RubricError(f"{kind}: no criterion is of a track in {_KEY}.tracks; the tracks are {clean(known, 200)}")
    return msgspec.structs.replace(part, criteria=kept)
