"""`rltui judge` and `rltui rejudge` on a recorded run, against a scripted model server."""

import io
import json
import os
import stat

import pytest

import rltui.cli.main as entry
from rltui.model.judged import Calls
from tests.cli.conftest import CONFIG
from tests.e2e.judge_server import CRITERIA, ScriptedJudge, chat, scores
from trainer.config import load_text
from trainer.judge.agreement import spearman
from trainer.rundir import EpisodeRecord, RunWriter
from trainer.rundir.records import Exclusion, JudgeRecord

HOSTILE = "\x1b[2J so good"
ABOUT = {"source": "llm", "provider": "openai", "model": "gpt-5-nano", "rubric_id": "r", "rubric_hash": "h"}
ENV = [1.0, 0.0, 0.5, 0.25, 0.75, 1.0]
JUDGED = [0.9, 0.8, 0.4, 0.1, 0.6, None]  # the last one got no score


def record_run(folder, *sets: str):
    """Six episodes, one of them without a score; the second is where judge and task app differ most."""
    loaded = load_text(CONFIG, "my.toml", sets=["judge.enabled=true", *sets], environ={}, device="cpu")
    with RunWriter(folder, job_id="rl_00000000000000aa", label="judged") as writer:
        writer.paths.config.write_text(CONFIG)
        writer.resolved(loaded.resolved())
        judge = {**ABOUT, "rubric_from": "the config", "task": {"name": "Capitals"}}
        writer.environment({"config": str(folder.parent / "my.toml"), "argv": [], "judge": judge})
        for number, (env, score) in enumerate(zip(ENV, JUDGED, strict=True)):
            record_episode(writer, number, env, score)
        writer.status(state="succeeded", end_reason="completed")
    return folder


def record_episode(writer, number, env, score):
    cid, place = f"cid-{number}", {"step": 1, "iteration": 1}
    call = {"kind": "outcome", "turn": None, "key": f"k{number}", "n": None, "cid": cid, **place, **ABOUT}
    times = {"t_queued": 100.0, "t_start": 101.0, "wall_s": 0.5 + number}
    tokens = {"tokens_in": 1000, "tokens_out": 100, "cost_usd": 0.00009}
    if score is None:
        for number_ in range(3):
            code = "judge_unparsable" if number_ else "judge_transient"
            writer.judge(JudgeRecord(status="failed", code=code, reply=HOSTILE, try_=number_, **call, **times))
    else:
        tracks = {"fact": score, HOSTILE: 0.5}
        writer.judge(JudgeRecord(status="ok", total=score, tracks=tracks, reply="{}", **call, **times, **tokens))
    blend = {"env": 0.5, "event": 0.0, "outcome": 0.5}
    rewards = {"O": env, "steps": [], "beta": 0.0, "event": None, "outcome": score, "weights": blend}
    messages = [{"role": "user", "text": "capital?"}, {"role": "assistant", "text": f"answer {number}"}]
    writer.episode(
        EpisodeRecord(
            cid=cid, split="train", seed=number, group=0, member=number, O=env, jo=score, **place,
            R=None if score is None else 0.5 * env + 0.5 * score,
            turns=[{"t": 0, "calls": [0], "messages": messages}],
            rewards={} if score is None else rewards,
            exclusion=Exclusion(code="judge_failed", detail={"cause": "x"}) if score is None else None,
        )
    )  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("RLTUI__")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    return record_run(tmp_path / "judged-rl_00000000000000aa")


@pytest.fixture
def rltui(capsys):
    def call(*args):
        code = entry.main([str(arg) for arg in args])
        return code, *capsys.readouterr()

    return call


def rubric(folder, **more):
    file = folder.parent / "mine.json"
    file.write_text(json.dumps({"outcome": {"criteria": CRITERIA, **more}}))
    return file


def test_what_was_judged_is_a_table_with_what_it_took(run, rltui):
    code, out, err = rltui("judge", run, "--disagreement")
    assert (code, err) == (0, "") and "\x1b" not in out
    head, first, *rest = out.splitlines()
    assert head.split()[:6] == ["EPISODE", "IT", "SPLIT", "ENV", "J_EVENT", "J_OUTCOME"]
    assert first.split()[:7] == ["1", "1", "train", "0.000", "-", "0.800", "+0.800"] and "fact 0.80" in first
    assert "~0.0001" in first
    assert any("no score: transient x 1, unparsable x 2" in line for line in rest)
    assert "6 episodes, 1 without a score; rank correlation with the task app +0.40" in out
    assert "8 calls, 0 known already; a call took 4.5 s (p50), 5.5 s (p95); 5000+500 tokens, cost ~0.000" in out
    assert "estimate" in out and "tries without scores: transient x 1, unparsable x 2" in out
    head, _, fact = out[out.index("how many scores from each tenth on:") :].splitlines()[1:4]
    assert head.split()[:6] == ["TRACK", "OF", "SCORES", "MEAN", "0-", "0.1-"]
    assert fact.split() == ["fact", "outcome", "5", "0.56", *"0100101011"]


