"""Criteria that code checks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.judge.conftest import Bench, bench, episode
from tests.waiting import comes, until
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.types import JudgedEpisode

MADE: list[Bench] = []


@pytest_asyncio.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    while MADE:
        await MADE.pop().judge.close()


def rules(*given: dict[str, Any], kind: str = "outcome", **options: Any) -> Bench:
    criteria = [{"id": f"r{number}", "rule": rule} for number, rule in enumerate(given)]
    flags = {"event": kind == "event", "outcome": kind == "outcome"}
    MADE.append(bench(flags, overrides={kind: {"criteria": criteria}}, type="rule", **options))
    return MADE[-1]


async def outcome(rule: dict[str, Any], played: JudgedEpisode) -> float:
    return (await rules(rule).judge.judge(played)).outcome


SCHEMA = {"type": "object", "required": ["a"]}


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("contains", "Paris", "It is Paris.", "It is paris."),
        ("regex", r"[.!]$", "Yes.", "Yes"),
        ("exact", " Paris ", "\nParis", "Paris."),
        ("numeric", 1234.5, "First 3, then 1,234.50.", "1234.5, or 7"),
        ("numeric", -2, "x = -2", "no number"),
        ("json_valid", None, '{"a": 1}', "{a: 1}"),
        ("json_schema", SCHEMA, '{"a": 1}', '{"b": 1}'),
        ("json_schema", SCHEMA, '{"a": 1}', "a"),
        ("max_chars", 5, "12345", "123456"),
    ],
)
async def test_kinds_of_text(kind: str, value: Any, good: str, bad: str) -> None:
    rule = {"kind": kind, "value": value}
    made = rules(rule, {**rule, "target": "any"}, {**rule, "target": "every"})
    for played, scores in (((bad, good), [1, 1, 0]), ((good, bad), [0, 1, 0]), ((good, good), [1, 1, 1])):
        await made.judge.judge(episode(*played))
        assert [*made.records[-1].criteria.values()] == scores
    given = await rules(rule, kind="event").judge.judge(episode(good, bad))
    assert given.event_scores == [1.0, 0.0] and given.event == 0.5 and given.outcome is None


async def test_tools_and_rewards() -> None:
    played = episode("a", "b", env_reward=0.5)  # the turns have rewards 0 and 1
    played.turns[0].messages[1]["tool_calls"] = [{"function": {"name": "dig", "arguments": "{}"}}]
    assert await outcome({"kind": "tool_called", "value": "dig"}, played) == 0.0
    assert await outcome({"kind": "tool_called", "value": "dig", "target": "any"}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 0.5}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 1, "target": "any"}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 1, "target": "every"}, played) == 0.0
    played.env_reward = None  # is not 0
    with pytest.raises(JudgeFailed, match="no reward") as caught:
        await outcome({"kind": "reward_at_least", "value": 0}, played)
    assert caught.value.code == "judge_reward_missing"


async def test_a_record_is_left_and_nothing_is_paid() -> None:
    made = rules({"kind": "contains", "value": "a"}, {"kind": "contains", "value": "b"})
    given = await made.judge.judge(episode("a"))
    [line] = made.records
    assert given.outcome == 0.5 == line.total and given.calls == [1] and given.cost_usd == 0 and given.model is None
    assert (line.source, line.status, line.criteria) == ("rule", "ok", {"r0": 1.0, "r1": 0.0})


MODULE = """
import os, subprocess, sys, time
from fractions import Fraction
import numpy

def share(episode, turn):
    return len(episode.turns) / 4 if turn is None else turn.t == 0
def raises(episode, turn):
    return 1 / 0
def exits(episode, turn):
    raise SystemExit(3)
def dies(episode, turn):
    os._exit(3)
def fades(episode, turn):
    os.closerange(3, 256)
    time.sleep(1.5)
    os._exit(3)
def eleven(episode, turn):
    return 11
def not_a_number(episode, turn):
    return numpy.float64("nan")
def nothing(episode, turn):
    pass
def single(episode, turn):
    return numpy.float32(0.5)
def flag(episode, turn):
    return numpy.array([True])
def half(episode, turn):
    return Fraction(1, 2)
def says(episode, turn):
    print("printed by a rule")
    os.write(1, b"written by a rule")
    return float(sys.stdin.read() == "")
def hangs_at_bad(episode, turn):
    if episode.final_text != "bad":
        return 1
    child = subprocess.Popen(["sleep", "1000"])
    with open("pids", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    while True:
        time.sleep(1000)
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "judging_rules.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(name: str) -> dict[str, Any]:
    return {"kind": "python", "value": f"judging_rules:{name}"}


async def test_python_by_import_path(code: Path) -> None:
    rule = {"kind": "python", "value": "judging_rules:share"}
    assert (await rules(rule, code_from=code).judge.judge(episode("a", "b"))).outcome == 0.5
    assert (
        await rules({**rule, "value": "judging_rules.share"}, kind="event", code_from=code).judge.judge(
            episode("a", "b")
        )
    ).event_scores == [1, 0]
    assert "judging_rules" not in sys.modules and str(code) not in sys.path
    with pytest.raises(JudgeMisconfigured, match="not allowed") as caught:
        rules(rule, allow_code=False)
    assert caught.value.code == "code_not_allowed" and "--allow-code" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raises", "raised ZeroDivisionError: division by zero"),
        ("exits", "raised SystemExit: 3"),
        ("dies", r"ended the process that applies rules \(exit status 3\)"),
        ("fades", r"ended the process that applies rules \(exit status 3\)"),  # its connection closes long before
        ("eleven", "gave 11"),
        ("not_a_number", "gave (np.float64.)?nan"),
        ("nothing", "gave None"),
    ],
)
async def test_a_rule_that_fails_is_named_and_is_no_score(code: Path, name: str, why: str) -> None:
    made = rules({"kind": "python", "value": f"judging_rules:{name}"}, code_from=code)
    with pytest.raises(JudgeFailed, match=why) as caught:
        await made.judge.judge(episode())
    assert caught.value.code == "judge_rule" and "r0" in caught.value.text
    [line] = made.records
    assert (line.status, line.code, line.total) == ("failed", "judge_rule", None) and line.reply == caught.value.text


