from __future__ import annotations

import pytest

from trainer.inference.engine import Sampling
from trainer.inference.sampling import BadRequest, CallPolicy, call_sampling, call_seed, training_sampling

TRAIN = CallPolicy("train", 0.7, 64, ("END",), seed_parts=(0, 1, 2, 3, 0), top_p=0.9, top_k=5, repetition_penalty=1.1)
EVAL = CallPolicy("eval", 0.0, 64, (), seed_parts=(0, 1, -1, 3, 0), top_p=0.9, top_k=5, repetition_penalty=1.1)


def test_a_plain_training_call_takes_the_policy():
    sampling, forced = training_sampling({}, TRAIN, 4)
    assert sampling == Sampling(0.7, 64, ("END",), call_seed((0, 1, 2, 3, 0), 4))
    assert forced == {}


def test_what_the_app_may_choose_is_kept():
    request = {"temperature": 1.3, "max_tokens": 10, "stop": "x", "tool_choice": "auto", "logprobs": True}
    sampling, forced = training_sampling(request, TRAIN)
    assert (sampling.temperature, sampling.max_tokens, sampling.stop, forced) == (1.3, 10, ("x",), {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_p", 0.9),
        ("top_k", 40),
        ("min_p", 0.1),
        ("repetition_penalty", 1.2),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -0.5),
        ("best_of", 2),
        ("temperature", 0),
        ("temperature", 1e-300),
        ("logit_bias", {"5": 100}),
        ("response_format", {"type": "json_object"}),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("min_tokens", 4),
        ("bad_words", ["a"]),
        ("allowed_token_ids", [1]),
        ("structured_outputs", {"regex": "a"}),
        ("guided_json", {}),
        ("stop_token_ids", [5]),
        ("ignore_eos", True),
        ("use_beam_search", True),
        ("logits_processors", ["x"]),
        ("function_call", {"name": "f"}),
        ("seed", 5),
        ("max_tokens", 65),
    ],
)
def test_what_bends_the_distribution_is_forced_and_named(name, value):
    sampling, forced = training_sampling({name: value}, TRAIN)
    assert list(forced) == [name]
    assert sampling == training_sampling({}, TRAIN)[0]


def test_neutral_values_are_not_counted():
    neutral = {
        "top_p": 1.0,
        "top_k": -1,
        "presence_penalty": 0,
        "n": 1,
        "response_format": {"type": "text"},
        "seed": None,
        "function_call": "auto",
        "ignore_eos": False,
        "logit_bias": {},
        "parallel_tool_calls": False,
        "top_logprobs": 3,
        "user": "me",
    }
    assert training_sampling(neutral, TRAIN)[1] == {}


def test_evaluation_keeps_the_app_and_takes_filters_from_the_policy():
    sampling, forced = call_sampling({"temperature": 0.9, "seed": 7, "top_k": 3}, EVAL, 0)
    assert sampling == Sampling(0.0, 64, (), 7, 0.9, 3, 1.1)
    assert forced == {}
    unserved = {"response_format": {"type": "json_object"}, "min_p": 0.1, "tool_choice": "required"}
    assert set(call_sampling(unserved, EVAL, 0)[1]) == set(unserved)  # no engine of ours does these: not hidden


def test_seeds_differ_by_every_part_and_fit_63_bits():
    parts = [(0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)]
    seeds = {call_seed(p, c) for p in parts for c in (0, 1)}
    assert len(seeds) == 12 and all(0 <= s < 1 << 63 for s in seeds)


@pytest.mark.parametrize(
    "request_",
    [
        {"temperature": "hot"},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": True},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_completion_tokens": "9"},
        {"stop": 5},
        {"stop": ["a"] * 17},
        {"stop": [1]},
    ],
)
def test_wrong_types_are_refused_with_the_field(request_):
    with pytest.raises(BadRequest) as error:
        training_sampling(request_, TRAIN)
    assert error.value.param == next(iter(request_))


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_k", 1 << 31), ("top_k", 2.5), ("top_k", 1e308), ("repetition_penalty", 10**400), ("repetition_penalty", 0)],
)
def test_an_evaluation_call_asks_no_engine_for_what_breaks_it(name, value):
    with pytest.raises(BadRequest) as error:
        call_sampling({name: value}, EVAL, 0)
    assert error.value.param == name
    assert call_sampling({"top_k": 5.0, "repetition_penalty": 1.3}, EVAL, 0)[0].top_k == 5
