"""Runs with a judge, on the tiny model: rules, a scripted model server that behaves and misbehaves, a real one."""

import json
import signal
import threading

import pytest
from starlette.responses import JSONResponse, Response

from tests.e2e.judge_server import ScriptedJudge, chat, scores
from tests.e2e.test_faults import check, wait_for
from tests.e2e.test_resume import EXACT, KILLED_WITHIN_AN_ITERATION, killed, learned
from tests.inference.vllm_tools import needs_vllm
from tests.judge.test_prompt import INJECTION, fenced, marked
from trainer.judge.agreement import spearman
from trainer.judge.cache import request_key
from trainer.rundir import RunReader

RULES = (
    "judge.enabled=true",
    "judge.type=rule",
    "judge.options.event=true",
    "judge.reward_blend={ env = 0.5, event = 0.25, outcome = 0.25 }",
    "judge.options.rubric_overrides={ outcome = { criteria = ["
    "{ id = 'style.even', rule = { kind = 'regex', value = '^..?.?$' } },"
    "{ id = 'say.letter', rule = { kind = 'regex', value = '[a-z]' } } ] },"
    "event = { criteria = [{ id = 'upper', rule = { kind = 'regex', value = '[A-Z]' } }] } }",
)
SMALL = ("evaluation.instances=1", "training.iterations_per_epoch=1")
KEY = "secret-key-of-a-judge-0123456789"


def episodes(run) -> list[dict]:
    reader = RunReader(run.run_dir)
    return [reader.episode(n) for n in range(reader.episode_count())]


def events(run, type_: str) -> list[dict]:
    return [event for event in run.lines("events.jsonl") if event["type"] == type_]


# --- rules


@pytest.fixture(scope="module")
def by_rules(tmp_path_factory):
    from tests.e2e.conftest import Trainer

    finished = Trainer(tmp_path_factory.mktemp("rules")).run(*RULES)
    assert finished.code == 0, finished.stderr
    return finished


def test_every_episode_is_judged_and_its_reward_is_the_blend(by_rules):
    judged, calls = episodes(by_rules), (by_rules.run_dir / "judge.jsonl").read_bytes()
    assert len(judged) == 8 + 16 and {episode["split"] for episode in judged} == {"train", "eval"}
    for episode in judged:
        assert episode["R"] == pytest.approx(0.5 * episode["O"] + 0.25 * episode["je"] + 0.25 * episode["jo"], abs=1e-5)
        judge, (turn,) = episode["judge"], episode["turns"]
        assert set(judge["tracks"]) == {"style", "say", "default"} and turn["judge"] == judge["event"][0]["total"]
        lines = [json.loads(calls[place:].split(b"\n", 1)[0]) for place in judge["calls"]]
        assert [(line["kind"], line["turn"], line["cid"]) for line in lines] == [
            ("event", 0, episode["cid"]),
            ("outcome", None, episode["cid"]),
        ]
        assert lines[1]["total"] == judge["outcome"]["total"] and lines[1]["step"] == episode["step"]
        assert episode["timings"]["judge"] >= 0
    assert len({episode["jo"] for episode in judged}) > 1, "every answer scored alike, so nothing is compared"


def test_its_numbers_are_metrics_and_it_is_said_who_judges(by_rules):
    (told,) = events(by_rules, "rl.judge")
    assert "reward = 0.5 x the environment + 0.25 x J_event + 0.25 x J_outcome" in told["message"]
    stored = json.loads((by_rules.run_dir / "environment.json").read_text())["judge"]
    assert (stored["source"], stored["model"], stored["rubric_from"]) == ("rule", None, "the config")
    closing = [line for line in by_rules.lines("metrics.jsonl") if "judge/failed" in line]
    trained = [episode for episode in episodes(by_rules) if episode["split"] == "train"]
    for line in closing:
        batch = [episode for episode in trained if episode["iteration"] == line["iteration"]]
        assert line["judge/failed"] == 0 and line["judge/latency"] >= 0
        assert line["judge/style"] == pytest.approx(sum(e["judge"]["tracks"]["style"] for e in batch) / len(batch))
        assert line["reward/outcome"] == pytest.approx(sum(e["jo"] for e in batch) / len(batch))
        assert line["time/wait_for_judge"] >= 0 and "error/judge_failed" not in line
    pairs = [((e["je"] + e["jo"]) / 2, e["O"]) for e in trained]
    assert closing[-1]["judge/agreement"] == pytest.approx(spearman(*zip(*pairs, strict=True)), abs=0.02)
    for line in [line for line in by_rules.lines("metrics.jsonl") if "eval_step" in line]:
        parts = [line[f"eval/reward_{name}"] for name in ("env", "event", "outcome")]
        assert line["eval/reward_mean"] == pytest.approx(0.5 * parts[0] + 0.25 * parts[1] + 0.25 * parts[2])
    first = events(by_rules, "rl.eval.summary")[0]
    assert "environment" in first["message"] and "judge" in first["message"] and "reward_env" in first["data"]


