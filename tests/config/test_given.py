"""What is sent of a config to another machine means the same there as here."""

from pathlib import Path

import pytest

from trainer.config import ConfigError, load, load_mapping
from trainer.config.given import given_values

HERE = Path(__file__).parent
FILES = [*sorted(HERE.glob("real_shapes/*.toml")), *sorted((HERE.parent.parent / "sample_configs").glob("*.toml"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_resolves_to_the_same_values(path):
    try:
        loaded = load(path, environ={})
    except ConfigError:
        pytest.skip("it does not load: there is nothing to send")
    again = load_mapping(given_values(loaded), environ={})
    assert again.config_hash == loaded.config_hash
    assert {problem.code for problem in again.warnings} <= {problem.code for problem in loaded.warnings}


def test_all_sources_are_in_it_and_nothing_that_follows(tmp_path):
    """The GPUs that the file asks for are kept, whatever this machine has; so are keys that have no effect."""
    path = tmp_path / "my.toml"
    path.write_text((HERE / "sdk_example.toml").read_text() + "\n[rdma]\nenabled = true\n")
    sets = ["training.seed=3"]
    environ = {"TASK_APP_URL": "http://app", "RLTUI__TRAINING__BATCH_SIZE": "8"}
    given = given_values(load(path, sets=sets, overrides={"policy.model_name": "a/b"}, environ=environ))
    assert given["services"]["task_url"] == "http://app" and given["policy"]["model_name"] == "a/b"
    assert given["training"]["seed"] == 3 and given["training"]["batch_size"] == 8
    assert given["compute"]["gpu_count"] == 2 and given["compute"]["topology"]["gpus_for_vllm"] == 1
    assert given["rdma"] == {"enabled": True} and "model" not in given and "topology" not in given
    assert "inference" not in given and "max_lag" not in given["training"] and "smoke" not in given
