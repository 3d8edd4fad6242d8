"""What the monitor says, as pure functions: progress, what the run does now, filters, events, logs, steering."""

from __future__ import annotations

import pytest
from rich.segment import Segment

from rltui.look import default_look
from rltui.model.doing import doing, waits
from rltui.model.episode_query import FilterError, parse
from rltui.model.log_feed import merged
from rltui.model.metrics import MetricStore
from rltui.model.now import duration_of, now_lines, written_later
from rltui.model.pipeline_text import seconds
from rltui.model.progress import elapsed, freshness, progress
from rltui.screens.monitor.episode_line import head, line
from rltui.screens.monitor.event_rows import EventRows
from rltui.screens.quit import quit_screen
from rltui.screens.steer import ended, loss, told, verbs
from rltui.text import width
from rltui.words import duration
from trainer.rundir.layout import SCHEMA

LOOK = default_look()
RUNNING = {
    "state": "running",
    "phase": "training",
    "step": 412,
    "totals": {"steps": 2000},
    "elapsed_s": 11_520.0,
    "eta_s": 44_000.0,
    "updated_at": "2025-06-15T15:00:00Z",
    "weight_version": 412,
    "lag": {"mean": 1.2, "max": 3},
    "episodes": {"accepted": 996, "excluded": 4},
}
NOW = 1_749_999_600.0 + 3  # three seconds after updated_at


def said(status, cells: int = 118) -> str:
    return "".join(text for text, _ in progress(status, LOOK, cells, NOW))


def test_progress_has_step_share_times_version_lag_and_what_was_left_out():
    text = said(RUNNING)
    for part in ("step 412/2000", "20.6 %", "elapsed 3 h 12 m", "left ~12 h 13 m", "v412", "lag 1.200 max 3", "0.4 %"):
        assert part in text
    assert text.count(LOOK.glyph("bar_full")) == round(0.206 * (text.count("█") + text.count("░")))


@pytest.mark.parametrize("cells", range(60, 220, 7))
@pytest.mark.parametrize(
    "status",
    [RUNNING, None, {}, {**RUNNING, "totals": {}}, {**RUNNING, "waiting": {"for": "batch", "on": "x" * 300}},
     {"state": "failed", "error": {"message": "m" * 400, "hint": "h"}}],
)  # fmt: skip
def test_progress_fits_any_width(cells, status):
    assert width(said(status, cells)) <= cells


def test_before_the_first_step_it_says_what_is_waited_for():
    loading = {"state": "starting", "phase": "starting", "waiting": {"on": "loading weights", "since": NOW - 41}}
    assert said(loading) == " Waiting for the first step: loading weights (41 s)"
    failed = {"state": "failed", "error": {"message": "no GPU", "hint": "use a CPU config"}}
    assert said(failed) == " no GPU  use a CPU config"


@pytest.mark.parametrize(
    ("what", "on", "text"),
    [
        ("batch", "the groups of iteration 2", "the learner waits for the groups of iteration 2"),
        ("policy", "weights after step 0", "new episodes wait for the weights after step 0"),
        ("sync", "the weights of step 3", "the engine takes the weights of step 3"),
        ("engine", "engine and learner load the weights", "engine and learner load the weights"),
        ("task_app", "the task app's health", "it waits for the task app's health"),
        ("task_app", "the task app is down: no answer", "the task app is down: no answer"),
        ("judge", "", "it waits for judge"),
        ("", "", ""),
    ],
)
def test_a_wait_is_a_sentence(what, on, text):
    status = {**RUNNING, "waiting": {"for": what, "on": on, "since": NOW - 5}}
    assert waits(status) == text
    assert doing(status, NOW) == (f"{text} (5 s)" if text else "playing episodes")


@pytest.mark.parametrize("cells", [100, 120, 200])
def test_a_wait_moves_and_drops_nothing_of_the_line(cells):
    demo = {**RUNNING, "step": 10, "totals": {"steps": 36}, "weight_version": 10, "elapsed_s": 46.0, "eta_s": 737.0}
    waiting = {**demo, "waiting": {"for": "policy", "on": "weights after step 0", "since": NOW - 5}}
    assert said(waiting, cells).startswith(said(demo, cells))
    for part in ("elapsed", "left", "weights v10", "lag 1.200 max 3", "excluded 0.4 %"):
        assert part in said(waiting, cells)
    assert ("new episodes wait" in said(waiting, cells)) == (cells == 200)
    held = {**waiting, "phase": "waiting"}
    assert "new episodes wait for the weights after step 0 (5 s)" in said(held, cells)


def test_elapsed_time_goes_on_between_two_statuses_but_not_for_ever():
    assert elapsed(RUNNING, NOW - 2) == 11_521.0
    assert elapsed(RUNNING, NOW + 3600) == 11_522.0
    assert elapsed({**RUNNING, "silent": True}, NOW + 3600) == 11_520.0
    assert elapsed({**RUNNING, "state": "succeeded"}, NOW) == 11_520.0