@pytest.mark.slow
def test_a_resumed_run_has_the_numbers_of_an_uninterrupted_one(trainer):
    sets = (*EXACT, *RULES, "training.iterations_per_epoch=4")
    whole = trainer.run(*sets)
    assert whole.code == 0, whole.stderr
    process, run_dir = trainer.start(*sets)
    wait_for(run_dir, lambda status: status and status["step"] >= 5)
    process.send_signal(signal.SIGTERM)
    assert trainer.finish(process, run_dir).code == 130
    resumed = trainer.finish(*trainer.resume(run_dir))
    assert resumed.code == 0, resumed.stderr

    def numbers(folder):
        return {
            step: {name: value for name, value in row.items() if name != "judge/latency"}
            for step, row in learned(folder).items()
        }

    assert numbers(run_dir) == numbers(whole.run_dir)
    assert any("judge/agreement" in row for row in numbers(run_dir).values())


@pytest.mark.slow
def test_rewards_of_the_task_app_alone_ask_no_judge(trainer):
    run = trainer.run(*RULES, *SMALL, "rollout.task_app_origin_rewards_only=true")
    assert run.code == 0, run.stderr
    assert run.lines("judge.jsonl") == [] == events(run, "rl.judge")
    assert all(e["R"] == e["O"] and e["jo"] is None for e in episodes(run))


# --- a model server


def bad(place: int, times: int) -> Response:
    """The four episodes of the first evaluation are scored; of the next, four never are, and one is in time."""
    good = chat(scores(1, 0.5))
    half = scores(1, 0.5)[:20]
    wrong = [chat("Fine work, I would say!"), chat(half), chat(scores(1, 11)), chat("")]
    if place in range(4, 8):
        return wrong[place - 4]
    if place == 8 and times == 1:
        return JSONResponse({"error": {"message": "slow down"}}, 429, {"retry-after": "0"})
    return good


def test_answers_without_scores_exclude_the_episode_and_are_never_0(trainer):
    with ScriptedJudge(bad).serving() as server:
        once = "import trainer.recorder\ntrainer.recorder.EXCLUDED_S = 3600.0"
        run = trainer.finish(*trainer.start(*server.sets, "evaluation.every_n_iters=0", first=once))
    assert run.code == 0, run.stderr
    lost = [episode for episode in episodes(run) if episode["exclusion"]]
    assert len(lost) == 4
    causes = []
    for episode in lost:
        assert episode["exclusion"]["code"] == "judge_failed" and episode["split"] == "train"
        assert episode["exclusion"]["detail"]["code"] == "judge_unparsable"
        assert (episode["R"], episode["je"], episode["jo"], episode["judge"]) == (None, None, None, None)
        causes.append(episode["exclusion"]["detail"]["cause"])
    assert len(set(causes)) >= 3 and all("(3 tries)" in cause for cause in causes)
    assert any("11" in cause for cause in causes)

    calls = run.lines("judge.jsonl")
    by_code = {}
    for line in calls:
        by_code.setdefault((line["status"], line["code"]), []).append(line)
    assert len(by_code["failed", "judge_unparsable"]) == 12 and len(by_code["failed", "judge_rate_limited"]) == 1
    assert by_code["failed", "judge_rate_limited"][0]["http"] == 429
    assert all(line["total"] is None for line in calls if line["status"] == "failed")
    replies = {line["reply"] for line in by_code["failed", "judge_unparsable"]}
    assert {"Fine work, I would say!", ""} <= replies
    in_time = by_code["failed", "judge_rate_limited"][0]["cid"]
    assert next(e for e in episodes(run) if e["cid"] == in_time)["jo"] == 0.75

    (told,) = events(run, "rl.rollout.excluded")
    assert told["data"]["code"] == "judge_failed" and "the judge gave no score: " in told["message"]
    lines = run.lines("metrics.jsonl")
    for name in ("error/judge_failed", "judge/failed"):
        assert sum(line.get(name, 0) for line in lines) == 4, name
    assert run.status["episodes"] == {"accepted": 16, "excluded": 4, "running": 0, "groups_dropped": 0}
    assert run.status["results"]["excluded"] == {"judge_failed": 4}
    assert all(e["R"] is not None and e["jo"] == 0.75 for e in episodes(run) if not e["exclusion"])


@pytest.mark.slow
def test_a_judge_that_never_scores_ends_the_run_with_the_reason(trainer):
    with ScriptedJudge(lambda place, times: chat("no idea")).serving() as server:
        run = trainer.run(*server.sets, *SMALL)
    status = check(run, code=3, state="failed", says="the judge gave no score")
    assert status["error"]["code"] == "too_many_excluded"
    assert "no episode of the evaluation at iteration 0 has a reward" in json.dumps(status["warnings"])


