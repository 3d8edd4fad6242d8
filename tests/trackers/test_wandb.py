"""What W&B keeps for `wandb sync` when there is no login, read back record by record."""

import json
import struct

import pytest

pytest.importorskip("wandb", reason="wandb is not installed: pip install 'rltui[wandb]'")

BLOCK, HEADER = 32_768, 7


def records(path):
    """The records of a .wandb file: LevelDB's log format (7 bytes a fragment: crc, length, type) after 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = path.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last fragment
            yield Record.FromString(whole)
            whole = b""


def test_offline_data_hold_rows_config_tags_and_the_run(facts, tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    from trainer.trackers.wandb import WeightsAndBiases

    tracker = WeightsAndBiases(facts(), "my-project")
    tracker.row(2, {"reward/mean": 0.5})
    tracker.row(0, {"eval/reward_mean": 0.125})
    tracker.close()
    [path] = (tmp_path / "wandb").glob("offline-run-*/run-rl_0.wandb")
    found = list(records(path))
    run = next(record.run for record in found if record.WhichOneof("record_type") == "run")
    assert (run.project, run.run_id, run.display_name, list(run.tags)) == (
        "my-project", "rl_0", "demo-rl_0", ["team=mine"],
    )  # fmt: skip
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["training"] == {"group_size": 4} and config["tags"] == {"team": "mine"}
    rows = [
        {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
        for record in found
        if record.WhichOneof("record_type") == "history"
    ]
    wanted = ("step", "reward/mean", "eval/reward_mean")
    assert [{name: row[name] for name in wanted if name in row} for row in rows] == [
        {"step": 2, "reward/mean": 0.5},
        {"step": 0, "eval/reward_mean": 0.125},
    ]
