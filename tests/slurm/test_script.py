"""The batch script, as a function of a job and what its config asks for, and run by a real bash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rltui.launch.base import Job, LaunchError
from rltui.launch.slurm_script import NO_FOLDER, SCRIPT, Request, script

JOB = Job(Path("/home/me/run.toml"), Path("/shared/runs/demo-rl_1"), "rl_1", ("training.batch_size=4",))


def lines(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_a_plain_job_is_one_node_that_is_requeued_and_gets_notice():
    assert lines(script(JOB, Request())) == [
        "--job-name=demo-rl_1",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--output=/shared/runs/demo-rl_1/logs/slurm.log",
        "--open-mode=append",
        "--export=ALL",
        "--requeue",
        "--signal=B:TERM@120",
    ]


def test_gpus_are_asked_for_node_by_node_and_by_type():
    assert "--gpus-per-node=8" in lines(script(JOB, Request(nodes=2, gpus=16)))
    assert "--gpus-per-node=h100:3" in lines(script(JOB, Request(nodes=2, gpus=5, gpu_type="H100")))


def test_options_of_the_config_take_the_place_of_ours():
    options = {"gres": "gpu:a100:4", "signal": "B:TERM@30", "requeue": False, "cpus_per_task": 8, "comment": "it's me"}
    found = lines(script(JOB, Request(gpus=4, options=options)))
    assert {"--gres=gpu:a100:4", "--signal=B:TERM@30", "--cpus-per-task=8"} <= set(found)
    assert not [line for line in found if line.startswith(("--requeue", "--gpus", "--signal=B:TERM@120"))]
    assert "--comment='it'\"'\"'s me'" in found


@pytest.mark.parametrize("options", [{"partition": "a\n#SBATCH --uid=0"}, {"x; reboot": 1}, {"--time": "1"}])
def test_an_option_that_would_be_another_line_is_refused(options):
    with pytest.raises(LaunchError, match="launcher_options") as caught:
        script(JOB, Request(options=options))
    assert caught.value.refused


def test_lines_of_setup_come_before_the_start():
    text = script(JOB, Request(options={"setup": "module load cuda\nexport A=1"}))
    assert "\nmodule load cuda\nexport A=1\n" in text
    assert text.index("module load") < text.index("trainer run")
    assert not any("setup" in line for line in lines(text))


def test_no_value_of_the_environment_is_written():
    secret = Job(JOB.config, JOB.run_dir, "rl_1", environ={"ENVIRONMENT_API_KEY": "sesame", "PYTHONPATH": "/x"})
    assert "sesame" not in script(secret, Request())


STANDIN = """#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> "$CALLS"
[ "$name" != squeue ] || echo RUNNING
"""


class Scripted:
    """A script whose coordinator, and Slurm's commands, are stand-ins that tell how they were called."""

    def __init__(self, folder: Path, *, resume: bool = False, attempt: int = 1) -> None:
        self.run, self.calls = folder / "a run", folder / "calls"
        (self.run / "logs").mkdir(parents=True)
        (self.run / SCRIPT).touch()
        for name in ("srun", "squeue", "scontrol"):
            (folder / name).write_text(STANDIN)
            (folder / name).chmod(0o755)
        job = Job(folder / "my run.toml", self.run, "rl_1", ("a.b=1",), resume=resume)
        text = script(job, Request(), attempt=attempt, folder=folder)
        self.text = text.replace(f"{sys.executable} -P -m trainer run", str(folder / "trainer"))
        self.folder = folder
        self.coordinator("exit 0")

    def coordinator(self, does: str) -> None:
        path = self.folder / "trainer"
        path.write_text(f'#!/bin/bash\necho "trainer $*" >> "$CALLS"\n{does}\n')
        path.chmod(0o755)

    def start(self) -> tuple[int, list[str]]:
        self.calls.write_text("")
        env = {
            **os.environ,
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "SLURM_JOB_ID": "17",
            "SLURMD_NODENAME": "n1",
        }
        done = subprocess.run(["bash"], input=self.text, text=True, env=env, capture_output=True, timeout=120)
        return done.returncode, self.calls.read_text().splitlines()


def called(calls: list[str], name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in calls if line.startswith(f"{name} ")]


def test_the_first_start_begins_the_run_and_a_later_one_goes_on(tmp_path):
    job = Scripted(tmp_path)
    begin = f"{tmp_path}/my run.toml --run-dir {job.run} --job-id rl_1 --set a.b=1"
    go_on = f"{job.run}/config.toml --run-dir {job.run} --resume --or-anew --take-over"
    code, calls = job.start()
    assert (code, called(calls, "trainer")) == (0, [begin])
    (job.run / "status.json").write_text('{"schema":1,"attempt":1,"state":"queued"}')
    assert called(job.start()[1], "trainer") == [begin]  # it never came to begin
    (job.run / "status.json").write_text('{"schema":1,"attempt":1,"state":"running"}')
    assert called(job.start()[1], "trainer") == [go_on]


def test_a_resumed_run_begins_its_attempt_and_then_goes_on_by_the_same_config(tmp_path):
    job = Scripted(tmp_path, resume=True, attempt=3)
    (job.run / "status.json").write_text('{"schema":1,"attempt":2,"state":"cancelled"}')
    [begin] = called(job.start()[1], "trainer")
    assert begin.endswith("--set a.b=1 --resume")
    (job.run / "status.json").write_text('{"schema":1,"attempt":3,"state":"running"}')
    [go_on] = called(job.start()[1], "trainer")
    assert go_on == f"{tmp_path}/my run.toml --run-dir {job.run} --resume --or-anew --take-over"


@pytest.mark.parametrize(
    ("status", "code", "requeued"),
    [
        ('"end_reason":"preempted"', 130, True),
        ('"end_reason":"stopped"', 130, False),  # somebody wanted it to end
        ('"end_reason":"preempted"', 2, False),  # of an earlier attempt; this one was refused
        ('"end_reason":"completed"', 0, False),
        ("", 143, True),  # the notice came while it still loaded
    ],
)
def test_only_a_preempted_run_goes_back_into_the_queue(tmp_path, status, code, requeued):
    job = Scripted(tmp_path)
    job.coordinator(f"echo '{{{status}}}' > '{job.run}/status.json'; exit {code}")
    done, calls = job.start()
    assert done == code
    assert called(calls, "scontrol") == (["requeue 17"] if requeued else [])


def test_a_notice_is_passed_on_and_the_end_awaited(tmp_path):
    job = Scripted(tmp_path)
    job.coordinator(
        f'trap \'echo "{{\\"end_reason\\":\\"preempted\\"}}" > "{job.run}/status.json"; exit 130\' TERM\n'
        "kill -TERM $PPID; for i in $(seq 1200); do sleep 0.05; done"
    )
    code, calls = job.start()
    assert (code, called(calls, "scontrol")) == (130, ["requeue 17"])


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path):
    job = Scripted(tmp_path)
    (job.run / SCRIPT).unlink()
    assert job.start() == (NO_FOLDER, [])
