"""The verdict, from stages and episodes."""

from rltui.smoke.report import Episode, Stage
from rltui.smoke.verdict import verdict_of

FINE = Episode(0, 0, 0, (), (), 1.0, 1.0)
LOST = Episode(0, 0, 0, (), (), None, None, excluded="timeout")


def stages(*verdicts: str) -> list[Stage]:
    return [Stage(f"S{i:02}", "title", v, 0.0, "what happened", "do this") for i, v in enumerate(verdicts, 1)]


def test_the_words() -> None:
    assert verdict_of(stages("ok", "skipped"), [FINE], False) == ("ready", "ready: every stage passed")
    word, text = verdict_of(stages("ok", "warn", "warn"), [FINE], False)
    assert (word, text) == (
        "ready_with_warnings",
        "ready with warnings: 2 warnings (S02, S03); S02: what happened",
    )
    word, text = verdict_of(stages("warn", "fail", "ok", "fail"), [FINE], False)
    assert (word, text) == ("not_ready", "not ready: S02 title: what happened. Fix: do this (1 more failed: S04)")


def test_nothing_played_or_stopped_is_not_ready() -> None:
    assert verdict_of(stages("ok"), [LOST], False)[0] == "not_ready"
    assert verdict_of(stages("ok"), [FINE], True)[1].startswith("not ready: stopped")