def test_the_number_of_the_tab_is_told_beside_that_of_all(run, rltui, monkeypatch):
    """The tab keeps the newest episodes."""
    monkeypatch.setattr("rltui.model.judged.PAIRS", 3)
    found = json.loads(rltui("judge", "--run", run, "--json")[1])
    assert found["recent"] == {"episodes": 3, "agreement": pytest.approx(spearman(JUDGED[2:5], ENV[2:5]))}
    out = rltui("judge", "--run", run)[1]
    assert f"rank correlation with the task app {found['agreement']:+.2f}, of the newest 3 +" in out


def test_the_same_as_json(run, rltui, tmp_path):
    code, out, _ = rltui("judge", "--run", run, "--last", "2", "--json", "--out", tmp_path / "o.json")
    found = json.loads(out)
    assert code == 0 and found == json.loads((tmp_path / "o.json").read_text())
    assert (found["judged"], found["excluded"], [row["n"] for row in found["episodes"]]) == (6, 1, [4, 5])
    assert found["agreement"] == pytest.approx(spearman(JUDGED[:5], ENV[:5]))
    assert (found["cost_estimated"], found["cost_usd"]) == (True, pytest.approx(0.00045))
    assert found["failed"] == {"judge_transient": 1, "judge_unparsable": 2}
    row = found["episodes"][1]
    assert (row["excluded"], row["outcome"], row["gap"], row["tries"]) == (True, None, None, 3)
    assert found["episodes"][0]["gap"] == pytest.approx(-0.15) and found["episodes"][0]["seconds"] == 5.5


def test_a_price_that_is_not_known_is_null_and_never_0():
    calls = Calls()
    calls.add({"status": "ok", "source": "llm", "model": "mine", "tokens_in": 5, "tokens_out": 5, "cost_usd": None})
    assert calls.totals()["cost_usd"] is None and calls.totals()["cost_estimated"] is False
    told = Calls()
    told.add({"status": "ok", "source": "service", "model": None, "tokens_in": 5, "tokens_out": 5, "cost_usd": 0.5})
    told.add({"status": "cached", "source": "service", "cost_usd": None})
    told.add({"status": "failed", "source": "service", "code": "judge_transient", "cost_usd": None})
    assert (told.totals()["cost_usd"], told.totals()["cost_estimated"], told.totals()["cached"]) == (0.5, False, 1)


def test_a_run_without_a_judge_says_so(rltui, synthetic):
    run = next(synthetic.glob("failed-*"))
    (run / "judge.jsonl").unlink(missing_ok=True)
    code, out, _ = rltui("judge", "--run", run)
    assert code == 0 and "no episode was judged" in out


def judged_by(server, tmp_path):
    options = [f"judge.options.base_url={server.url}", "judge.options.model=small"]
    return record_run(tmp_path / "again-rl_00000000000000bb", *options)


