"""What Ray is asked for, from the config."""

from __future__ import annotations

import json

import pytest

from tests.test_devices import over
from trainer.placing.base import PlacingError
from trainer.placing.ray import request, with_type


def words(config) -> dict[str, str]:
    given = request(config)
    return dict(zip(given[::2], given[1::2], strict=True))


def test_a_bundle_a_node_with_its_gpus_and_what_launcher_options_add():
    options = ["compute.launcher_options.address=10.0.0.1:6379", "compute.launcher_options.rdma=1"]
    given = words(over(2, "compute.gpu_count=3", "compute.gpu_type=H100:3", *options))
    assert json.loads(given["--bundles"]) == [{"CPU": 1, "GPU": 2, "rdma": 1}, {"CPU": 1, "GPU": 1, "rdma": 1}]
    assert (given["--address"], given["--gpu-type"]) == ("10.0.0.1:6379", "H100")
    on_cpu = words(over(2, "compute.topology.type=cpu", "compute.launcher_options.cpus_per_node=4"))
    assert json.loads(on_cpu["--bundles"]) == [{"CPU": 4}] * 2 and on_cpu.keys() == {"--bundles"}


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("partition='gpu'", "partition = 'gpu' means nothing to Ray"),
        ("cpus_per_node=true", "cpus_per_node = True means nothing to Ray"),
        ("address='ray://head:10001'", "the coordinator is a part of the cluster"),
    ],
)
def test_what_ray_cannot_be_asked_for_is_refused(option, why):
    with pytest.raises(PlacingError, match=why) as told:
        request(over(2, "compute.topology.type=cpu", f"compute.launcher_options.{option}"))
    assert told.value.hint


def test_the_type_of_a_gpu_is_asked_for_as_the_cluster_calls_it():
    bundles = [{"CPU": 1.0, "GPU": 1.0}]
    assert with_type(bundles, "H100", {"GPU": 8.0}) == bundles  # the cluster tells no types
    cluster = {"accelerator_type:A100": 1.0, "accelerator_type:H100": 1.0}
    assert with_type(bundles, "NVIDIA H100 80GB", cluster) == [{**bundles[0], "accelerator_type:H100": 0.001}]
    with pytest.raises(PlacingError, match="no GPU of type L40S; it has A100, H100"):
        with_type(bundles, "L40S", cluster)
