"""Joining by ids, over a stub engine whose template and tokenizer are small enough to be seen through."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.inference.engine import Engine
from trainer.inference.joining import chat_prompt, extended_call, shared, text_prompt
from trainer.inference.messages import normal, same_message
from trainer.rollout.trajectories import assemble
from trainer.rollout.types import Call, Span

END, PAIRS = 1, {"ab": 1000, "cd": 1001, "ef": 1002}
USER = {"role": "user", "content": "q"}


class Letters(Engine):
    """A token is a character, or one of three pairs: rendering writes pairs, sampling may write single characters.
    The template keeps the last thought only, as those of thinking models do."""

    kind, model_name, max_model_len, weight_version = "stub", "m", 4096, 0
    eos_token_ids = frozenset([END])

    def encode(self, text: str) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            pair = PAIRS.get(text[at : at + 2])
            ids.append(pair if pair else END if text[at] == "$" else ord(text[at]))
            at += 2 if pair else 1
        return ids

    async def render(self, messages, tools=None, template_kwargs=None) -> list[int]:
        text = json.dumps(tools) if tools else ""
        for i, message in enumerate(map(normal, messages)):
            thought = message.get("reasoning_content") if i == len(messages) - 1 else None
            calls = "".join(json.dumps(c["function"]["arguments"]) for c in message.get("tool_calls", ()))
            text += f"[{message['role']}]{f'({thought})' if thought else ''}{message['content'].strip()}{calls}$\n"
        return self.encode(text + "[assistant]")

    async def tokenize(self, text: str) -> list[int]:
        return [2, *self.encode(text)]

    def decode(self, token_ids) -> str:
        pairs = {id: pair for pair, id in PAIRS.items()}
        return "".join(pairs.get(id) or ("" if id in (1, 2) else chr(id)) for id in token_ids)

    async def start(self):
        raise NotImplementedError

    generate = derender = load_weights = stop = start


ENGINE = Letters()


class Chat:
    """Calls as the gateway would record them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def ask(self, messages, completion: list[int], answer: dict, finish="stop", tools=None, **fields) -> Call:
        earlier = extended_call(messages, self.calls)
        prompt = await chat_prompt(ENGINE, earlier, self.calls, messages, tools, {})
        call = Call(
            cid="c",
            call=len(self.calls),
            prompt_token_ids=prompt.ids,
            completion_token_ids=completion,
            logprobs=[-0.1] * len(completion),
            spans=[Span(0, len(completion), 0)],
            finish_reason=finish,
            sampling={"temperature": 1.0},
            messages=shared(messages, earlier),
            response=answer,
            tools=tools,
            prefix=prompt.kind,
            drift=prompt.drift,
            **fields,
        )
        self.calls.append(call)
        return call


def said(text: str, **fields) -> dict:
    return {"role": "assistant", "content": text, **fields}


def singles(text: str) -> list[int]:
    return [ord(c) for c in text]


async def test_ids_that_the_template_would_write_too_are_clean():
    chat = Chat()
    await chat.ask([USER], [*ENGINE.encode("xaby"), END], said("xaby"))
    call = await chat.ask([USER, said("xaby"), USER], [END], said(""))
    assert (call.prefix, call.drift) == ("clean", 0)
    assert call.prompt_token_ids == await ENGINE.render([USER, said("xaby"), USER])


async def test_other_ids_of_the_same_text_are_kept_and_their_drift_is_counted():
    chat = Chat()
    first = await chat.ask([USER], [*singles("xabycdz"), END], said("xabycdz"))
    history = [USER, said("xabycdz"), USER]
    call = await chat.ask(history, [*singles("ab"), END], said("ab"))
    assert (call.prefix, call.drift) == ("realign", 5)  # abycd, between x and z
    recorded = first.prompt_token_ids + first.completion_token_ids
    assert call.prompt_token_ids == recorded + ENGINE.encode("\n[user]q$\n[assistant]")
    # the next turn goes on from ids that no rendering has: only the last completion counts
    third = await chat.ask([*history, said("ab"), USER], [END], said(""))
    assert (third.prefix, third.drift) == ("realign", 2)
    assert third.prompt_token_ids[: len(call.prompt_token_ids)] == call.prompt_token_ids
    assembly = assemble(chat.calls)
    assert assembly.counts == {"clean": 0, "realign": 2, "fork": 0, "drift": 7, "orphan": 0}
    assert assembly.branches[0].prefix == ["first", "realign", "realign"]
    assert assembly.branches[0].ids == third.prompt_token_ids + third.completion_token_ids


