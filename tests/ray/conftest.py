from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.e2e.conftest import trainer
from tests.ray.cluster import HOME, Cluster

__all__ = ["trainer"]


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one node without GPUs, on which coordinators run; tests add nodes and kill them."""
    cluster = Cluster(tmp_path_factory.mktemp("ray"))
    try:
        cluster.start(cpus=1)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", HOME)
    return Path(HOME)
