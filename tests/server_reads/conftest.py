from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server_reads.serving import Runs, Server, serving
from trainer.rundir.synth import write_run
from trainer.rundir.synth_data import SynthConfig


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each is written once: a test that changes one makes its own."""
    written: dict[str, Path] = {}

    def run(kind: str, **options: Any) -> Path:
        name = f"{kind}{options}"
        if name not in written:
            config = SynthConfig(**{"episodes": 320, "kind": kind, **options})
            written[name] = write_run(tmp_path_factory.mktemp("run") / "run", config)
        return written[name]

    return run