@pytest.mark.parametrize(
    "echo",
    [
        said("xab "),
        said("xab", tool_calls=None, refusal=None, function_call=None),
        {"role": "assistant", "content": [{"type": "text", "text": "xab"}]},
    ],
)
async def test_clients_write_the_same_answer_in_many_ways(echo):
    chat = Chat()
    await chat.ask([USER], [*ENGINE.encode("xab"), END], said("xab"))
    assert (await chat.ask([USER, echo, USER], [END], said(""))).prefix == "clean"


async def test_a_tool_call_whose_arguments_were_serialised_anew_is_realigned():
    def calling(arguments: str, **fields) -> dict:
        function = {"name": "f", "arguments": arguments}
        return {"role": "assistant", "content": None, "tool_calls": [{"id": "i", "function": function, **fields}]}

    chat, result = Chat(), {"role": "tool", "content": "r", "tool_call_id": "i"}
    sampled = singles('{"a":1}')
    first = await chat.ask([USER], [*sampled, END], calling('{"a":1}'), "tool_calls")
    echoed = [USER, calling('{"a": 1}', type="function"), result]
    call = await chat.ask(echoed, [END], said(""))
    assert call.prefix == "realign" and call.drift > 0
    assert call.prompt_token_ids[: len(first.prompt_token_ids) + len(sampled)] == first.prompt_token_ids + sampled
    legacy = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    assert (await chat.ask([USER, legacy, result], [END], said(""))).prefix == "realign"
    other = [USER, calling('{"a": 2}'), result]
    assert (await chat.ask(other, [END], said(""))).prefix == "fork"
    assert assemble(chat.calls).counts["realign"] == 1  # the second of two children starts a branch of its own


async def test_a_cut_answer_gets_the_end_of_the_template():
    chat = Chat()
    first = await chat.ask([USER], singles("xab"), said("xab"), "length")
    call = await chat.ask([USER, said("xab"), USER], [END], said(""))
    assert call.prompt_token_ids == first.prompt_token_ids + singles("xab") + ENGINE.encode("$\n[user]q$\n[assistant]")
    stopped = Chat()
    await stopped.ask([USER], singles("xySTOP"), said("xy"), stop_detail="STOP")
    call = await stopped.ask([USER, said("xy"), USER], [END], said(""))
    assert (call.prefix, call.drift) == ("realign", 4)
    assert ENGINE.decode(call.prompt_token_ids) == "[user]q\n[assistant]xySTOP\n[user]q\n[assistant]"


async def test_a_thought_that_is_left_out_is_an_edit():
    chat = Chat()
    thought = said("ab", reasoning_content="hm")
    first = await chat.ask([USER], [*singles("(hm)ab"), END], thought)
    history = [USER, thought, USER]
    call = await chat.ask(history, [END], said(""))
    assert call.prefix == "fork" and call.prompt_token_ids == await ENGINE.render(history)
    assembly = assemble(chat.calls)
    assert [b.weight for b in assembly.branches] == [0.5, 0.5]
    assert assembly.branches[0].ids == first.prompt_token_ids + first.completion_token_ids


async def test_other_tools_or_another_template_option_are_no_extension():
    chat, tool = Chat(), [{"type": "function", "function": {"name": "f"}}]
    await chat.ask([USER], [*singles("ab"), END], said("ab"))
    assert (await chat.ask([USER, said("ab"), USER], [END], said(""), tools=tool)).prefix == "fork"
    chat.calls[0].sampling["chat_template_kwargs"] = {"thinking": True}
    assert (await chat.ask([USER, said("ab"), USER], [END], said(""))).prefix == "fork"


async def test_more_drift_than_the_limit_is_a_fork():
    chat = Chat()
    await chat.ask([USER], [*singles("ab" * 600), END], said("ab" * 600))
    assert (await chat.ask([USER, said("ab" * 600), USER], [END], said(""))).prefix == "fork"


