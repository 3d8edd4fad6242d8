"""`python -m trainer serve-policy`: a real process with the tiny model, real calls through its gateway."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from trainer.inference.ledger import CallError, CallRecord
from trainer.rollout.player import PlayRules
from trainer.rollout.types import Call, Span
from trainer.serve_policy import Refused, call_policy, collected

CONFIG = """
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "builtin:guess"
[policy]
model_name = "builtin:tiny"
trainer_mode = "full"
label = "own"
max_tokens = 5
[vllm]
max_model_len = 256
[rollout]
env_name = "guess"
policy_name = "guesser"
max_turns = 2
episodes_per_batch = 4
[training]
num_epochs = 1
iterations_per_epoch = 1
batch_size = 4
learning_rate = 1e-4
max_lag = 0
clip_eps_low = 0.2
clip_eps_high = 0.2
group_size = 4
[evaluation]
instances = 1
every_n_iters = 0
seeds = [100]
"""
ROOT = Path(__file__).resolve().parent.parent


class Server:
    def __init__(self, folder: Path, *options: str, first: str = "") -> None:
        """`first`: what it does before anything else."""
        config = folder / "run.toml"
        config.write_text(CONFIG)
        program = f"{first}\nimport runpy\nrunpy.run_module('trainer', run_name='__main__')"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", program, "serve-policy", str(config), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self.number = 0

    def line(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def until_ready(self) -> dict:
        while (line := self.line())["type"] == "progress":
            pass
        return line

    def send(self, text: str) -> dict:
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.line()

    def ask(self, **request) -> dict:
        self.number += 1
        answer = self.send(json.dumps({"id": self.number, **request}))
        assert answer["id"] == self.number
        return answer

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("policy"))
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def complete(url: str, messages: list[dict], **more) -> dict:
    body = json.dumps({"messages": messages, **more}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_an_episode_is_opened_played_and_collected(server):
    ready = server.until_ready()
    assert ready["type"] == "ready" and ready["model"] == "builtin:tiny"
    opened = server.ask(op="open", cid="one", sampling={"temperature": 0.5, "max_tokens": 4})
    assert opened["type"] == "result" and opened["url"].startswith(ready["url"]) and "cid=one" in opened["url"]
    messages = [{"role": "user", "content": "7"}]
    first = complete(opened["url"], messages)["choices"][0]["message"]
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": "8"}]
    complete(opened["url"], messages, top_p=0.5)
    found = server.ask(op="collect", cid="one")
    assert found["type"] == "result" and found["broken"] is None and found["logprobs"] is True
    assert found["calls"][0]["text"] == first["content"]
    assert all(1 <= call["completion_tokens"] <= 4 and call["seconds"] > 0 for call in found["calls"])
    assert found["calls"][1]["messages"] == messages and found["sampling_forced"] == ["top_p"]
    assert found["clean"] + found["realign"] + found["fork"] == 1
    assert found["calls"][1]["prompt_tokens"] > found["calls"][0]["prompt_tokens"]


def test_members_of_a_group_get_different_answers(server):
    said = set()
    for cid in ("a", "b", "c"):
        url = server.ask(op="open", cid=cid)["url"]
        said.add(complete(url, [{"role": "user", "content": "7"}])["choices"][0]["message"]["content"])
        server.ask(op="collect", cid=cid)
    assert len(said) > 1


def test_a_refused_call_is_told_and_the_episode_is_collected_once(server):
    url = server.ask(op="open", cid="bad")["url"]
    with pytest.raises(urllib.error.HTTPError):
        complete(url, [{"role": "user", "content": "x" * 1000}])
    (call,) = server.ask(op="collect", cid="bad")["calls"]
    assert call["error"].startswith("400 context_length_exceeded") and call["completion_tokens"] == 0
    again = server.ask(op="collect", cid="bad")
    assert again["type"] == "error" and "open it first" in again["hint"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"op": "open", "cid": "one"}, "used before"),
        ({"op": "open"}, "cid is missing"),
        ({"op": "close", "cid": "x"}, "no op 'close'"),
        ({"op": "open", "cid": "t", "sampling": {"temperature": 0}}, "temperature"),
        ({"op": "open", "cid": "t", "sampling": [1]}, "object"),
    ],
)
def test_a_wrong_request_is_answered_by_its_cause(server, request_, words):
    answer = server.ask(**request_)
    assert answer["type"] == "error" and words in answer["message"] and answer["hint"]


def test_a_line_that_is_no_json_is_answered(server):
    assert server.send("{nonsense")["message"].startswith("the line is not JSON")
    assert server.send("[1]")["message"] == "a request must be an object"


def test_an_engine_that_is_not_started_again_ends_it_with_words(tmp_path):
    server = Server(tmp_path, first="import trainer.inference.vllm.restarts as restarts\nrestarts.BACKOFF_S = ()")
    assert server.until_ready()["type"] == "ready"
    for child in server.children():
        child.kill()
    error = server.line()
    assert error["type"] == "error" and "engine" in error["message"]
    assert server.process.wait(60) == 3


def test_it_ends_with_its_stdin_and_leaves_nothing(server):
    children = server.children()
    assert children  # the engine
    assert server.end() == 0
    assert not psutil.wait_procs(children, timeout=60)[1]


def test_a_model_that_is_not_there_ends_it_with_words(tmp_path):
    server = Server(tmp_path, "--set", "policy.model_name=/nowhere/model")
    error = server.until_ready()
    assert error["type"] == "error" and "/nowhere/model" in error["message"]
    assert server.process.wait(60) == 2


def test_a_config_that_is_wrong_ends_it_with_words(tmp_path):
    server = Server(tmp_path, "--set", "policy.max_tokens=0")
    error = server.line()
    assert error["type"] == "error" and "max_tokens" in error["message"]
    assert server.process.wait(60) == 2


def test_it_dies_while_it_starts_when_its_parent_does(tmp_path):
    """stdin is read before the model is loaded."""
    server = Server(tmp_path)
    assert server.line()["type"] == "progress"
    assert server.end() == 0


def test_a_signal_ends_it(tmp_path):
    server = Server(tmp_path)
    assert server.line()["type"] == "progress"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 130


# --- what is told of calls, without a process -----------------------------------------------------------------


def call(number: int, prompt: list[int], sampled: list[int], logprobs: list[float] | None = None, **more) -> Call:
    fields = {"finish_reason": "stop", "sampling": {}, "messages": [], "response": {"content": "x"}, **more}
    spans = [Span(0, len(sampled), 0)] if sampled else []
    logprobs = [-1.0] * len(sampled) if logprobs is None else logprobs
    return Call("c", number, prompt, sampled, logprobs, spans, **fields)


def test_tokens_that_training_could_not_use_are_named():
    found = collected(CallRecord([call(0, [1], [2, 3], logprobs=[])]))
    assert found["logprobs"] is False and "no log-probabilities" in found["broken"]


def test_history_that_was_edited_is_a_fork():
    found = collected(CallRecord([call(0, [1], [2]), call(1, [1, 2, 3], [4]), call(2, [9, 9], [5])]))
    assert (found["clean"], found["fork"], found["broken"]) == (1, 1, None)


def test_an_engine_error_stands_with_its_call_and_a_refusal_for_itself():
    record = CallRecord(
        [call(0, [1], [2]), call(1, [1, 2, 3], [], finish_reason="error", response={})],
        [CallError("invalid_request_error", 400, 0, "n must be 1"), CallError("engine_error", 503, 1, "gone")],
    )
    told = [item.get("error") for item in collected(record)["calls"]]
    assert told == [None, "503 engine_error: gone", "400 invalid_request_error: n must be 1"]


def test_an_episode_without_calls_is_empty():
    found = collected(CallRecord())
    assert found["calls"] == [] and found["logprobs"] is False


RULES = PlayRules(
    job_id="smoke",
    env_name="e",
    env_config={},
    policy_name="p",
    policy_config={},
    model="m",
    max_turns=2,
    max_tokens=7,
    temperature=0.9,
    top_p=1.0,
    top_k=-1,
    repetition_penalty=1.0,
    stop=("end",),
    data_split=None,
    ops=(),
    on_done="reset",
    timeout_s=1.0,
    max_retries=0,
    seed=3,
)


def test_sampling_is_the_configs_where_it_is_not_given():
    policy = call_policy(RULES, {"max_tokens": 2}, 5)
    assert (policy.temperature, policy.max_tokens, policy.stop, policy.split) == (0.9, 2, ("end",), "train")
    assert policy.seed_parts != call_policy(RULES, {}, 6).seed_parts


@pytest.mark.parametrize("sampling", [{"max_tokens": True}, {"max_tokens": 0}, {"stop": "x"}, {"temperature": "1"}])
def test_sampling_that_means_nothing_is_refused(sampling):
    with pytest.raises(Refused, match="sampling"):
        call_policy(RULES, sampling, 0)
