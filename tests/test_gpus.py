"""What nvidia-smi says, from recorded output, and how it comes into the record of a run."""

import asyncio
import subprocess
from types import SimpleNamespace

import pytest

from tests.sim.world import config
from tests.test_devices import loaded
from trainer.gpus import Gpus, metrics, parse, roles
from trainer.recorder import Recorder
from trainer.rundir import RunWriter
from trainer.rundir.reader import RunReader
from trainer.supervisor import Supervisor

TABLE = """\
0, GPU-5a1c0f5e-2d0e-7c1b-9a51-0c6a3a1f7d11, 92, 62464, 81559
1, GPU-1f4f8f3b-93c8-3a8d-a7b5-1b2e0d5c9e22, 78, 71680, 81559
2, GPU-77777777-93c8-3a8d-a7b5-1b2e0d5c9e33, 0, 3, 81559
"""
MIG = "0, GPU-5a1c0f5e-2d0e-7c1b-9a51-0c6a3a1f7d11, [N/A], 62464, 81559\n"


def test_only_gpus_of_the_run_count_each_with_who_is_on_it():
    who = roles(loaded(2).config, {})
    assert who == {"0": "learner", "1": "inference"}
    found = parse(TABLE, who)
    assert [(gpu.index, gpu.role, gpu.util) for gpu in found] == [(0, "learner", 0.92), (1, "inference", 0.78)]
    assert found[0].used_bytes == 62464 * 2**20 and found[0].total_bytes == 81559 * 2**20
    assert metrics(found) == pytest.approx(
        {
            "system/gpu_util": 0.85,
            "system/gpu_mem": 71680 / 81559,
            "system/gpu_util_0": 0.92,
            "system/gpu_util_1": 0.78,
            "system/gpu_mem_0": 62464 / 81559,
            "system/gpu_mem_1": 71680 / 81559,
        }
    )


def test_a_shared_gpu_named_by_uuid_and_one_that_does_not_tell_its_use():
    who = roles(loaded(1).config, {"CUDA_VISIBLE_DEVICES": "GPU-5a1c"})
    (gpu,) = parse(MIG, who)
    assert (gpu.role, gpu.util) == ("inference, learner", None)
    assert metrics([gpu]) == pytest.approx({"system/gpu_mem": 62464 / 81559})


@pytest.mark.parametrize("error", [FileNotFoundError("nvidia-smi"), subprocess.TimeoutExpired("nvidia-smi", 8)])
def test_a_driver_that_does_not_answer_gives_nothing(error):
    def ask() -> str:
        raise error

    assert Gpus(loaded(1).config, {}, ask).read() == []
    assert Gpus(loaded(0).config, {}, ask).read() == []  # on a CPU nobody is asked


async def test_samples_stand_in_status_and_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.supervisor.SYSTEM_S", 0.0)
    monkeypatch.setattr("trainer.supervisor.CONTROL_S", 0.005)
    sizes = config(
        rollout__episodes_per_batch=4, training__batch_size=4, training__group_size=4, training__iterations_per_epoch=2
    )
    room = SimpleNamespace(look=lambda: None)
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        recorder = Recorder(writer, sizes.derived, sizes.config)
        gpus = Gpus(loaded(2).config, {}, lambda: TABLE)
        beside = asyncio.ensure_future(Supervisor(recorder, list, dict, room, gpus).run())
        async with asyncio.timeout(60):
            while "system/gpu_util" not in writer.document.latest:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        beside.cancel()
        writer.status()
    reader = RunReader(tmp_path / "run")
    assert reader.metrics()[-1]["system/gpu_util_1"] == 0.78
    assert [gpu["role"] for gpu in reader.status()["pipeline"]["gpus"]] == ["learner", "inference"]
