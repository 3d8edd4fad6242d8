"""TensorBoard event files, in trackers/tensorboard of the run folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from trainer.trackers.base import RunFacts, Tracker, tag_list


class TensorBoard(Tracker):
    def __init__(self, run: RunFacts, project: str) -> None:
        self._writer = EventFileWriter(str(run.folder / "tensorboard"))
        if run.from_step:  # TensorBoard then hides what earlier files hold from the next step on
            self._add(run.from_step + 1, session_log=SessionLog(status=SessionLog.START))
        config = f"```\n{json.dumps(run.config, indent=2, default=str)}\n```"
        self._add(run.from_step, summary=Summary(value=[_text("config", config)]))
        if run.tags:
            self._add(run.from_step, summary=Summary(value=[_text("tags", ", ".join(tag_list(run.tags)))]))

    def row(self, step: int, values: Mapping[str, float]) -> None:
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(step, summary=Summary(value=scalars))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, **what: Summary | SessionLog) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, **what))


def _text(tag: str, text: str) -> Summary.Value:
    metadata = create_summary_metadata(display_name=tag, description="")
    return Summary.Value(tag=tag, metadata=metadata, tensor=make_tensor_proto(text))