def test_a_source_that_is_lost_is_stale():
    assert freshness(True, 34.0, "cannot be read", 1.0) == ("stale 34 s: cannot be read", "watch")
    assert freshness(True, 0.1, None, 1.0) == ("live, 1 Hz", "dim")


@pytest.mark.parametrize("schema", [None, SCHEMA, True, "7"])
def test_a_run_of_this_version_needs_no_word_about_it(schema):
    assert written_later({"schema": schema}) is None


def test_a_run_of_a_later_version_is_shown_and_that_is_said():
    status = {"state": "failed", "schema": 7, "novelty": 1, "error": {"message": "it broke"}}
    assert [name for name, _, _ in now_lines(status, MetricStore(), ())] == ["cause", "warning"]
    assert "schema 7" in written_later(status)


def test_now_says_cause_and_what_to_do_first_and_survives_an_empty_status():
    store = MetricStore()
    assert now_lines(None, store, ()) == []
    store.add(
        [{"step": 3, "trainer/idle_ratio": 0.2, "time/step": 4.0}, {"step": 2, "eval_step": 2, "eval/reward_mean": 0.5}]
    )
    error = {"message": "no\x1b[31m disk", "hint": "free some"}
    lines = now_lines({"state": "failed", "error": error}, store, [{"seed": 7, "rewards": [0, 1, None], "std": 0.5}])
    assert lines[:2] == [("cause", "no disk", "act"), ("to do", "free some", "text")]
    text = " ".join(text for _, text, _ in lines)
    assert "reward 0.500 at step 2" in text and "trainer idle 20 %" in text and "rewards 0 1.000 -, std 0.500" in text


def test_many_gpus_are_a_line_a_role():
    def told(count):
        gpu = {"util": 0.5, "used_bytes": 60 << 30, "total_bytes": 80 << 30}
        gpus = [{"index": i, "role": "learner" if i < 2 else "inference", **gpu} for i in range(count)]
        lines = now_lines({"state": "running", "pipeline": {"gpus": gpus}}, MetricStore(), ())
        return [(name, text) for name, text, _ in lines if name.startswith("GPU")]

    assert [name for name, _ in told(4)] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert told(64) == [
        ("GPUs", "2 learner 50 % 120.0 of 160 GiB"),
        ("GPUs", "62 inference 50 % 3720.0 of 4960 GiB"),
    ]


EPISODE = {
    "n": 3,
    "iteration": 12,
    "split": "train",
    "seed": 7,
    "R": 0.5,
    "stop": "completed",
    "excl": None,
    "tok": [9, 40],
}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("reward > 0.4", True),
        ("reward>0.5", False),
        ("iteration = 12 seed=7", True),
        ("iteration = 12 seed=8", False),
        ("not iteration = 12", False),
        ("has:excl", False),
        ("not has:excl", True),
        ("stop != completed", False),
        ("tokens <= 40", True),
        ("COMPLET", True),
        ("truncated", False),
        ("group = 1", False),
    ],
)
def test_filter(text, kept):
    found = parse(text)
    assert found is not None
    assert found.keep({key: EPISODE[key] for key in EPISODE if key in (*found.fields, "n")}) is kept


@pytest.mark.parametrize(
    ("text", "column"),
    [("reward > much", 9), ("seed = 1 colour = red", 9), ("stop > 3", 5), ("has:colour", 4), ("a >", 2)],
)
def test_a_mistake_in_a_filter_names_its_column(text, column):
    with pytest.raises(FilterError) as error:
        parse(text)
    assert error.value.column == column


def test_an_empty_filter_keeps_all_and_words_where_numbers_belong_fit_nothing():
    assert parse("  ") is None
    found = parse("reward > 0")
    assert found is not None and not found.keep({"R": "\x1b[31m"}) and not found.keep({"R": []})


@pytest.mark.parametrize("cells", [44, 50, 60, 90])
@pytest.mark.parametrize(
    "row", [EPISODE, {"n": 5}, {**EPISODE, "seed": "x" * 99, "stop": "\u202e" * 9, "R": "no", "tok": []}]
)
def test_an_episode_fits_its_line(cells, row):
    assert Segment.get_line_length(line(row, cells, LOOK)) <= cells
    assert Segment.get_line_length(head(cells, LOOK)) <= cells


def test_events_leave_out_every_step_and_say_nothing_twice():
    rows = EventRows()
    rows.update(
        [
            {"seq": 1, "type": "rl.train.step", "message": "step 1"},
            {"seq": 2, "type": "rl.train.failed", "message": "no disk", "level": "error"},
            {"seq": 3, "type": "rl.job.failed", "message": "no disk", "level": "error"},
            {"seq": 4, "type": "rl.new", "message": "\x1b[2Jhello"},
        ]
    )
    assert [rows.key(i) for i in range(len(rows))] == [2, 4]
    assert "".join(segment.text for segment in rows.cells(1, 60, LOOK)).rstrip().endswith("hello")


