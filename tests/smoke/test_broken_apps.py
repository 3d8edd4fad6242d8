"""Some sixty broken task apps: each fault is found by its stage, and named so that its author knows what to do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from rltui.smoke.stages import failures, groups, single
from tests.smoke.broken import APPS, KEY
from tests.smoke.broken.app import every_app
from tests.smoke.conftest import PATIENT_S, smoke, stage, verdicts

BEFORE = {"S01": "", "S02": "S01", "S03": "S01 S02", "S04": "S01 S02", "S05": "S01 S02", "S06": "S01 S02"}
BEFORE |= {"S07": "S01 S02", "S08": "S01 S02 S06 S07", "S09": "S01 S02 S07", "S10": "S01 S02 S06 S07 S09"}
BEFORE |= {"S11": "S01 S02 S07", "S13": "S01 S02 S07"}


@dataclass(frozen=True)
class Case:
    """words: that stand in the stage's message or fix. settings: other ones than those of every test."""

    app: str
    stage: str
    verdict: str
    words: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)


def case(app: str, stage: str, verdict: str, *words: str, **settings: Any) -> Case:
    return Case(app, stage, verdict, words, settings)


CASES = [
    # --- what the app says of itself, and whom it lets in
    case("health_fails", "S02", "fail", "GET /health answers 500"),
    case("health_is_a_page", "S02", "fail", "GET /health answers 200 with no JSON (text/html", "JSON object"),
    case("health_is_text", "S02", "fail", "200 with no JSON (text/plain"),
    case("health_has_wrong_type", "S02", "warn", "content type text/plain", "application/json"),
    case("health_says_no", "S02", "warn", "healthy: false"),
    case("refuses_the_right_key", "S02", "fail", "answers 401: the app rejected ENVIRONMENT_API_KEY", "set"),
    case("refuses_in_the_old_way", "S02", "fail", "answers 400: the app rejected ENVIRONMENT_API_KEY"),
    case("has_no_key", "S02", "fail", "503", "start it with ENVIRONMENT_API_KEY set"),
    case("has_no_task_info", "S02", "fail", "GET /task_info answers 404"),
    case("accepts_any_key", "S03", "warn", "GET /task_info is answered with a wrong key", "check the key"),
    case("refuses_with_the_key_in_it", "S03", "fail", "shows part of the right key", "out of every answer"),
    case("refuses_with_five_hundred", "S03", "warn", "with a wrong key answers 500", "401 or 403"),
    case("info_fails", "S04", "warn", "GET /info answers 500"),
    case("info_is_a_list", "S04", "warn", "GET /info answers no JSON object"),
    case(
        "plays_too_few_turns",
        "S04",
        "warn",
        "at most 2 turns, the config asks for 6",
        "rollout.max_turns",
        needed_turns=6,
    ),
    case("ignores_the_seed_list", "S05", "fail", "answers no list", "one TaskInfo for each seed"),
    case("describes_some_seeds", "S05", "warn", "4 seeds asked, 2 described", seeds=(0, 1, 2, 3)),
    case("describes_in_its_own_order", "S05", "fail", "seed 0 asked, seed 1 described", "order of the request"),
    case("task_info_takes_one_seed", "S05", "fail", "many seeds answers 500", "repeated for many"),
    case(
        "has_few_seeds",
        "S05",
        "fail",
        "data.seed_count is 100, the split train has 2",
        "seed_count = 2",
        seed_count=100,
    ),
    case("same_prompt_for_all_seeds", "S05", "warn", "all prompts are equal", "seed choose the task"),
    case("evaluation_is_training", "S05", "warn", "evaluation seeds 10, 11", evaluation_seeds=(10, 11)),
    case("has_another_name", "S05", "warn", "env_name is press, the app calls it push", env_name="press"),
    # --- the answer to an episode
    case("rollout_is_missing", "S07", "fail", "POST /rollout answered 404", "serve POST /rollout"),
    case("rollout_fails", "S07", "fail", "task app answered 500", "read the app's log"),
    case("rollout_needs_another_field", "S07", "fail", "scenario", "Field required"),
    case("redirects_elsewhere", "S07", "fail", "redirects to another address", "final address"),
    case("hangs", "S07", "fail", "no answer within 0.5 s", "in time", timeout_s=0.5),
    case("drips", "S07", "fail", "no answer within 0.5 s", timeout_s=0.5),
    case("never_ends", "S07", "fail", "the answer is too large: over 64 MiB"),
    case("breaks_off", "S07", "fail", "closed in mid-answer"),
    case("is_a_page", "S07", "fail", "not JSON (byte 0); its content type is text/html", "one JSON object"),
    case("is_nested", "S07", "fail", "not JSON"),
    case("has_wrong_type", "S07", "warn", "content type text/plain", "application/json"),
    case("is_huge", "S07", "warn", "10.0 MB", "leave out"),
    case("has_no_known_field", "S07", "fail", "none of the known fields", "trajectories"),
    case("has_no_reward", "S07", "fail", "no outcome reward", "metrics.outcome_reward"),
    case("reward_is_text", "S07", "fail", "the reward at metrics.outcome_reward is '1.0'", "finite JSON number"),
    case("reward_is_a_boolean", "S07", "fail", "the reward at metrics.outcome_reward is True"),
    case("reward_is_nan", "S07", "fail", "the reward at metrics.outcome_reward is nan"),
    case("step_reward_is_null", "S07", "fail", "the reward at steps[1].reward is 'high'"),
    case("has_two_trajectories", "S07", "fail", "2 trajectories in one answer", "exactly one entry"),
    case("has_two_returns", "S07", "warn", "more than one return", "one entry in episode_returns"),
    case("is_never_done", "S07", "warn", "neither done nor truncated", "steps[-1].done"),
    case("echoes_another_id", "S07", "fail", "belongs to episode episode-of-yesterday", "share nothing"),
    case("echoes_nothing", "S07", "warn", "does not echo the correlation id", "trace_correlation_id"),
    case("gave_up", "S07", "fail", "the app gave up: the simulator did not start"),
    case("counts_wrongly", "S07", "warn", "num_steps differs", "one step for each model call"),
    case("has_no_step", "S07", "fail", "the episode has no step", "play at least one step"),
    case("ignores_max_turns", "S07", "warn", "more model calls than max_turns", "env.config.max_turns"),
    case("is_slow", "S07", "warn", "the app itself takes ", "s a turn"),
    case("pays_nothing", "S09", "warn", "all 4 rewards are 0"),
    case("pays_too_much", "S09", "warn", "rewards lie outside 0 to 1"),
    # --- how it plays
    case("calls_a_vendor", "S07", "fail", "never called the given address", "policy.config.inference_url"),
    case("calls_a_vendor", "S08", "fail", "no model call came to the address", "not to an address of the app's own"),
    case("drops_the_query", "S07", "fail", "it had called /v1/chat/completions instead of the address"),
    case("drops_the_query", "S08", "fail", "without the query string", "keep ?cid="),
    case("appends_the_path_twice", "S08", "warn", "built wrongly", "append nothing"),
    case("keeps_the_first_address", "S08", "fail", "named another episode", "keep none from before"),
    case("rolls_dice", "S06", "fail", "the first observation", "env.seed alone decide"),
    case("rolls_rewards", "S06", "warn", "reward", "draw every random number"),
    case("ignores_the_seed", "S06", "warn", "give the same observations and rewards", "make env.seed choose"),
    case("shares_its_state", "S10", "fail", "no call under their own address", "state of an episode in its request"),
    case("shares_its_task", "S10", "fail", "began otherwise than when they were played alone", "not in the module"),
    case("plays_one_after_the_other", "S10", "warn", "one episode after the other", "async", concurrency=8),
    case("thinks_in_the_loop", "S10", "warn", "one episode after the other"),
    case("breaks_under_load", "S10", "fail", "at once excluded", "answered 500", "max_concurrent_rollouts"),
    case("rewrites_history", "S11", "warn", "message history was rewritten", "only append"),
    case("asks_for_other_sampling", "S11", "warn", "top_p", "temperature 0", "leave these out"),
    case("shows_pictures", "S11", "fail", "images in their prompts", "send text"),
    case("makes_rewards_up", "S13", "warn", "failed with 500, and the app reports the reward 0", "answer 502"),
    case("makes_rewards_up_in_time", "S13", "warn", "a model call hung, and the app reports a reward"),
    case("tells_the_key_in_errors", "S13", "fail", "error answers held a key", "leave secrets out"),
    case("echoes_the_headers", "S13", "fail", "answers held a key", "leave secrets out"),
    case("blocks_the_loop", "S13", "fail", "while a model call hangs, GET /health", "do not block the event loop"),
]
OTHERWISE = {"sound", "rollout_forbids_extra_fields", "health_hangs", "dies_in_an_episode"}  # tests of their own


