"""`rltui demo` around a stand-in coordinator: what it prints at the end, and its last line of JSON."""

import json

import pytest

DEMO_FIELDS = {
    "run_dir",
    "seconds",
    "iterations",
    "eval_before",
    "eval_after",
    "samples_per_sec",
    "gen_tokens_per_sec",
    "peak_rss_mb",
    "engine",
}


def test_the_last_line_is_one_object(rltui, here):
    done = rltui("demo", "--headless", "--json", "--run-dir", "d", fake="ok")
    assert done.returncode == 0, done.err
    (line,) = done.out.splitlines()
    found = json.loads(line)
    assert set(found) >= DEMO_FIELDS
    assert (found["eval_before"], found["eval_after"], found["iterations"]) == (0.25, 0.5, 2)
    assert (found["engine"], found["peak_rss_mb"], found["run_dir"]) == ("local", 123, str(here / "d"))
    assert "answers to held-out questions" in done.err


def test_it_shows_answers_before_and_after_and_what_to_try_next(rltui):
    out = rltui("demo", fake="ok").out
    assert "held-out reward: 0.250 before, 0.500 after" in out
    questions = [line.strip() for line in out.splitlines() if line.strip().startswith("question")]
    assert questions == ["question 160", "question 161", "question 162"]
    assert "before  plain\ufffd text 0  (reward 0.25)" in out
    assert "after   plain\ufffd text 2  (reward 0.50)" in out
    assert "\x1b" not in out
    after_next = out.rpartition("next\n")[2].splitlines()
    assert [line.partition("rltui ")[2].split()[0] for line in after_next] == ["show", "runs", "train"]


@pytest.mark.parametrize(("mode", "code", "state"), [("failed", 3, "failed"), ("refuse", 2, "failed")])
def test_a_demo_that_fails_says_why_and_has_no_answers(rltui, mode, code, state):
    done = rltui("demo", "--json", fake=mode)
    assert done.returncode == code
    found = json.loads(done.out)
    assert found["state"] == state
    assert found["error"]["message"]
    assert "cause: " in done.err
    assert "answers" not in done.err


def test_a_wrong_set_is_a_config_error(rltui):
    done = rltui("demo", "--set", "training.group_size=5", "--json")
    assert done.returncode == 2
    assert "training.group_size" in done.err