async def test_scalars_of_other_libraries_are_numbers(code: Path) -> None:
    made = rules(python("single"), python("flag"), python("half"), code_from=code)
    await made.judge.judge(episode())
    assert made.records[0].criteria == {"r0": 0.5, "r1": 1.0, "r2": 0.5}


async def test_what_a_rule_prints_is_not_on_our_stdout_and_our_stdin_is_not_read(
    code: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (await rules(python("says"), code_from=code).judge.judge(episode())).outcome == 1.0
    out, err = capfd.readouterr()
    assert out == "" and "printed by a rule" in err and "written by a rule" in err


async def test_a_rule_that_hangs_costs_its_own_episode_and_leaves_nothing_behind(code: Path) -> None:
    made = rules(python("hangs_at_bad"), code_from=code, timeout_s=3.0)
    played = [episode(answer) for answer in ("good", "bad", "good", "good")]
    given = await asyncio.gather(*map(made.judge.judge, played), return_exceptions=True)
    assert [getattr(judgement, "outcome", None) for judgement in given] == [1.0, None, 1.0, 1.0]
    assert isinstance(given[1], JudgeFailed) and "r0: it did not end within 3 s" in given[1].text
    pids = [int(pid) for pid in (code / "pids").read_text().split()]
    assert len(pids) == 2
    until(lambda: all(ended(pid) for pid in pids))


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_pattern_without_end_holds_up_neither_the_loop_nor_the_end_of_the_judge() -> None:
    made = rules({"kind": "regex", "value": r"(?s)^(.+)+\u0001X$"}, timeout_s=1000)
    judging = asyncio.create_task(made.judge.judge(episode("a" * 60)))
    [child] = [child for child in psutil.Process().children() if "rule_worker" in " ".join(child.cmdline())]
    before = child.cpu_times().user
    while child.cpu_times().user < before + 0.2:  # noqa: ASYNC110 - it matches
        await asyncio.sleep(0.01)
    await made.judge.close()
    with pytest.raises(JudgeFailed):
        await judging
    assert not child.is_running()


async def test_a_cancelled_judgement_leaves_the_next_one_its_own_answer(code: Path) -> None:
    made = rules(python("hangs_at_bad"), code_from=code, timeout_s=600.0)
    judging = asyncio.create_task(made.judge.judge(episode("bad")))
    await comes(lambda: (code / "pids").exists() and len((code / "pids").read_text().split()) == 2)
    judging.cancel()
    next_one = asyncio.create_task(made.judge.judge(episode("good")))
    await asyncio.wait([judging])
    os.kill(int((code / "pids").read_text().split()[0]), signal.SIGKILL)
    assert (await next_one).outcome == 1.0
    assert judging.cancelled()


def test_a_process_that_is_stopped_does_not_outlive_the_judge() -> None:
    words = "from trainer.judge.rule_process import RuleProcess\n"
    words += "made = RuleProcess([{'kind': 'regex', 'value': 'a'}], 5.0, None)\nprint('up', flush=True)\ninput()"
    owner = psutil.Popen(
        [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert owner.stdout.readline() == b"up\n"
    [child] = owner.children()
    child.suspend()
    until(lambda: child.status() == psutil.STATUS_STOPPED)
    owner.kill()
    owner.wait()
    try:
        child.wait(30)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def test_rules_of_ours_start_no_process() -> None:
    rules({"kind": "contains", "value": "a"}, {"kind": "numeric", "value": 1})
    assert not [child for child in psutil.Process().children() if "rule_worker" in " ".join(child.cmdline())]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (None, "is missing"),
        ({"kind": "vibes"}, "kind 'vibes' is not one of contains"),
        ({"kind": "contains"}, "value is not a text"),
        ({"kind": "contains", "value": "x", "target": "first"}, "target 'first'"),
        ({"kind": "regex", "value": "("}, "not a regular expression"),
        ({"kind": "numeric", "value": "3"}, "not a number"),
        ({"kind": "json_schema", "value": {"type": "thing"}}, "not a JSON schema"),
        ({"kind": "python", "value": "no_such_module:f"}, "cannot be imported"),
        ({"kind": "python", "value": "json:nothing"}, "cannot be imported"),
        ({"kind": "python", "value": "json:__doc__"}, "is not a function"),
    ],
)
def test_a_rule_that_cannot_be_applied_stops_the_job_before_it_starts(rule: Any, why: str) -> None:
    with pytest.raises(JudgeMisconfigured, match=why) as caught:
        rules(rule)
    assert caught.value.code == "judge_rule" and "outcome criterion r0" in caught.value.message
