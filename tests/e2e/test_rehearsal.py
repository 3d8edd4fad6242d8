"""A run that rehearses its longest micro-batch, as it does on a GPU, and the same on the CPU without."""

from __future__ import annotations

import json

import pytest

from trainer.rundir import RunReader

# What a run on one GPU does: it rehearses, and the engine, which would be asleep in a step, comes after it.
ON_A_GPU = """
import sys
import trainer.attempt, trainer.services
from trainer.inference.local import LocalEngine
from trainer.learner.client import LearnerProcess
trainer.services.REHEARSE_ON += ("cpu",)
settings = trainer.attempt.learner_settings
def shared(*args):
    made = settings(*args)
    made.shares_gpu = True
    return made
trainer.attempt.learner_settings = shared
def told(method, words, after):
    async def wrapped(*args):
        if not after: print(words, file=sys.stderr)
        result = await method(*args)
        if after: print(words, file=sys.stderr)
        return result
    return wrapped
LearnerProcess.rehearse = told(LearnerProcess.rehearse, "rehearsed", True)
LocalEngine.start = told(LocalEngine.start, "the engine starts", False)
"""
OUT_OF_MEMORY = """
program = "import runpy, torch, trainer.learner.learner as l\\n" \\
    "def full(*_, **__): raise torch.OutOfMemoryError('CUDA out of memory')\\n" \\
    "l.Learner._forward_backward = full\\n" \\
    "runpy.run_module('trainer.learner', run_name='__main__')"
words = LearnerProcess._rank_words
LearnerProcess._rank_words = lambda self, *args: ["-c", program, *words(self, *args)[2:]]
"""
SETS = ("training.deterministic=true", "evaluation.instances=1")


@pytest.mark.slow
def test_a_run_that_rehearses_is_the_run_that_does_not_and_says_what_it_took(trainer):
    rehearsed = trainer.finish(*trainer.start(*SETS, first=ON_A_GPU))
    plain = trainer.run(*SETS)
    assert rehearsed.code == plain.code == 0, rehearsed.stderr + plain.stderr
    assert rehearsed.stderr.index("rehearsed") < rehearsed.stderr.index("the engine starts")
    weights = "checkpoints/step_2/model.safetensors"
    assert (rehearsed.run_dir / weights).read_bytes() == (plain.run_dir / weights).read_bytes()
    found, without = (json.loads((run.run_dir / "environment.json").read_text()) for run in (rehearsed, plain))
    assert found["rehearsal"]["tokens"] == 4096 and found["rehearsal"]["longest"] == 128
    assert found["rehearsal"]["peak_bytes"] > 100e6 and "rehearsal" not in without
    phases = [event for event in RunReader(rehearsed.run_dir).events() if event["type"] == "rl.phase"]
    assert [event["data"]["phase"] for event in phases].count("starting") >= 4


@pytest.mark.slow
def test_what_does_not_fit_ends_the_run_before_the_engine_starts_and_names_the_key(trainer):
    run = trainer.finish(*trainer.start(*SETS, first=ON_A_GPU + OUT_OF_MEMORY))
    error = run.status["error"]
    assert (run.code, run.status["state"], error["code"]) == (3, "failed", "out_of_memory"), run.stderr
    assert "rehearsed the longest micro-batch" in error["message"]
    assert error["hint"].startswith("lower training.micro_batch_tokens (here 4096")
    assert "the engine starts" not in run.stderr and "Traceback" not in run.stderr
