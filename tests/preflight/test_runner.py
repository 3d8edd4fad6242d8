"""Checks in their order and side by side, and what is left when one is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from rltui.preflight.base import Began, Check, Context, Found, Result, ok
from rltui.preflight.runner import Preflight
from rltui.preflight.table import CHECKS


def results(checks: list[Check]) -> Iterator[Result]:
    preflight = Preflight(Context(config=None), checks)  # type: ignore[arg-type]
    return (event for event in preflight.run() if isinstance(event, Result))


def test_independent_checks_run_at_once_and_results_come_as_they_end():
    meet = threading.Barrier(2, timeout=60)
    last = threading.Event()

    def slow(context: Context) -> Found:
        meet.wait()
        last.wait(60)
        return ok("slow")

    def quick(context: Context) -> Found:
        meet.wait()
        return ok("quick")

    def end(context: Context) -> Found:
        return ok("end")

    checks = [Check("a", "a", slow, (), 60), Check("b", "b", quick, (), 60), Check("c", "c", end, ("b",))]
    order = []
    for result in results(checks):
        order.append(result.id)
        if result.id == "c":
            last.set()
    assert order == ["b", "c", "a"]


def test_what_waits_for_a_failure_is_skipped_and_a_fault_is_no_verdict():
    def broken(context: Context) -> Found:
        raise KeyError("x")

    checks = [
        Check("a", "first", lambda context: Found("fail", "no"), ()),
        Check("b", "second", lambda context: ok("never"), ("a",)),
        Check("c", "third", lambda context: ok("never"), ("b",)),
        Check("d", "fourth", broken, ()),
    ]
    found = {result.id: result.found for result in results(checks)}
    assert [found[id].verdict for id in "abd"] == ["fail", "skipped", "warn"]
    assert "first" in found["b"].message and "KeyError" in found["d"].message
    assert found["c"].verdict == "ok"  # a skipped check stands in nobody's way


def test_a_check_that_overruns_fails_and_is_not_waited_for():
    forever, ended = threading.Event(), threading.Event()

    def slow(context: Context) -> Found:
        forever.wait(60)
        ended.set()
        return ok("a")

    checks = [Check("a", "a", slow, (), limit_s=0.05), Check("b", "b", lambda context: ok("b"), ())]
    found = {result.id: result.found for result in results(checks)}
    assert found["a"].verdict == "fail" and found["b"].verdict == "ok" and not ended.is_set()
    forever.set()


def test_the_table_is_sound():
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    for i, check in enumerate(CHECKS):
        assert set(check.needs) <= set(ids[:i]) and check.title


@pytest.mark.parametrize("stop_at", ["began", "served"])
def test_a_stop_leaves_no_process_behind(config, stop_at):
    """The task app that a check serves ends with it, whenever that is."""
    before = set(psutil.Process().children(recursive=True))
    preflight = Preflight(Context(config, environ={}), CHECKS)

    def ours() -> list[psutil.Process]:
        return [child for child in psutil.Process().children(recursive=True) if child not in before]

    for event in preflight.run():
        if isinstance(event, Began) and event.id == "task_app":
            deadline = time.monotonic() + 60
            while stop_at == "served" and not ours() and time.monotonic() < deadline:
                time.sleep(0.01)
            preflight.stop()
    assert psutil.wait_procs(ours(), timeout=30)[1] == []
    assert "task_app" not in preflight.results
