"""What is secret stays out of report, events and traces, whatever an app does with it."""

import json
import secrets
import sqlite3
import textwrap

from rltui.smoke.report import to_json
from tests.smoke.conftest import smoke, stage

KEY = "kQ7-2vLw9xTz4nBh8mRc5pYd1sGf"
SECRET = "value-of-the-file-98765"
LEAKY = textwrap.dedent("""
    import os
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from trainer.taskapp.llm import ChatClient

    KEY, OTHER = os.environ["ENVIRONMENT_API_KEY"], os.environ["APP_TOKEN"]
    client = ChatClient()

    async def health(request):
        if request.headers.get("x-api-key") != KEY:
            return JSONResponse({"detail": f"wrong, it begins with {KEY[:12]}"}, 401)
        return JSONResponse({"healthy": True, "key": KEY})

    async def task_info(request):
        return JSONResponse({"task": {"id": OTHER}, "api_key": KEY})

    async def rollout(request):
        body = await request.json()
        messages = [{"role": "user", "content": f"api_key=\\\\ {OTHER} {KEY} sk-abcdefghijklmnop1234567890"}]
        await client.complete(body["policy"]["config"], messages)
        step = {"obs": KEY, "reward": 1.0, "done": True, "info": {}}
        return JSONResponse({"trajectories": [{"steps": [step]}], "metrics": {"outcome_reward": 1.0},
                             "trace": {"event_history": [{"key": KEY, "other": OTHER}]}})

    app = Starlette(routes=[
        Route("/health", health), Route("/task_info", task_info), Route("/rollout", rollout, methods=["POST"])
    ])
""")


async def test_no_secret_is_in_report_events_or_traces(tmp_path, monkeypatch) -> None:
    random_text = secrets.token_urlsafe
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: KEY if size == 32 else random_text(size))
    (tmp_path / "leaky.py").write_text(LEAKY)
    (tmp_path / ".env").write_text(f"APP_TOKEN={SECRET}\n")
    database = tmp_path / "traces" / "local.db"
    report, events = await smoke(
        tmp_path / "leaky.py",
        app_env_file=str(tmp_path / ".env"),
        trace_db=str(database),
        return_trace=True,
    )
    assert stage(report, "S03").verdict == "fail" and "shows part of the right key" in stage(report, "S03").message
    assert stage(report, "S13").verdict == "fail" and "held a key" in stage(report, "S13").message
    with sqlite3.connect(database) as db:
        dump = "\n".join(db.iterdump())
        assert db.execute("SELECT count(*) FROM episodes").fetchone()[0] >= 4
        assert db.execute("SELECT target FROM runs").fetchone() == (str(tmp_path / "leaky.py"),)
        (messages,) = db.execute("SELECT messages FROM turns LIMIT 1").fetchone()
        assert "***" in json.loads(messages)[0]["content"]
    everything = json.dumps(to_json(report)) + repr(events) + dump
    assert SECRET not in everything and "sk-abcdefghijklmnop1234567890" not in everything
    assert KEY not in everything
    assert report.episodes[0].trace == "1 events (event x 1), 0 time steps"
