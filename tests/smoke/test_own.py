"""The run's own model: a process that speaks JSON lines, here a small one with a fixed answer."""

import asyncio
import sys
import textwrap

import pytest

from rltui.smoke.policies.base import Call, PolicyFailed, PolicyUnavailable
from rltui.smoke.policies.own import OwnPolicy
from tests.smoke.conftest import PATIENT_S, smoke, stage

PROGRAM = textwrap.dedent("""
    import json, sys, threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    print("loading", file=sys.stderr)
    played = {}

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            cid = self.path.partition("cid=")[2]
            played.setdefault(cid, []).append(body)
            message = {"role": "assistant", "content": "7"}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    say = lambda **message: print(json.dumps(message), flush=True)
    say(type="progress", text="half way")
    say(type="ready", url=base, model=sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        cid = request["cid"]
        if request["op"] == "open":
            assert request["sampling"]["max_tokens"] == 512
            say(type="result", id=request["id"], url=f"{base}/v1/chat/completions?cid={cid}")
        elif cid in played:
            calls = [{"prompt_tokens": 9, "completion_tokens": 2} for _ in played[cid]]
            say(type="result", id=request["id"], calls=calls, turns=[], clean=len(calls) - 1, realign=0, fork=0,
                drift=0, sampling_forced=["top_p"], logprobs=True)
        else:
            say(type="error", id=request["id"], message="no such episode", hint="")
""")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


async def test_it_plays_and_its_tokens_are_asked_for(program) -> None:
    stages = {"S01", "S02", "S07", "S09", "S11"}
    report, _ = await smoke("builtin:guess", OwnPolicy(["tiny"], argv=program), stages)
    assert report.model == "tiny"
    for episode in report.episodes:
        turns = len(episode.turns)
        assert (episode.prompt_tokens, episode.completion_tokens) == (9 * turns, 2 * turns)
    assert stage(report, "S11").verdict == "ok"
    assert "clean" in stage(report, "S11").message and stage(report, "S11").notes == ("forced or dropped: top_p",)


async def test_it_ends_with_its_input(program) -> None:
    made = OwnPolicy(["tiny"], argv=program)
    await made.start()
    process = made._process
    await made.begin("c", {"max_tokens": 512})
    with pytest.raises(PolicyFailed, match="no such episode"):
        await made.end("c")
    await made.close()
    assert process is not None and process.returncode == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('the weights are missing')", "the weights are missing"),
        ('print(\'{"type": "error", "message": "no such model", "hint": "name another"}\')', "no such model"),
    ],
)
async def test_a_start_that_fails_says_why(code: str, words: str) -> None:
    made = OwnPolicy([], argv=[sys.executable, "-c", code])
    with pytest.raises(PolicyUnavailable, match=words):
        await made.start()
    await made.close()


async def test_a_process_that_dies_fails_the_call_and_nothing_hangs(program) -> None:
    made = OwnPolicy(["tiny"], argv=program)
    await made.start()
    await made.begin("c", {"max_tokens": 512})
    assert made._process is not None
    made._process.kill()
    await made._process.wait()
    async with asyncio.timeout(PATIENT_S):
        with pytest.raises(PolicyFailed):
            await made.reply(Call("c", 0, 0, 0, [], [], {"messages": []}))
        with pytest.raises(PolicyFailed):
            await made.end("c")
        await made.close()
