from __future__ import annotations

from trainer.rundir.resume import Resumed, counts, merge_metrics, merge_updates, resumes_in


def line(attempt: int, step: int, **fields: object) -> dict:
    return {"attempt": attempt, "step": step, "iteration": step // 2, **fields}


def test_a_resume_voids_what_earlier_attempts_did_after_it() -> None:
    resumes = [Resumed(2, 10), Resumed(3, 6)]
    kept = {(a, s) for a in (1, 2, 3) for s in range(0, 15) if counts(line(a, s), resumes)}
    assert kept == {(1, s) for s in range(7)} | {(2, s) for s in range(7)} | {(3, s) for s in range(15)}


def test_a_resume_does_not_void_its_own_or_later_attempts() -> None:
    assert counts(line(2, 50), [Resumed(2, 10)]) and not counts(line(1, 11), [Resumed(2, 10)])
    assert counts({"seq": 1}, [Resumed(2, 10)])  # what has no attempt is not dropped


def test_resumes_are_read_from_events_whatever_else_they_hold() -> None:
    events = [
        {"type": "rl.phase", "attempt": 1},
        {"type": "rl.resumed", "attempt": 2, "data": {"from_step": 4}},
        {"type": "rl.resumed", "attempt": 3, "data": {"attempt": 3, "from_step": "six"}},
        {"type": "rl.resumed", "data": None},
    ]
    assert resumes_in(events) == [Resumed(2, 4)]


def test_lines_of_a_step_merge_and_the_later_value_wins() -> None:
    lines = [line(1, 1, a=1, b=1), line(1, 2, a=5), line(1, 1, b=2, c=3)]
    assert merge_metrics(lines) == [line(1, 1, a=1, b=2, c=3), line(1, 2, a=5)]


def test_steps_and_evaluations_after_a_resume() -> None:
    lines = [
        line(1, 2, loss=1.0),
        line(1, 2, eval_step=2, reward=0.2),
        line(1, 4, loss=0.9),
        line(1, 4, eval_step=4, reward=0.9),
        line(2, 2, eval_step=2, reward=0.3),
        line(2, 4, loss=0.8),
    ]
    merged = merge_metrics(lines, [Resumed(2, 2)])
    assert [(m["attempt"], m["step"], m.get("loss"), m.get("reward")) for m in merged] == [
        (1, 2, 1.0, None),
        (2, 2, None, 0.3),
        (2, 4, 0.8, None),
    ]


def test_numbers_of_a_damaged_line_that_are_none_break_nothing() -> None:
    for name in ("attempt", "step", "iteration"):
        for value in ([1], {}, None, "2", 1.5):
            assert merge_metrics([line(1, 1, eval_step=1) | {name: value}, line(2, 3, a=1)])[-1]["a"] == 1
    assert merge_updates([{"kind": "use", "branch": [0], "s": 1.0}])["s"] == 1.0


def test_updates_of_an_episode_merge_by_branch() -> None:
    lines = [
        {"n": 1, "attempt": 1, "step": 2, "iteration": 1, "kind": "group", "adv": 0.5, "excl": None},
        {"n": 1, "attempt": 1, "step": 1, "iteration": 1, "kind": "use", "branch": 0, "s": 1.0},
        {
            "n": 1,
            "attempt": 1,
            "step": 2,
            "iteration": 1,
            "kind": "use",
            "branch": 0,
            "s": 1.1,
            "clip": "high",
        },
        {"n": 1, "attempt": 1, "step": 2, "iteration": 1, "kind": "mask", "branch": 1, "excl": "too_long"},
    ]
    assert merge_updates(lines) == {
        "adv": 0.5,
        "excl": "too_long",
        "iteration": 1,
        "branches": {0: {"s": 1.1, "clip": "high", "step": 2}, 1: {"excl": "too_long"}},
    }
