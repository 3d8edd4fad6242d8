"""A run whose episodes are played ahead and go on through syncs, seen through the run directory it leaves."""

import pytest

from trainer.rundir import RunReader


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    from tests.e2e.conftest import Trainer

    run = Trainer(tmp_path_factory.mktemp("async")).run(
        "training.iterations_per_epoch=8",
        "training.max_lag=5",
        "training.weight_sync_interval=3",  # across iterations of two updates
        "training.batch_size=4",
        "training.anchor=proximal",
        "rollout.max_concurrent_rollouts=12",
        "rollout.max_refill_groups=1",
        "evaluation.every_n_iters=3",
    )
    assert run.code == 0, run.stderr
    return run


def test_every_iteration_has_its_groups_and_no_token_is_older_than_max_lag(finished):
    groups = [group for group in RunReader(finished.run_dir).groups() if group["dropped"] is None]
    used = [group for group in groups if not any(group["group"] in g["refills"] for g in groups)]
    assert sorted(group["iteration"] for group in used) == sorted(list(range(1, 9)) * 2)
    steps = [line for line in finished.lines("metrics.jsonl") if "off_policy/max" in line]
    assert [line["step"] for line in steps] == list(range(1, 17))
    lags = [line["off_policy/max"] for line in steps]
    assert 0 < max(lags) <= 5 and finished.status["lag"]["limit"] == 5


def test_weights_are_synced_every_three_updates_and_at_the_end(finished):
    syncs = [event["data"]["updates"] for event in finished.lines("events.jsonl") if event["type"] == "rl.weight_sync"]
    assert syncs == sorted(set(syncs)) and len(syncs) <= 6 and syncs[-1] == 16  # some may wait for an evaluation
    assert finished.status["weight_updates"] == 16


def test_each_evaluation_saw_one_version(finished):
    summaries = [e["data"] for e in finished.lines("events.jsonl") if e["type"] == "rl.eval.summary"]
    assert [data["iteration"] for data in summaries] == [0, 3, 6, 8]
    assert not any(data["mixed"] for data in summaries)
    rows = [row for row in RunReader(finished.run_dir).index() if row["split"] == "eval"]
    for data in summaries:
        versions = {tuple(row["ver"]) for row in rows if row["iteration"] == data["iteration"]}
        assert versions == {(data["weight_version"],) * 2}


def test_evaluations_are_found_by_step_and_compare_seed_by_seed(finished):
    """Training goes on while one plays, and its episodes still stand where it began."""
    rows = [row for row in RunReader(finished.run_dir).index() if row["split"] == "eval"]
    assert {(row["iteration"], row["step"]) for row in rows} == {(i, 2 * i) for i in (0, 3, 6, 8)}
    for iteration in (0, 3, 6, 8):
        scores = {(row["seed"], row["member"]): row["R"] for row in rows if row["iteration"] == iteration}
        assert scores.keys() == {(100, 0), (101, 0), (102, 0), (103, 0)} and None not in scores.values()


def test_how_each_sequence_was_used_is_on_record_with_its_lag_and_its_proximal_ratio(finished):
    reader, uses = RunReader(finished.run_dir), 0
    for row in reader.index():
        for line in reader.updates(row["n"]):
            if line["kind"] == "use":
                uses += 1
                assert 0 <= line["lag"] <= 5 and line["lag_in"] in (0, 1) and line["prox"] > 0
                assert {"logp_learner", "logp_proximal"} <= set(reader.token_block(line["arr"]))
    assert uses