def test_an_edited_rubric_is_set_against_the_old_scores_and_the_run_stays_as_it_is(tmp_path, rltui, monkeypatch):
    values = [0.9, 0.1, 0.7, 0.2, 0.3]
    with ScriptedJudge(
        lambda place, times: chat(scores(1, values[place]) if place < 5 else "I cannot say")
    ).serving() as server:
        run = judged_by(server, tmp_path)
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        code, out, err = rltui("rejudge", run, "--rubric", rubric(run), "--last", 6, "--yes", "--json")
    assert code == 0
    assert "6 episodes, 6 calls of small: about 6000 tokens in and 600 out, at a price that is not known here" in err
    found = json.loads(out)
    assert (found["rejudged"], found["scored"], found["failed"]) == (6, 5, {"judge_unparsable": 3})
    assert (found["cost_usd"], found["model"], found["rubric_id"]) == (None, "small", "mine")
    by_answer = {row["n"]: row for row in found["episodes"]}
    new = [by_answer[n]["new"] for n in range(6)]
    # requests go out in the order of the episodes, but which is answered first is the server's affair
    lost = [n for n in range(6) if new[n] is None]
    assert len(lost) == 1 and by_answer[lost[0]]["code"] == "judge_unparsable" and by_answer[lost[0]]["cause"]
    assert sorted(n for n in new if n is not None) == pytest.approx(sorted((1 + value) / 2 for value in values))
    whole = [n for n in range(6) if new[n] is not None]
    assert found["correlation_new_env"] == pytest.approx(spearman([new[n] for n in whole], [ENV[n] for n in whole]))
    assert found["mean_old"] == pytest.approx(sum(JUDGED[:5]) / 5)
    for n in whole:
        expected = 0.5 * ENV[n] + 0.5 * new[n] if n != 5 else None  # whose record has no reward to be changed
        assert by_answer[n]["reward_if"] == pytest.approx(expected)

    assert {path: path.read_bytes() for path in before} == before
    (file,) = run.glob("rejudge-*.jsonl")
    assert file.name == found["file"] and stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 5 + 3 and {line["attempt"] for line in lines} == {1}
    for line in lines:
        assert line["old_total"] == JUDGED[line["n"]] and line["R_if"] == pytest.approx(
            by_answer[line["n"]]["reward_if"]
        )
    assert all("Capitals" in body["messages"][1]["content"] for body in server.bodies)


def test_it_asks_first_and_nothing_is_asked_for_without_a_yes(tmp_path, rltui, monkeypatch):
    with ScriptedJudge().serving() as server:
        run = judged_by(server, tmp_path)
        arguments = ("rejudge", run, "--rubric", rubric(run))
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # no terminal
        code, _, err = rltui(*arguments)
        assert code == 2 and "give --yes" in err

        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        code, _, err = rltui(*arguments)
        assert code == 2 and "nothing was judged" in err and "Go on? [y/N]" in err
        assert server.bodies == [] and not list(run.glob("rejudge-*"))
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        code, out, _ = rltui(*arguments)
        assert code == 0 and "mean score 0.560 -> 0.750" in out and len(server.bodies) == 6


def test_a_second_time_only_what_failed_is_paid_for(tmp_path, rltui):
    with ScriptedJudge(
        lambda place, times: chat(scores(1, 0.5) if place < 5 or times > 3 else "I cannot say")
    ).serving() as server:
        run = judged_by(server, tmp_path)
        arguments = ("rejudge", run, "--rubric", rubric(run), "--yes", "--json")
        first = json.loads(rltui(*arguments)[1])
        assert (first["scored"], len(server.bodies)) == (5, 8)
        second = json.loads(rltui(*arguments)[1])
    assert (second["scored"], second["cached"], len(server.bodies)) == (6, 5, 9)


def test_rules_cost_nothing_and_are_not_asked_about(tmp_path, rltui):
    rules = [{"id": "even", "rule": {"kind": "regex", "value": "[024]$"}}]
    sets = [
        "judge.type=rule",
        "judge.options.rubric_overrides.outcome.criteria=[{ id = 'a', rule = { kind = 'exact', value = 'x' } }]",
    ]
    run = record_run(tmp_path / "rules-rl_00000000000000cc", *sets)
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"criteria": rules}))
    code, out, err = rltui("rejudge", run, "--rubric", file, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and [row["new"] for row in found["episodes"]] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert (found["cost_usd"], found["source"], found["tokens_in"]) == (0.0, "rule", 0)


def test_rules_on_a_run_without_a_judge_need_no_key(tmp_path, rltui, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"criteria": [{"id": "short", "rule": {"kind": "max_chars", "value": 60}}]}))
    run = record_run(tmp_path / "none-rl_00000000000000dd", "judge.enabled=false")
    code, out, err = rltui("rejudge", run, "--rubric", file, "--json")
    assert (code, err) == (0, "") and json.loads(out)["source"] == "rule"


@pytest.mark.parametrize(
    ("content", "says"),
    [("[outcome", "cannot be used"), ('{"outcome": {"criteria": []}}', "has no criteria"), (None, "No such file")],
)
def test_a_rubric_that_cannot_be_used_is_an_error_in_words(run, rltui, tmp_path, content, says):
    file = tmp_path / "broken.json"
    if content is not None:
        file.write_text(content)
    code, _, err = rltui("rejudge", run, "--rubric", file, "--yes")
    assert code == 2 and says in err and "Traceback" not in err
    assert not list(run.glob("rejudge-*"))
