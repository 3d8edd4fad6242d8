"""A run whose every text is hostile, as a model, a task app or a stranger's folder can make it: what verbs print and
what they export. Screens have tests of their own (docs/security.md)."""

import csv
import json
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rltui.cli.main import main
from rltui.sources.base import Unreadable
from rltui.sources.local import LocalRunSource
from trainer.rundir.layout import INDEX_BYTES
from trainer.rundir.synth import SynthConfig, write_run

EVIL = "\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202e\u200b\x08\r\x00<script>x</script>"
# Words of ours by which a reader goes, and places; `NAMES` are tested for themselves.
STRUCTURE = {
    "state", "phase", "end_reason", "type", "kind", "split", "stop", "excl", "origin", "level", "status", "cid",
    "job_id", "path", "source", "host", "boot_id", "checkpoints_dir", "role",
}  # fmt: skip
NAMES = ("state", "phase", "end_reason")
RUN = "bad-rl_00000000000000aa"
VERBS = (
    ["runs"],
    ["show", "bad"],
    ["overview", "bad"],
    ["metrics", "bad"],
    ["rollouts", "bad"],
    ["rollout", "bad", "3"],
    ["pipeline", "bad"],
    ["events", "bad"],
    ["logs", "bad"],
    ["compare", "bad", RUN],
    ["doctor", "bad"],
    ["judge", "--run", "bad", "--disagreement"],
    ["show", f"nope{EVIL}"],
    ["runs", "nope\x1b[2J"],
    ["runs", "--nope\x1b[2J"],
    ["validate", "nope\x1b[2J.toml"],
)


def spoilt(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: spoilt(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [spoilt(item, key) for item in value]
    free = isinstance(value, str) and key not in STRUCTURE and not key.endswith("_at")
    return value[: len(value) // 2] + EVIL + value[len(value) // 2 :] if free else value


def spoil_lines(file: Path) -> None:
    file.write_text("".join(json.dumps(spoilt(json.loads(line))) + "\n" for line in file.read_text().splitlines()))


def spoil_episodes(folder: Path) -> None:
    index, texts = folder / "rollouts/index.jsonl", folder / "rollouts/text-00000.jsonl"
    data, before, rows, after = index.read_bytes(), texts.read_bytes(), [], b""
    for at in range(0, len(data), INDEX_BYTES):
        row = json.loads(data[at : at + INDEX_BYTES])
        _, offset, count = row["text"]
        line = json.dumps(spoilt(json.loads(before[offset : offset + count]))).encode() + b"\n"
        row |= {"text": [0, len(after), len(line)], "stop": "\x1b[2J"}
        after += line
        rows.append(json.dumps(row, separators=(",", ":")).encode().ljust(INDEX_BYTES - 1) + b"\n")
    index.write_bytes(b"".join(rows))
    texts.write_bytes(after)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    runs = tmp_path_factory.mktemp("hostile") / "runs"
    folder = runs / RUN
    write_run(folder, SynthConfig(episodes=16, kind="failed", learner_blocks=False, judge=True))
    for name in ("status.json", "resolved.json", "environment.json"):
        (folder / name).write_text(json.dumps(spoilt(json.loads((folder / name).read_bytes()))))
    for name in ("events.jsonl", "judge.jsonl", "rollouts/groups.jsonl"):
        spoil_lines(folder / name)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    more = {f"=1+1{EVIL}": 1.0, f"reward/{EVIL}": 2.0}
    (folder / "metrics.jsonl").write_text("".join(json.dumps({**line, **more}) + "\n" for line in metrics))
    spoil_episodes(folder)
    for log in (folder / "logs").iterdir():
        log.write_text(f"{log.read_text()}{EVIL} ERROR x\n")
    (folder / "logs" / "e\x1b[2Jvil.log").write_text("x\n")
    return runs


@pytest.fixture
def rltui(runs, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(runs.parent)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(*args: str) -> str:
        try:
            main(args)
        except SystemExit:
            pass
        return "".join(capsys.readouterr())

    return run


def obeyed(text: str) -> set[str]:
    """What a terminal would obey in it, and what nobody would see."""
    joiners = "\u200c\u200d"
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in ("\n", *joiners)}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:2]).encode("ascii", "replace").decode()[:20])
def test_nothing_that_a_verb_prints_can_act_on_the_terminal(rltui, verb):
    for args in (verb, [*verb, "--json"]):
        out = rltui(*args)
        assert out and not obeyed(out), args
        assert "Traceback" not in out and "fault of its own" not in out


@pytest.mark.parametrize("name", NAMES)
def test_words_of_ours_are_not_believed_to_be_words(runs, name, tmp_path):
    """They are shown as they stand, so a record in which they are anything else is damaged."""
    status = json.loads((runs / RUN / "status.json").read_bytes())
    (tmp_path / "status.json").write_text(json.dumps({**status, name: f"failed{EVIL}"}))
    source = LocalRunSource(tmp_path)
    if name == "state":
        with pytest.raises(Unreadable, match="its state is not a word"):
            source.status()
    else:
        assert name not in source.status()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def test_a_report_holds_no_script_and_no_control(rltui, tmp_path):
    out = tmp_path / "report.html"
    rltui("export", "bad", "--what", "report", "--out", str(out))
    text, tags = out.read_text(), Tags()
    tags.feed(text)
    assert not {"script", "img", "iframe", "a", "href", "src"} & tags.found
    assert not any(name.startswith("on") for name in tags.found)
    assert "&lt;script&gt;" in text and not obeyed(text) and "default-src 'none'" in text


def test_a_table_begins_no_formula(rltui, tmp_path):
    out = tmp_path / "metrics.csv"
    rltui("export", "bad", "--what", "metrics", "--out", str(out))
    with out.open(newline="") as file:
        rows = list(csv.reader(file))
    assert any(name.startswith("'=1+1") for name in rows[0])
    assert not [cell for cell in rows[0] if cell[:1] in ("=", "+", "-", "@")] and not obeyed("".join(rows[0]))
    for cell in (cell for row in rows[1:] for cell in row if cell):
        float(cell)
