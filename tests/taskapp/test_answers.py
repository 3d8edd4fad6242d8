import dataclasses
import enum
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from trainer.taskapp.answers import CIRCULAR, InvalidAnswer, finish_answer, to_json
from trainer.taskapp.contracts import RolloutRequest

from .conftest import request_body

REQUEST = RolloutRequest.model_validate(request_body(cid="c1"))
URL = "http://127.0.0.1:1/v1/chat/completions?cid=c1"


class Colour(str, enum.Enum):  # noqa: UP042 - the older form is what apps have
    RED = "red"


class Model(BaseModel):
    inner: dict
    path: Path


@dataclasses.dataclass
class Point:
    x: float


def test_everything_apps_return_becomes_json():
    value = {
        "m": Model(inner={1: (Point(0.5), Colour.RED)}, path=Path("a")),
        "a": np.arange(2),
        "n": np.float32(1),
    }
    assert to_json(value) == {"m": {"inner": {"1": [{"x": 0.5}, "red"]}, "path": "a"}, "a": [0, 1], "n": 1.0}


def test_only_true_cycles_are_cut():
    shared = {"text": "twice"}
    assert to_json([shared, shared]) == [shared, shared]
    loop: dict = {"shared": shared}
    loop["self"] = loop
    assert to_json(loop) == {"shared": shared, "self": CIRCULAR}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"metrics": {"outcome_reward": float("nan")}}, "metrics.outcome_reward"),
        ({"a": [0, float("inf")]}, "a[1]"),
        ({"a": object()}, "a"),
    ],
)
def test_what_json_cannot_hold_is_named(value, path):
    with pytest.raises(InvalidAnswer) as caught:
        to_json(value)
    assert caught.value.fields[0]["path"] == path


def test_echoes_and_counts_are_filled_in_where_clients_look():
    answer = finish_answer(
        {"metrics": {"outcome_reward": 1.0}, "trajectories": [{"steps": [{"reward": 1.0}, {"info": None}]}]},
        REQUEST,
    )
    trajectory = answer["trajectories"][0]
    for holder in (answer, answer["pipeline_metadata"], trajectory):
        assert holder["trace_correlation_id"] == "c1" and holder["inference_url"] == URL
    assert answer["run_id"] == "c1" and answer["aborted"] is False
    assert trajectory["length"] == answer["metrics"]["num_steps"] == 2
    assert all(step["info"]["meta"]["inference_url"] == URL for step in trajectory["steps"])


def test_what_the_app_set_stays():
    answer = finish_answer({"metrics": {"outcome_reward": 1.0, "num_steps": 7}, "run_id": "mine"}, REQUEST)
    assert answer["metrics"]["num_steps"] == 7 and answer["run_id"] == "mine"


@pytest.mark.parametrize(
    ("result", "path"),
    [
        (None, "(answer)"),
        ([1], "(answer)"),
        ({"hello": 1}, "(answer)"),
        ({"metrics": {}}, "(answer)"),
        ({"metrics": {"outcome_reward": "1"}}, "metrics.outcome_reward"),
        ({"metrics": {"outcome_reward": 1}, "trace_correlation_id": "other"}, "(answer)"),
    ],
)
def test_a_broken_result_is_the_apps_fault_and_named(result, path):
    with pytest.raises(InvalidAnswer) as caught:
        finish_answer(result, REQUEST)
    assert caught.value.fields[0]["path"] == path


def test_an_app_may_report_that_it_gave_up():
    assert finish_answer({"metrics": {}, "aborted": True, "status_detail": "x"}, REQUEST)["aborted"] is True
