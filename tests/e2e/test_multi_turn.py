"""The multi-turn sample on the tiny model: all turns of a game are one sequence, whatever the chat template does."""

import numpy as np
import pytest

from trainer.rundir import RunReader

SAMPLE = "sample_configs/multi_turn.toml"


@pytest.fixture(scope="module")
def finished(request, tmp_path_factory):
    from tests.e2e.conftest import Trainer

    trainer = Trainer(tmp_path_factory.mktemp("multi"))
    trainer.config = request.config.rootpath / SAMPLE
    run = trainer.run(
        "policy.model_name=builtin:tiny",
        "training.dtype=float32",
        "training.iterations_per_epoch=1",
        "training.lora.r=4",
        "vllm.max_model_len=1024",  # its tokens are bytes
        "evaluation.instances=2",
    )
    assert run.code == 0, run.stderr
    return run


def test_each_game_is_one_sequence_that_the_learner_reads_as_it_was_sampled(finished):
    (line,) = [line for line in finished.lines("metrics.jsonl") if "optim/lr" in line]
    turns, games = line["turns/mean"], 16
    # bytes of builtin:tiny that are no text come back as replacement characters: the recorded ids stay (realign)
    assert turns > 2 and line["tokens/clean"] + line["tokens/realign"] == round((turns - 1) * games)
    assert line["tokens/fork"] == line["tokens/orphan"] == 0
    assert line["logp_gap/mean"] < 1e-4 and line["gspo/ratio_max"] == pytest.approx(1, abs=1e-3)


def test_turns_carry_the_apps_rewards_and_point_into_the_token_block(finished):
    reader = RunReader(finished.run_dir)
    for n in range(reader.episode_count()):
        episode = reader.episode(n)
        (branch,) = episode["branches"]
        arrays = reader.token_block(branch["arr"])
        turns = episode["turns"]
        assert [turn["t"] for turn in turns] == list(range(len(turns))) == sorted(set(arrays["turn"].tolist()))
        for turn in turns:
            start, end = turn["span"]
            assert np.all(arrays["mask"][start:end] == 1) and np.all(arrays["turn"][start:end] == turn["t"])
        assert sum(end - start for start, end in (turn["span"] for turn in turns)) == arrays["mask"].sum()
        assert sum(turn["reward"] for turn in turns) == pytest.approx(episode["sr"], abs=1e-5)
