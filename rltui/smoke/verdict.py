"""The verdict of a smoke test, in a word and in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.smoke.report import Episode, Stage, Verdict

WORDS: dict[Verdict, str] = {
    "ready": "ready",
    "ready_with_warnings": "ready with warnings",
    "not_ready": "not ready",
}


def verdict_of(stages: Sequence[Stage], episodes: Sequence[Episode], interrupted: bool) -> tuple[Verdict, str]:
    """A failed stage, no finished episode, or an end before the last stage: not ready. A warning is none."""
    failed = [stage for stage in stages if stage.verdict == "fail"]
    warned = [stage for stage in stages if stage.verdict == "warn"]
    if failed:
        rest = f" ({len(failed) - 1} more failed: {', '.join(s.id for s in failed[1:])})" if len(failed) > 1 else ""
        first = failed[0]
        return "not_ready", f"not ready: {first.id} {first.title}: {_sentence(first)}{rest}"
    if interrupted:
        return "not_ready", "not ready: stopped before all stages were done"
    if not any(episode.R is not None for episode in episodes):
        by_hand = next((s.message for s in stages if s.id == "S07" and s.verdict == "skipped"), "")
        return "not_ready", f"not ready: {by_hand or 'no episode finished'}"
    if warned:
        first = warned[0]
        number = f"{len(warned)} warning{'s' * (len(warned) != 1)}"
        where = ", ".join(stage.id for stage in warned)
        return "ready_with_warnings", f"ready with warnings: {number} ({where}); {first.id}: {first.message}"
    return "ready", "ready: every stage passed"


def _sentence(stage: Stage) -> str:
    return f"{stage.message}. Fix: {stage.fix}" if stage.fix else stage.message
