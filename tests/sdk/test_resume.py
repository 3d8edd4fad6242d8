"""A job of the documented flow that goes on: its task app wants a key, and no server keeps one."""

from __future__ import annotations

import pytest

from rltui import InProcessTaskApp, RLJob
from rltui.backend import Backend, BackendError
from rltui.server.tomltext import to_toml
from tests.e2e import digit_app
from tests.server.conftest import CONFIG, Server
from tests.waiting import free_port


@pytest.mark.slow
async def test_a_job_whose_task_app_has_a_key_goes_on_with_it_and_not_without(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text(to_toml({**CONFIG, "rollout": {**CONFIG["rollout"], "env_name": "digit"}}))
    server = Server(tmp_path)
    try:
        app = InProcessTaskApp(task_app_path=digit_app.__file__, port=free_port(), tunnel_mode="local")
        async with app as task_app:
            job = RLJob.from_config(config, server.url, task_app_url=task_app.url)
            job.submit()
            first = await job.wait(interval=0.5)
            assert (first["status"], first["attempt"]) == ("succeeded", 1), first["error"]
            more = {"training.iterations_per_epoch": 4}
            assert first["results"]["checkpoints"] == first["checkpoints"] == _short(job.checkpoints())

            with Backend(server.url) as without_key, pytest.raises(BackendError, match="send it again") as refused:
                without_key.post(f"/rl/jobs/{job.job_id}/resume", {"overrides": more})
            assert (refused.value.status, refused.value.code) == (422, "task_app_key")
            assert job.get_status()["attempt"] == 1  # and nothing was started

            again = RLJob.from_job_id(job.job_id, server.url)  # another program: the key is in its environment
            again.resume(overrides=more)
            last = await again.wait(interval=0.5)
            assert (last["status"], last["attempt"]) == ("succeeded", 2), last["error"]
            assert last["progress"]["completed"] == 4
    finally:
        server.stop()


def _short(checkpoints):
    return [{name: one[name] for name in ("step", "iteration", "path")} for one in checkpoints]