class Served(contextlib.AbstractContextManager["Served"]):
    """A server in a thread: `url` once entered."""

    def __init__(self, **options: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "https" if "ssl_certfile" in options else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(
            every_app(), log_config=None, lifespan="off", timeout_graceful_shutdown=0, access_log=False, **options
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._listener.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def self_signed(tmp_path: Path) -> tuple[Path, Path]:
    """(key, certificate) of an address of our own."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return key, certificate


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, no_key: None, patient: None) -> None:
    monkeypatch.setenv("ENVIRONMENT_API_KEY", KEY)
    monkeypatch.setattr(failures, "HANG_S", 0.3)


@pytest.mark.parametrize("fault", CASES, ids=lambda fault: f"{fault.app}-{fault.stage}")
async def test_a_fault_is_named(served: Served, fault: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault.app in ("is_slow", "plays_one_after_the_other", "thinks_in_the_loop"):
        monkeypatch.setattr(groups, "SERIAL_FROM_S", 0.3)
        monkeypatch.setattr(single, "SLOW_TURN_S", 0.1)
    elif fault.app == "blocks_the_loop":
        monkeypatch.setattr(failures, "STILL_S", 0.3)
    elif fault.app == "makes_rewards_up_in_time":  # the app's own limit is the shorter one
        monkeypatch.setattr(failures, "HANG_S", PATIENT_S)
    only = {*BEFORE[fault.stage].split(), fault.stage}
    report, _ = await smoke(f"{served.url}/{fault.app}", only=only, **fault.settings)
    found = stage(report, fault.stage)
    assert found.verdict == fault.verdict, (verdicts(report), found.message)
    said = f"{found.message}. Fix: {found.fix}"
    assert [words for words in fault.words if words not in said] == [], said
    assert found.fix and (found.exchanges or fault.stage in ("S08", "S11"))  # which look at calls of stages before
    assert report.verdict == "not_ready" or fault.verdict == "warn"
    assert KEY not in repr(report)


def test_every_broken_app_has_its_case() -> None:
    assert {fault.app for fault in CASES} | OTHERWISE == set(APPS)
    assert len(APPS) > 60


async def test_a_sound_app_is_spoken_well_of(served: Served) -> None:
    settings = {"seeds": (0, 1, 2), "group_size": 4, "needed_turns": 6, "evaluation_seeds": (50, 51)}
    report, _ = await smoke(f"{served.url}/sound", **settings)
    spoken = {s.id: (s.verdict, s.message) for s in report.stages if s.verdict in ("warn", "fail")}
    assert spoken == {} and report.verdict == "ready"


async def test_an_app_that_forbids_extra_fields_is_played_without_them(served: Served) -> None:
    report, _ = await smoke(f"{served.url}/rollout_forbids_extra_fields", only={"S01", "S02", "S07"})
    found = stage(report, "S07")
    assert found.verdict == "ok"
    assert any("refuses extra fields" in note and "safety" in note for note in found.notes)


async def test_an_app_that_dies_in_an_episode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "dies_in_an_episode")
    report, _ = await smoke("tests/smoke/broken/own.py", only={"S01", "S02", "S06", "S07", "S08"})
    found = stage(report, "S07")
    assert found.verdict == "fail" and "the app has ended with status 7" in found.message
    assert "process ended" in found.fix and stage(report, "S08").verdict == "skipped"


async def test_a_certificate_that_nobody_signed_is_named(
    self_signed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = self_signed
    with Served(ssl_keyfile=str(key), ssl_certfile=str(certificate), ssl_version=ssl.PROTOCOL_TLS_SERVER) as server:
        report, _ = await smoke(f"{server.url}/sound", only={"S01"})
        monkeypatch.setenv("RLTUI_INSECURE_TLS", "1")
        unchecked, _ = await smoke(f"{server.url}/sound", only={"S01", "S02", "S07"})
    found = stage(report, "S01")
    assert found.verdict == "fail" and "RLTUI_INSECURE_TLS" in found.fix
    assert "a certificate that is not trusted (self-signed certificate)" in found.message
    assert set(verdicts(unchecked).values()) == {"ok"}


async def test_a_port_that_speaks_no_http_is_named() -> None:
    async def banner(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(banner, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        report, _ = await smoke(f"http://127.0.0.1:{port}", only={"S01"})
    found = stage(report, "S01")
    assert found.verdict == "fail" and "got no HTTP: the connection was closed" in found.message


@pytest.mark.slow
async def test_an_app_whose_health_hangs_is_named(served: Served) -> None:
    """Ten seconds, as a run would wait."""
    report, _ = await smoke(f"{served.url}/health_hangs", only={"S01", "S02"})
    found = stage(report, "S02")
    assert found.verdict == "fail" and "GET /health: no answer within 10 s" in found.message
