"""What Rollouts shows, as pure functions: tokens, groups, filters, rewards, differences."""

from __future__ import annotations

import json
import math
import random

import pytest

from rltui.model.episode_list import bins, nearest_iteration
from rltui.model.episode_query import FilterError, parse
from rltui.model.episode_top import facts_of
from rltui.model.episode_view import EpisodeView
from rltui.model.episodes import EpisodeRows
from rltui.model.fates import Fates
from rltui.model.first_prompt import first_prompt
from rltui.model.group_view import groups_of
from rltui.model.judged import Calls
from rltui.model.vocabulary import PART, Vocabulary
from rltui.model.word_diff import word_diff
from rltui.model.xray import legend, readout, xray_of
from rltui.sources.base import UPDATE_FIELDS, Slice
from rltui.sources.local import LocalRunSource
from trainer.rundir.synth import SynthConfig, write_run


def kept(text: str, **row) -> bool:
    found = parse(text)
    assert found is not None
    return found.keep(row)


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("step = 412", {"used": 412, "step": 414, "split": "train"}, True),
        ("step = 414", {"used": 412, "step": 414, "split": "train"}, False),
        ("step = 414", {"step": 414, "split": "eval"}, True),
        ("step = 414", {"step": 414, "split": "train"}, False),  # no step has used it
        ("gap < -0.4", {"O": 1.0, "jo": 0.5}, True),
        ("gap < 0", {"O": 1.0}, False),
        ("clipped = low", {"clip": "low"}, True),
        ("has:clipped", {"clip": "none"}, False),
        ('text = "Too High"', {"said": lambda: "it is\ntoo high"}, True),
        ("text != high", {"said": lambda: "too high"}, False),
        ("text = /2[0-9]6/", {"said": lambda: "guess 256"}, True),
        ("guess or lag > 3", {"said": lambda: "nothing", "lag": 4}, True),
        ("/^gu.ss/", {"stop": "completed", "said": lambda: "a\nguess"}, True),
    ],
)
def test_filters(text, row, expected):
    assert kept(text, **row) is expected


@pytest.mark.parametrize("text", ["/(a+)+b/", "text = /(x*y*)*z/", r"/(a)\1/", "/a*b*c*d*e/"])
def test_an_expression_that_may_take_for_ever_is_refused(text):
    with pytest.raises(FilterError, match="for ever"):
        parse(text)


def test_texts_are_read_only_where_another_term_has_not_decided():
    def said() -> str:
        raise AssertionError("read")

    assert not kept("reward > 0.5 and text = x", R=0.1, said=said)


def test_what_becomes_known_later_moves_an_episode_in_and_out_of_a_view(tmp_path):
    path = write_run(tmp_path / "run", SynthConfig(episodes=64))
    source = LocalRunSource(path)
    rows, fates = EpisodeRows(source), Fates(source)
    rows.refresh()
    wanted = parse("has:s")
    view = EpisodeView(rows, wanted.keep, fields=wanted.fields, fates=fates)
    for _ in view.scan():
        pass
    assert len(view) == 0
    for _ in fates.refresh():
        pass
    for _ in view.scan():
        pass
    assert len(view) == len(view.rewards) == 64
    told = source.updates(view.n_at(3))
    assert fates.over({"n": view.n_at(3)})["s"] == pytest.approx(told["branches"][0]["s"])


def test_update_lines_are_decoded_as_far_as_they_are_used(tmp_path):
    """Row by row what is written, but nothing more; damage is passed over."""
    path = write_run(tmp_path / "run", SynthConfig(episodes=64))
    file = path / "rollouts" / "updates.jsonl"
    written = [json.loads(line) for line in file.read_text().splitlines()]
    with file.open("ab") as end:
        end.write(
            b"[1]\n" + b"[" * 5_000 + b"\n" + b'{"n": 3, "deep": ' + b"[" * 5_000 + b"}\n" + b'{"n": 4, "s": 1e999}\n'
        )
    source, rows, cursor, more = LocalRunSource(path), [], None, True
    while more:
        part = source.update_lines(cursor)
        rows, cursor, more = rows + part.rows, part.cursor, part.more
    assert rows[: len(written)] == [{name: line[name] for name in UPDATE_FIELDS if name in line} for line in written]
    assert [row["n"] for row in rows[len(written) :]] in ([], [4])


def test_numbers_that_no_float_holds_harm_nothing():
    class Source:
        def update_lines(self, cursor=None):
            return Slice([{"n": 1, "kind": "use", "s": 10**400, "clip": "low"}, {"n": 1, "s": 1.5, "lag": True}], 1)

    fates = Fates(Source())
    next(fates.refresh())
    assert fates.over({"n": 1}) == {"n": 1, "s": 1.5, "clip": "low"}


@pytest.mark.parametrize(
    ("wanted", "split", "found"), [(3, "train", 3), (99, "train", 8), (3, "eval", 4), (-2, None, 0)]
)
def test_the_nearest_iteration_that_was_recorded(tmp_path, wanted, split, found):
    rows = EpisodeRows(LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=256, eval_every=4))))
    rows.refresh()
    assert nearest_iteration(rows, wanted, split) == found
    assert nearest_iteration(rows, wanted, "none") is None


