import random
from datetime import UTC, datetime

from trainer.taskapp.retries import backoff, parse_retry_after


def test_backoff_doubles_within_its_jitter_and_honours_the_app():
    rng = random.Random(0)
    for attempt in range(6):
        waits = [backoff(attempt, None, rng) for _ in range(50)]
        base = 0.5 * 2**attempt
        assert 0.75 * base <= min(waits) < max(waits) <= 1.25 * base
    assert backoff(0, 30.0, rng) == 30 and backoff(0, 900.0, rng) == 60
    assert backoff(3, 0.0, rng) >= 3


def test_retry_after_in_seconds_or_as_a_date():
    now = datetime(2025, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert parse_retry_after("3", now) == 3.0
    assert parse_retry_after("Wed, 01 Jan 2025 12:00:30 GMT", now) == 30.0
    assert parse_retry_after("Wed, 01 Jan 2025 11:00:00 GMT", now) == 0.0
    for bad in (None, "", "soon", "nan", "inf"):
        assert parse_retry_after(bad, now) is None