async def test_text_that_goes_on_from_an_answer_keeps_its_ids():
    def text_call(prompt, text, completion, **fields) -> Call:
        return Call("c", 0, prompt.ids, completion, [-1.0] * len(completion), [], "stop", {},
                    [{"role": "prompt", "content": text}], {}, prefix=prompt.kind, **fields)  # fmt: skip

    first = text_call(await text_prompt(ENGINE, [], "Q:"), "Q:", singles("xab STOP"), stop_detail="STOP")
    assert first.prefix == "first"
    prompt = await text_prompt(ENGINE, [first], "Q:xab STOP ok")
    assert (prompt.kind, prompt.drift) == ("realign", 7)
    assert prompt.ids == first.prompt_token_ids + singles("xab STOP ok")
    clean = text_call(await text_prompt(ENGINE, [], "Q:"), "Q:", ENGINE.encode("xab"))
    assert (await text_prompt(ENGINE, [clean], "Q:xab ok")).kind == "clean"
    ended = text_call(await text_prompt(ENGINE, [], "Q:"), "Q:", [*ENGINE.encode("xab"), END])
    assert (await text_prompt(ENGINE, [ended], "Q:xab ok")).kind == "fork"  # its text lacks the end


def test_messages_are_kept_once():
    call = Call("c", 0, [1], [2], [-1.0], [], "stop", {}, [dict(USER)], said("a"))
    messages = [dict(USER), {**said("a"), "refusal": None}, dict(USER)]
    kept = shared(messages, call)
    assert kept == messages and kept[0] is call.messages[0] and kept[1] is messages[1]


def test_equal_messages():
    assert not same_message(said("a"), {"role": "user", "content": "a"})
    assert not same_message({"role": "user", "content": "a "}, {"role": "user", "content": "a"})
    assert same_message({"role": "function", "name": "f", "content": "1"}, {"role": "tool", "content": "1"})
    assert same_message(said("a", reasoning_content="x"), said("a"))
    assert not same_message(said("", tool_calls=[{"function": {"name": "f", "arguments": "{"}}]), said(""))


EDITS = ("go on", "go on", "go on", "strip the thought", "cut", "change", "repeat", "branch")


@settings(max_examples=150, deadline=None)
@given(st.data())
async def test_whatever_an_app_does_to_its_chat_nothing_is_tokenised_anew_for_training(data):
    """Random chats with edits, repeats, parallel calls and aborted answers."""
    chat, messages, numbers = Chat(), [USER], itertools.count()
    for _ in range(data.draw(st.integers(1, 7))):
        text = data.draw(st.text("abcdx", max_size=8)) + chr(200 + next(numbers))
        thought = data.draw(st.sampled_from([None, None, "hm"]))
        ids = (singles if data.draw(st.booleans()) else ENGINE.encode)((f"({thought})" if thought else "") + text)
        answer = said(text, reasoning_content=thought) if thought else said(text)
        finish = data.draw(st.sampled_from(["stop", "stop", "length", "abort"]))
        await chat.ask(list(messages), ids if finish in ("length", "abort") else [*ids, END], answer, finish)
        edit = data.draw(st.sampled_from(EDITS))
        base = messages
        if edit == "branch":
            call = data.draw(st.sampled_from(chat.calls))
            base, answer = call.messages, call.response
        if edit in ("go on", "strip the thought", "branch"):
            kept = answer if edit == "go on" else {k: v for k, v in answer.items() if k != "reasoning_content"}
            messages = [*base, kept, {"role": "user", "content": data.draw(st.text("abz", max_size=4))}]
        elif edit == "change":
            messages = [*base, said("zz"), USER]
        elif edit == "cut":
            messages = messages[-1:]
    calls = chat.calls
    if not any(call.finish_reason != "abort" for call in calls):
        return
    assembly = assemble(calls)
    trained: list[tuple[int, ...]] = []
    for branch in assembly.branches:
        assert len(branch.ids) == len(branch.mask) == len(branch.turn) == len(branch.logp)
        assert any(branch.mask) and all(p <= 0 for p in branch.logp)
        covered = [p for span in branch.spans for p in range(span.start, span.end)]
        assert covered == [p for p, sampled in enumerate(branch.mask) if sampled]
        # every call's completion stands in its branch behind the very prompt that the engine read
        for index in branch.calls:
            read = calls[index].prompt_token_ids + calls[index].completion_token_ids
            assert branch.ids[: len(read)] == read
        trained += [tuple(calls[index].completion_token_ids) for index in branch.calls]
    assert sum(branch.weight for branch in assembly.branches) == pytest.approx(1)
    used = {index for branch in assembly.branches for index in branch.calls}
    assert len(used) == len(trained) == len(calls) - assembly.counts["orphan"]
    kinds = sum(assembly.counts[kind] for kind in ("clean", "realign", "fork"))
    assert kinds == len(used) - 1  # the first call of the episode is none of them