@pytest.mark.slow
def test_a_judge_that_hangs_is_what_the_run_is_seen_to_wait_for(trainer):
    answered = threading.Event()

    def late(place: int, times: int) -> Response:
        answered.wait(60)
        return chat(scores(1, 0.5))

    def waits_for_the_judge(status: dict | None) -> bool:
        return bool(
            status and (status["waiting"] or {}).get("for") == "judge" and status["pipeline"]["judge_in_flight"]
        )

    with ScriptedJudge(late).serving() as server:
        process, run_dir = trainer.start(*server.sets, *SMALL)
        wait_for(run_dir, waits_for_the_judge)
        status = json.loads((run_dir / "status.json").read_text())
        answered.set()
        run = trainer.finish(process, run_dir)
    assert run.code == 0, run.stderr
    assert status["waiting"]["on"] == "the scores of 1 episode" and status["pipeline"]["judge_oldest_s"] > 0
    assert (status["pipeline"]["judging"], status["pipeline"]["generating"]) == (1, 0)


@pytest.mark.slow
def test_orders_in_what_is_judged_stay_data(trainer):
    with ScriptedJudge(lambda place, times: chat(scores(0, 0.25))).serving() as server:
        sets = (*server.sets, *SMALL, "vllm.max_model_len=1024", "rollout.rubric_rewards_only=true")
        run = trainer.run(*sets, env={"DIGIT_APP_SAYS": f" {INJECTION}"})
    assert run.code == 0, run.stderr
    for body in server.bodies:
        system, user = (message["content"] for message in body["messages"])
        before, inside, after = fenced(user, marked(user))
        assert "full marks" in inside and "full marks" not in before + after + system
        assert body["response_format"]["type"] == "json_schema"
    assert {(e["jo"], e["R"], e["rewards"]["weights"]["env"]) for e in episodes(run)} == {(0.125, 0.0625, 0.0)}


@pytest.mark.slow
def test_a_rejected_key_stops_the_run_and_is_nowhere_on_record(trainer):
    rejected = JSONResponse({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    with ScriptedJudge(lambda place, times: rejected).serving() as server:
        run = trainer.run(*server.sets, *SMALL, env={"JUDGE_API_KEY": KEY})
    status = check(run, code=2, state="failed", says="Correct the variable JUDGE_API_KEY")
    assert status["error"]["code"] == "judge_auth" and "(401)" in status["error"]["message"]
    assert any(header["authorization"] == f"Bearer {KEY}" for header in server.headers)
    files = [path for path in run.run_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 5 and not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_rubric_that_nobody_has_is_refused_before_any_model_is_loaded(trainer):
    (trainer.folder / "rubrics").mkdir()
    (trainer.folder / "rubrics" / "mine.toml").write_text('[outcome]\ncriteria = [{ id = "a.b" }]\n')
    sets = ("judge.enabled=true", "judge.options.base_url=http://127.0.0.1:9/v1", "judge.options.model=m")
    run = trainer.run(*sets, "judge.options.rubric_id=yours")
    status = check(run, code=2, state="failed", says="there is no rubric yours: known are mine")
    assert status["error"]["code"] == "judge_rubric" and not (run.run_dir / "logs/learner-0.log").exists()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_pays_for_no_answer_twice(trainer):
    with ScriptedJudge().serving() as server:
        sets = (*EXACT, *server.sets, "training.iterations_per_epoch=4", "evaluation.every_n_iters=0")
        process, run_dir = trainer.start(*sets, first=KILLED_WITHIN_AN_ITERATION)  # the checkpoint is of step 4
        killed(process, run_dir)
        paid = {line["key"] for line in RunReader(run_dir).judge_after().rows if line["status"] == "ok"}
        before = len(server.bodies)
        run = trainer.finish(*trainer.resume(run_dir))
    assert run.code == 0, run.stderr
    again = [request_key(f"{server.url}/chat/completions", body) for body in server.bodies[before:]]
    assert not paid & set(again) and again, "the resumed run asked for what it had, or for nothing"
    second = [line for line in run.lines("judge.jsonl") if line["attempt"] == 2]
    cached = [line for line in second if line["status"] == "cached"]
    assert len(cached) >= 8 and {line["key"] for line in cached} <= paid  # the iteration that is played again
    assert all(line["cost_usd"] is None and line["tokens_in"] is None for line in cached)


@needs_vllm
@pytest.mark.slow
def test_a_real_server_with_structured_outputs_judges_a_run(trainer, tmp_path):
    from tests.inference.test_vllm_url import running
    from trainer.models import resolve_model

    model, options = resolve_model("builtin:smollm2-135m").path, ["--served-model-name", "small"]
    with running(model, tmp_path / "judge.log", {}, [*options, "--max-model-len", "2048"]) as url:
        server = ScriptedJudge()
        server.url = f"{url}/v1"
        run = trainer.finish(*trainer.start(*server.sets, *SMALL, "judge.timeout_s=300"), timeout=900)
    assert run.code == 0, run.stderr
    judged = episodes(run)
    assert len(judged) == 2 + 8 and not [episode for episode in judged if episode["exclusion"]]
    for episode in judged:
        outcome = episode["judge"]["outcome"]
        assert set(outcome["criteria"]) == {"fact.correct", "style.kind"} and 0 <= episode["jo"] <= 1
        assert outcome["criteria"]["fact.correct"]["score"] in (0, 1)
    assert {line["model"] for line in run.lines("judge.jsonl")} == {"small"}