def test_the_first_prompt_is_what_stood_before_the_first_answer(tmp_path):
    source = LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=32)))
    episode = source.episode(7)
    prompt = first_prompt(episode)
    asked, answer = episode["turns"][0]["messages"]
    assert prompt == (7, ({"role": "user", "content": asked["text"]},), ()) and answer["role"] == "assistant"
    tools = [{"type": "function", "function": {"name": "go"}}]
    call = {"id": "1", "function": {"name": "go", "arguments": "{}"}}
    said = [
        {"role": "assistant", "text": None, "reasoning": "hm", "tool_calls": [call]},
        {"role": "tool", "text": "went", "tool_call_id": "1", "name": "go"},
    ]
    found = first_prompt({"n": 1, "turns": [{"messages": said, "tools": tools}]})
    assert found.tools == tuple(tools) and found.messages[0] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [call],
    }
    assert found.messages[1]["tool_call_id"] == "1"
    assert first_prompt(None) is first_prompt({"n": 1, "turns": []}) is first_prompt({"n": 1, "turns": 3}) is None


def test_a_rewind_begins_the_fates_anew():
    class Source:
        turn = 0

        def update_lines(self, cursor=None):
            self.turn += 1
            if self.turn == 1:
                return Slice([{"n": 5, "kind": "group", "adv": 1.0}, {"n": 6, "kind": "mask", "excl": "stale"}], 1)
            if cursor is not None:
                return Slice([], 2, rewind=3)
            return Slice([{"n": 5, "kind": "group", "adv": -1.0}], 2)

    fates = Fates(Source())
    list(fates.refresh())
    assert fates.over({"n": 6})["excl"] == "stale"
    list(fates.refresh())
    assert fates.over({"n": 5})["adv"] == -1.0 and "excl" not in fates.over({"n": 6})
    assert fates.low_since(1) == 0  # all of them are looked at again


def test_bins_hold_what_their_filter_keeps():
    draw = random.Random(1)
    rewards = [draw.betavariate(2, 3) * 3 - 1 for _ in range(500)] + [2.0, -1.0]
    found = bins(rewards)
    assert sum(each.count for each in found) == 502 and len(found) <= 13
    for each in found:
        assert sum(kept(each.query, R=reward) for reward in rewards) == each.count
    few = bins([0.0, 1.0, 1.0, math.nan])
    assert [(each.low, each.count) for each in few] == [(0.0, 1), (1.0, 2)]


def test_a_group_counts_masked_members_and_the_last_play_of_each():
    rows = [
        {"n": 0, "group": 7, "member": 0, "R": None, "excl": "timeout", "try": 0},
        {"n": 1, "group": 7, "member": 1, "R": 0.0, "excl": "stale"},
        {"n": 2, "group": 7, "member": 0, "R": 1.0, "try": 1, "O": 1.0, "jo": 0.3},
        {"n": 3, "group": 8, "member": 0, "R": 0.5},
        {"n": 4, "group": 8, "member": 1, "R": 0.5 + 5e-7},
    ]
    first, second = groups_of(rows)
    assert (first.mean, first.std, first.dead) == (0.5, 0.5, False)
    assert [member.n for member in first.members] == [2, 1] and first.members[0].differs
    assert second.dead and not second.members[0].differs


def test_tokens_spell_their_text_and_say_why_a_mode_shows_nothing():
    letters = {"Ġ": 0, "g": 1, "Ã": 2, "©": 3}
    document = {"model": {"vocab": letters}, "decoder": {"type": "ByteLevel"}}
    document["added_tokens"] = [{"id": 9, "content": "<end>"}]
    vocabulary = Vocabulary(document)
    assert vocabulary.texts([0, 1, 2, 3, 9, 44]) == [" ", "g", PART, "é", "<end>", "[44]"]

    blocks = {
        "b": {"ids": [0, 1, 9], "mask": [0, 1, 1], "turn": [0, 0, 0], "logp_behavior": [0.0, -4.0, -1.0]},
        "l": {"logp_learner": [0.0, -4.1, -0.9]},
    }
    episode = {"branches": [{"arr": "b", "spans": [{"start": 1, "end": 3, "weight_version": 7}]}]}
    xray = xray_of(episode, {}, blocks.get, vocabulary)
    assert set(xray.missing) == {"ratio", "advantage"} and xray.level("logprob", -4.0) == 0.5
    xray = xray_of(episode, {"adv": -2.0, "branches": {0: {"arr": "l"}}}, blocks.get, vocabulary)
    branch = xray.branches[0]
    assert not xray.missing and branch.value("ratio", 0) is None
    assert branch.value("ratio", 1) == pytest.approx(-0.1) and xray.spread["ratio"] == pytest.approx(0.1)
    assert xray.level("ratio", -0.1) == pytest.approx(0.0, abs=1e-9) and legend(xray, "ratio") == ("0.90", "1.11")
    assert {"ratio 0.9048", "v7"} <= set(readout(branch, 1)) and "not trained" in readout(branch, 0)[-1]
    gone = xray_of(episode, {}, lambda ref: None, vocabulary)
    assert gone.missing["logprob"] == "token arrays were removed"


def test_a_word_diff_holds_both_texts():
    first, second = "I halve the range,\nso 256", "I halve it again:\nso 128!"
    pieces = word_diff(first, second)
    assert "".join(text for kind, text in pieces if kind != "second") == first
    assert "".join(text for kind, text in pieces if kind != "first") == second
    assert ("same", "I halve ") in pieces


def test_an_integer_that_no_float_holds_is_no_number():
    huge = 10**400
    episode = {"R": huge, "wall": huge, "turns": [], "judge": {"total": huge, "tracks": {"fact": huge}}}
    assert all(str(huge) not in getattr(node, "text", "") for node in facts_of(episode, {"adv": huge}))
    calls = Calls()
    calls.add({"status": "ok", "wall_s": huge, "t_queued": huge, "tracks": {"fact": huge}})
    assert calls.tries == 1 and not calls.tracks and not calls.walls and calls.began is None
