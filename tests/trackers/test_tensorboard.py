"""Event files, read back by TensorBoard's own loader."""

import pytest

pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'rltui[tensorboard]'")


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    found = {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    texts = {
        tag: accumulator.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in accumulator.Tags()["tensors"]
    }
    return found, texts


def test_rows_config_and_tags_are_in_the_files(facts, tmp_path):
    from trainer.trackers.tensorboard import TensorBoard

    tracker = TensorBoard(facts(), "unused")
    tracker.row(2, {"reward/mean": 0.5, "gspo/loss": -0.25})
    tracker.row(0, {"eval/reward_mean": 0.125})
    tracker.close()
    found, texts = scalars(tmp_path)
    assert found == {"reward/mean": [(2, 0.5)], "gspo/loss": [(2, -0.25)], "eval/reward_mean": [(0, 0.125)]}
    assert texts["tags"] == "team=mine" and '"group_size": 4' in texts["config"]


def test_what_an_earlier_attempt_told_after_the_step_it_is_resumed_from_is_hidden(facts, tmp_path):
    from trainer.trackers.tensorboard import TensorBoard

    first = TensorBoard(facts(), "unused")
    for step in (1, 2, 3):
        first.row(step, {"loss": float(step)})
    first.close()
    second = TensorBoard(facts(from_step=1), "unused")
    second.row(2, {"loss": 20.0})
    second.close()
    assert scalars(tmp_path)[0] == {"loss": [(1, 1.0), (2, 20.0)]}