def test_logs_are_merged_by_time_and_a_traceback_stays_together():
    found = merged(
        [
            (
                "coordinator",
                ["2025-06-15T15:00:01.000Z INFO a: 1", "Traceback", "  File x", "2025-06-15T15:00:05.000Z INFO a: 2"],
            ),
            ("learner-0", ["2025-06-15 15:00:03,500 INFO b: 1"]),
        ]
    )
    assert [(name, len(lines)) for name, lines in found] == [("coordinator", 3), ("learner-0", 1), ("coordinator", 1)]


class Steering:
    """A run that takes stop and kill."""

    def why_not(self, action):
        return None if action in ("stop", "kill") else f"this run does not take {action}"


class Everything:
    """Of a run that takes every verb."""

    def why_not(self, action):
        return None


def test_every_verb_is_listed_and_one_that_cannot_be_asked_for_says_why():
    listed = {choice.value: choice.why_not for choice in verbs({"state": "running"}, Steering(), readonly=False)}
    assert len(listed) == 7 and not listed["stop"] and "does not take" in listed["pause"]
    assert all("ended" in choice.why_not for choice in verbs({"state": "failed"}, Steering(), readonly=False))
    listed = {one.value: one.why_not for one in verbs({"state": "paused"}, Everything(), readonly=False)}
    assert "paused" in listed["evaluate"] and "paused" in listed["pause"] and not listed["resume"] + listed["set"]
    full = {"state": "paused", "paused": {"reason": "disk_full"}}
    found = {one.value: one for one in verbs(full, Everything(), readonly=False)}
    assert not listed["checkpoint"] and found["checkpoint"].why_not == "the disk is full"
    assert "rltui train --resume" in ended("x", "cancelled") and "resume" not in ended("x", "succeeded")
    assert all("--readonly" in choice.why_not for choice in verbs({"state": "running"}, Steering(), readonly=True))


def test_what_a_kill_costs():
    assert loss({"step": 412, "last_checkpoint": {"step": 400}}) == "12 steps since checkpoint step_400 are lost"
    assert loss({"step": 401, "last_checkpoint": {"step": 400}}) == "1 step since checkpoint step_400 is lost"
    assert loss({"step": 9}) == "all 9 steps are lost, there is no checkpoint"


def test_success_is_said_only_when_the_run_says_it():
    class Request:
        action, detail = "stop", "wrong_state"

        def __init__(self, state):
            self.state = state

    assert [told(Request(state)) for state in ("asked", "accepted", "unanswered", "refused", "done")] == [
        ("stop asked", "info"),
        ("stop accepted", "info"),
        ("stop: no answer for 10 s", "watch"),
        ("stop refused: wrong_state", "act"),
        ("stop done", "good"),
    ]


def test_leaving_offers_detach_first():
    screen = quit_screen("guess", {"state": "running", "step": 1}, frozenset({"stop"}))
    choices = screen._choices._choices
    assert [choice.value for choice in choices] == ["detach", "stop", "kill"] and screen._choices._cursor == 0
    assert choices[2].why_not and not choices[1].why_not


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"last_checkpoint": {"step": 30}}, ["checkpoint step_30"]),
        ({"last_checkpoint": {"step": 30}, "best": {"step": 20}}, ["checkpoint step_30, best step_20"]),
        ({"last_checkpoint": {"path": "x"}}, []),
    ],
)
def test_of_what_was_saved_only_what_is_known_is_said(status, text):
    assert [words for name, words, _ in now_lines(status, MetricStore(), []) if name == "saved"] == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("reward > 0.5 or stop = timeout", [0, 2]),
        ("reward > 0.5 and split = train or excl = stale", [1]),
        ("/time.?out|stale/", [1, 2]),
        ("not /^comp/", [1, 2]),
        ("/[A-Z]{9}/ or has:group", [0]),
    ],
)
def test_alternatives_and_expressions(text, kept):
    rows = [
        {"R": 0.9, "stop": "completed", "split": "eval", "excl": None},
        {"R": 0.1, "stop": "aborted", "split": "train", "excl": "stale"},
        {"R": 0.2, "stop": "timeout", "split": "train", "excl": None},
    ]
    found = parse(text)
    assert [i for i, row in enumerate(rows) if found.keep(row)] == kept


@pytest.mark.parametrize(
    ("text", "column"),
    [("or reward > 1", 0), ("reward > 1 or", 11), ("a or or b", 5), ("and", 0), ("stop = x /a(/", 11)],
)
def test_where_an_alternative_or_an_expression_is_wrong(text, column):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0.0 s"),
        (0.0003, "0.3 ms"),
        (0.037, "37 ms"),
        (0.0949, "95 ms"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (75, None),
    ],
)
def test_short_times_are_told_in_milliseconds(value, said):
    assert seconds(value) == duration_of(value) == (said or duration(value))
