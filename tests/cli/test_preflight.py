"""`rltui preflight`: exit status, lines and the one object."""

from __future__ import annotations

import json

from rltui.cli.main import main
from rltui.preflight.table import CHECKS
from rltui.samples import samples
from tests.server.conftest import Server


def in_json(capsys, *arguments: str) -> tuple[int, dict]:
    code = main(["preflight", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_config_that_is_ready(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "my.toml").write_text(samples()["cpu_smoke"].read_text())
    code, data = in_json(capsys, "my.toml")
    checks = {check["id"]: check for check in data["checks"]}
    assert code == 0 and data["ok"] and data["schema"] == 1 and data["target"] == "local"
    assert list(checks) == [check.id for check in CHECKS]
    assert checks["task_app"]["verdict"] == "ok" and "mock episode" in checks["task_app"]["message"]
    assert checks["config"]["seconds"] > 0 and {check["verdict"] for check in data["checks"]} <= {"ok", "skipped"}


def test_exit_codes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "my.toml").write_text(samples()["cpu_smoke"].read_text())
    (tmp_path / "bad.toml").write_text("x = 1")
    assert main(["preflight", "bad.toml"]) == 2
    told = capsys.readouterr().out
    assert "FAIL  config" in told and told.endswith("not ready: config\n")
    assert main(["preflight", "my.toml", "--set", "services.task_url=no.py"]) == 3
    told = capsys.readouterr().out
    assert "FAIL  can start" in told and "fix:" in told and "not ready: can start" in told
    app = ("--set", "services.task_url=http://127.0.0.1:9")
    code, data = in_json(capsys, "my.toml", *app)
    failed = [check for check in data["checks"] if check["verdict"] == "fail"]
    assert code == 3 and [check["id"] for check in failed] == ["task_app"]
    assert failed[0]["key"] == "services.task_url" and failed[0]["fix"] and failed[0]["tried"]


def test_strict_minds_warnings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(samples()["cpu_smoke"].read_text())
    dropout = ("--set", "training.lora.dropout=0.1")
    assert main(["preflight", "my.toml", *dropout]) == 0
    assert "ready, with warnings: config" in capsys.readouterr().out
    assert main(["preflight", "my.toml", *dropout, "--strict"]) == 1


def test_what_a_server_refuses_is_not_ready_and_what_was_not_seen_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("RLTUI_API_KEY", "SYNTH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "my.toml").write_text(samples()["cpu_smoke"].read_text())
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        asked = ("preflight", "my.toml", "--target", server.url)
        assert main([*asked, "--set", "services.task_url=mine.py"]) == 3
        told = capsys.readouterr().out
        assert "FAIL  target" in told and "--allow-code" in told and "not ready" in told
        assert main([*asked]) == 0
        told = capsys.readouterr().out
        assert "memory" in told.partition("not looked at: ")[2] and told.endswith(
            "as far as it can be seen from here\n"
        )
    finally:
        server.stop()
