"""What pages show and list is what is: an app with tools plays, examples are those of the code, tables are whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rltui.doctor.rules import RULES
from rltui.sdk.api.train import typed
from rltui.sdk.api.train.rl import RLJob
from rltui.server import catalog, reads, routes
from rltui.smoke.report import TITLES
from tests.docs.pages import ROOT, WRITTEN, block, text
from tests.sdk.test_example import SCRIPT
from tests.taskapp.conftest import KEY, _gateway_server, gateway, key, request_body, serving
from trainer.judge import errors
from trainer.learner.loss import LOSSES
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.codes import CODES
from trainer.taskapp.load import load_task_app

__all__ = ["_gateway_server", "gateway", "key"]  # fixtures


async def test_the_app_with_tools_plays_and_scores(key, gateway, tmp_path):
    path = tmp_path / "prices.py"
    path.write_text(block("docs/task_apps.md", "python", "app"))
    _, app = load_task_app(str(path))
    goods = ("apples", "bread", "cheese", "dates", "eggs")
    arguments = [*(json.dumps({"item": item}) for item in goods), "{oh"]
    asked = [{"name": "price", "arguments": text} for text in arguments]
    calls = [{"id": f"c{i}", "type": "function", "function": function} for i, function in enumerate(asked)]

    def answer(body):
        """Looks all of them up, then says what it has learned."""
        if len(body["messages"]) == 1:
            assert body["tools"][0]["function"]["name"] == "price"
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            return 200, {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
        told = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        assert told.pop() == "no such item"
        prices = dict(zip(goods, map(int, told), strict=True))
        count, first, second = re.search(r"do (\d+) (\w+) and one (\w+)", body["messages"][0]["content"]).groups()
        return gateway.says(str(int(count) * prices[first] + prices[second]))

    gateway.answer = answer
    with serving(app) as url:
        async with TaskAppClient(url, api_key=KEY) as client:
            result = await client.rollout(
                request_body("c", 3, inference_url=f"{gateway.url}/v1/chat/completions?cid=c")
            )
    assert result.outcome == 1.0 and len(result.steps) == 2 and result.warnings == []


def test_the_documented_example_is_the_one_that_is_tested():
    assert block("docs/sdk.md", "python", "example").strip() == SCRIPT.strip()


def test_the_sdk_page_has_every_member_and_only_fields_that_are():
    page = text("docs/sdk.md")
    members = {name for name in vars(RLJob) if not name.startswith("_")} - {"job_id"}
    assert {name for name in members if f"`{name}(" not in page} == set()
    for line in re.findall(r"^\| (JobStatus|Results|Progress|Checkpoint|Point) \| (.*) \|$", page, re.MULTILINE):
        fields = set(re.findall(r"`(\w+)`", line[1]))
        assert fields and fields <= set(getattr(typed, line[0]).__annotations__), line


def test_every_route_of_the_job_server_is_on_the_page():
    page, shown = text("docs/remote.md"), set()
    for method, path in re.findall(r"`(GET|POST) ([^`\s]+)`", page):
        shown.add((method, path.replace("{P}", "/rl/jobs")))
    short = {"{id}": "{job_id}", "{path}": "{path:path}"}
    shown = {(method, re.sub(r"{id}|{path}", lambda m: short[m[0]], path)) for method, path in shown}
    aliases = re.compile(r"/(learning|orchestration)/|/jobs(?!/stream)|/models/|/artifacts/models")
    for route in [*catalog.before, *routes.routes, *reads.routes, *catalog.routes]:
        if not aliases.match(route.path):
            (method,) = route.methods - {"HEAD"}
            assert (method, route.path) in shown, route.path
            shown.discard((method, route.path))
    assert shown == set()


def test_every_refusal_of_the_job_server_is_on_the_page():
    page = text("docs/remote.md")
    for path in (ROOT / "rltui/server").glob("*.py"):
        for status, code in re.findall(r'Refused\(\s*(\d+), "(\w+)"', path.read_text(encoding="utf-8")):
            assert re.search(rf"^\| {status} \|.*`{code}`", page, re.MULTILINE), (status, code)


def test_the_doctors_rules_are_all_listed_with_what_they_look_at():
    page = text("docs/troubleshooting.md")
    listed = dict(re.findall(r"(D\d\d) \| ([^|]+?) (?=\|)", page[page.index("## The Doctor's rules") :]))
    assert listed == {rule.id: rule.title for rule in RULES}
    named = set(re.findall(r"\bD\d\d\b", "".join(path.read_text(encoding="utf-8") for path in WRITTEN)))
    named -= set(re.findall(r'"(D\d\d)"', text("CONTRIBUTING.md")))  # its example
    assert named == set(listed)  # every one of them is among the symptoms as well
    assert set(re.findall(r"D\d\d", page[: page.index("## The Doctor's rules")])) == set(listed)


def test_counts_in_sentences_are_right():
    told = "".join(path.read_text(encoding="utf-8") for path in WRITTEN)
    assert set(re.findall(r"(\d+) stages\b", told)) == {str(len(TITLES))}


def test_every_code_and_stage_of_task_apps_is_told():
    page = text("docs/task_apps.md")
    assert {code for code in CODES if f"`{code}`" not in page} == set()
    assert dict(re.findall(r"(S\d\d) \| ([^|]+?) (?=\|)", page)) == TITLES


def test_every_way_in_which_a_judge_fails_is_told():
    page = text("docs/judges.md")
    codes = set(
        re.findall(r"judge_[a-z_]+", errors.__doc__ + errors.JudgeFailed.__doc__ + errors.JudgeMisconfigured.__doc__)
    )
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_every_variety_has_its_row():
    page = text("docs/algorithms.md")
    assert set(re.findall(r"^\| `(\w+)` \|", page[: page.index("## One episode")], re.MULTILINE)) == set(LOSSES)


def test_every_pain_names_tests_that_there_are():
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", text("docs/pains.md"), re.MULTILINE)
    numbers = [int(number) for number, _ in rows]
    training = numbers.index(1, 1)
    assert numbers == [*range(1, training + 1), *range(1, len(numbers) - training + 1)]
    for number, checked in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", checked)
        assert named and len(named) == checked.count("`") / 2, number
        for path, test in named:
            assert re.search(rf"^(async )?def {test}\(", text(f"tests/{path}"), re.MULTILINE), f"{path}::{test}"


def test_the_run_directory_that_is_shown_is_the_one_that_a_run_has():
    page, layout = text("docs/architecture.md"), text(Path("trainer/rundir/layout.py"))
    table = page[page.index("## The run directory") : page.index("## Where a new thing goes")]
    names = set(re.findall(r"[\w/]+\.(?:jsonl|json|toml)", table))
    assert {name for name in names if "NNNNN" not in name and f'"{name.rpartition("/")[2]}"' not in layout} == set()
    assert len(names) > 8
