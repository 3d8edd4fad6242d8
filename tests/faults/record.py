"""The record of a run that has ended, read from its raw files alone: what of it is lost, doubled or left over.

Nothing here comes from trainer.rundir: the format is what the documents say it is.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.durations import wrong_durations

Json = dict[str, Any]
Places = set[tuple[str, int]]  # (file, byte) of what was damaged on purpose
INDEX, UPDATE = 512, 320


class Record:
    """`problems` has a sentence for each."""

    def __init__(self, folder: Path, damaged: Places | None = None) -> None:
        self.folder, self._damaged = folder, damaged or set()
        self.problems: list[str] = []
        self.events = self._lines("events.jsonl")
        self.metrics = self._lines("metrics.jsonl")
        self.groups = self._lines("rollouts/groups.jsonl")
        self.index = self._lines("rollouts/index.jsonl", INDEX)
        self.updates = self._lines("rollouts/updates.jsonl", UPDATE)
        self.judged = self._lines("judge.jsonl")
        names = sorted(path.name for path in (folder / "rollouts").glob("text-*.jsonl"))
        self.texts = [line for name in names for line in self._lines(f"rollouts/{name}")]
        self.status: Json = json.loads((folder / "status.json").read_text())
        resumed = [event for event in self.events if event["type"] == "rl.resumed"]
        self.resumes = [(event["data"]["attempt"], event["data"]["from_step"]) for event in resumed]

    def check(self, *, iterations: int, episodes: int, updates: int, lived_s: float) -> list[str]:
        """Of a run that succeeded: `episodes` an iteration, `updates` optimizer steps an iteration, in `lived_s` real
        seconds of all attempts."""
        self._check_events()
        self._check_rows()
        self._check_groups(iterations, episodes)
        self._check_steps(iterations * updates)
        self._check_status(iterations, iterations * updates, iterations * episodes)
        self._check_checkpoints(iterations * updates)
        self._check_leftovers()
        self.problems += wrong_durations(self.status, self.texts, self.index, self.judged, lived_s)
        return self.problems

    # --- lines ----------------------------------------------------------------------------------------------

    def _lines(self, name: str, length: int | None = None) -> list[Json]:
        data = (self.folder / name).read_bytes()
        if data and not data.endswith(b"\n"):
            self._say(f"{name} ends in the middle of a line")
        found, at = [], 0
        for line in data.split(b"\n")[:-1]:
            if length is not None and len(line) + 1 != length:
                self._say(f"{name} has a line of {len(line) + 1} bytes at byte {at}")
            try:
                row = json.loads(line, parse_constant=_refuse)
                if not isinstance(row["attempt"], int) or not isinstance(row["step"], int):
                    raise ValueError("attempt or step is no integer")
                found.append(row)
            except (ValueError, KeyError, TypeError) as error:
                if (name, at) not in self._damaged:
                    self._say(f"{name} has a line at byte {at} that cannot be read: {error}")
            at += len(line) + 1
        return found

    def _counts(self, line: Json) -> bool:
        return not any(later > line["attempt"] and from_step < line["step"] for later, from_step in self.resumes)

    def _check_events(self) -> None:
        seqs = [event["seq"] for event in self.events]
        if seqs != list(range(1, len(seqs) + 1)):
            odd = next(at for at, seq in enumerate(seqs) if seq != at + 1)
            self._say(f"events: seq {seqs[odd]} stands where {odd + 1} belongs")
        attempts = [event["attempt"] for event in self.events]
        if attempts != sorted(attempts):
            self._say("events: an attempt writes after a later one began")

    def _check_rows(self) -> None:
        places = {at // INDEX for name, at in self._damaged if name == "rollouts/index.jsonl"}
        whole = (self.folder / "rollouts/index.jsonl").stat().st_size // INDEX
        wanted = [n for n in range(whole) if n not in places]
        if [row["n"] for row in self.index] != wanted:
            self._say("index: n is not the number of the row")
        for row in self.index:
            segment, offset, length = row["text"]
            text = self._part(f"rollouts/text-{segment:05d}.jsonl", offset, length)
            try:
                told = json.loads(text)
                if (told["n"], told["cid"][: len(row["cid"])]) != (row["n"], row["cid"]):
                    self._say(f"index: row {row['n']} points to the text of episode {told['n']}")
            except ValueError:
                self._say(f"index: row {row['n']} points to no line of text")
                continue
            for branch in told["branches"]:
                self._check_block(row["n"], branch["arr"])
        for line in self.updates:
            if line["n"] >= whole:
                self._say(f"updates: a line of episode {line['n']}, which there is not")
            if line["kind"] == "use":
                self._check_block(line["n"], line["arr"])

    def _check_block(self, n: int, place: list[int]) -> None:
        segment, offset, length = place
        block = self._part(f"rollouts/tokens-{segment:05d}.bin", offset, length)
        if len(block) < 8 or zlib.crc32(block[:-4]) != struct.unpack("<I", block[-4:])[0]:
            self._say(f"tokens: the block of episode {n} at byte {offset} is damaged")
            return
        (size,) = struct.unpack("<I", block[:4])
        if json.loads(block[4 : 4 + size])["n"] != n:
            self._say(f"tokens: the block at byte {offset} is not of episode {n}")

    def _part(self, name: str, offset: int, length: int) -> bytes:
        with (self.folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    # --- what counts ----------------------------------------------------------------------------------------

    def _check_groups(self, iterations: int, episodes: int) -> None:
        counting = [g for g in self.groups if g["split"] == "train" and g["dropped"] is None and self._counts(g)]
        members = [n for group in counting for n in group["members"]]
        self._no_doubles("an episode is in two groups", members)
        self._no_doubles("a group closed twice", [group["group"] for group in counting])
        per_iteration: Counter[int] = Counter()
        for group in counting:
            per_iteration[group["iteration"]] += len(group["members"])
        wrong = {i: per_iteration[i] for i in range(1, iterations + 1) if per_iteration[i] != episodes}
        if wrong or len(per_iteration) != iterations:
            self._say(f"groups: episodes by iteration are {dict(sorted(per_iteration.items()))}, not {episodes} each")
        rows = {row["n"]: row for row in self.index}
        for group in counting:
            for n in group["members"]:
                if n in rows and (rows[n]["group"], rows[n]["seed"]) != (group["group"], group["seed"]):
                    self._say(f"groups: group {group['group']} has episode {n} of group {rows[n]['group']}")
                if n in rows and rows[n]["excl"] is not None:
                    self._say(f"groups: group {group['group']} has the excluded episode {n}")
        used = [(line["n"], line["branch"]) for line in self.updates if line["kind"] == "use" and self._counts(line)]
        self._no_doubles("a sequence was trained on twice", used)
        if strangers := {n for n, _ in used} - set(members):
            self._say(f"updates: trained on episodes of no accepted group: {sorted(strangers)[:5]}")

    def _check_steps(self, steps: int) -> None:
        made = Counter(line["step"] for line in self.metrics if "time/step" in line and self._counts(line))
        if wrong := {step: made[step] for step in range(1, steps + 1) if made[step] != 1}:
            self._say(f"metrics: lines by step that are not one: {dict(list(wrong.items())[:8])}")
        if more := [step for step in made if step > steps or step < 1]:
            self._say(f"metrics: steps that there are not: {sorted(more)[:5]}")

    def _no_doubles(self, what: str, items: list[Any]) -> None:
        if twice := [item for item, count in Counter(items).items() if count > 1]:
            self._say(f"{what}: {twice[:5]}")

    # --- the end --------------------------------------------------------------------------------------------

    def _check_status(self, iterations: int, steps: int, accepted: int) -> None:
        status = self.status
        wanted = {
            "state": "succeeded", "phase": "done", "error": None, "children": [], "step": steps, "waiting": None,
            "iteration": iterations, "paused": None, "attempt": max([1, *(attempt for attempt, _ in self.resumes)]),
        }  # fmt: skip
        if wrong := {name: status[name] for name, value in wanted.items() if status[name] != value}:
            self._say(f"status: {wrong}")
        if (status["episodes"]["accepted"], status["episodes"]["running"]) != (accepted, 0):
            self._say(f"status: episodes {status['episodes']}, not {accepted} accepted and 0 running")
        for attempt in range(1, status["attempt"]):
            for name in ("resolved", "environment"):
                if not (self.folder / f"{name}.{attempt}.json").is_file():
                    self._say(f"{name}.{attempt}.json is missing")

    def _check_checkpoints(self, steps: int) -> None:
        folder = self.folder / "checkpoints"
        found = sorted((int(path.name[5:]), path) for path in folder.glob("step_*"))
        if not found or found[-1][0] != steps:
            self._say(f"checkpoints: of steps {[step for step, _ in found]}, none of step {steps}")
        for _, path in found:
            self.problems += wrong_sums(path)
        if found and not (found[-1][1] / "optimizer/manifest.json").is_file():
            self._say(f"checkpoints: {found[-1][1].name}, the newest, has no optimizer state")
        for name in ("latest", "best"):
            pointer = folder / f"{name}.json"
            if pointer.is_file() and not (folder / json.loads(pointer.read_text())["path"]).is_dir():
                self._say(f"checkpoints: {name}.json points to one that is not there")
        if not (folder / "latest.json").is_file() or json.loads((folder / "latest.json").read_text())["step"] != steps:
            self._say("checkpoints: latest.json is not the newest")

    def _check_leftovers(self) -> None:
        gone = [self.folder / "lock", self.folder / "reserve", *(self.folder / "weights").iterdir()]
        gone += [path for path in self.folder.rglob(".*") if path.name != ".ballast"]
        if left := [str(path.relative_to(self.folder)) for path in gone if path.exists()]:
            self._say(f"left over: {', '.join(left)}")

    def _say(self, problem: str) -> None:
        self.problems.append(problem)


def wrong_sums(checkpoint: Path) -> list[str]:
    """Of one checkpoint folder, that of its optimizer state among them."""
    problems = []
    try:
        manifest = (checkpoint / "manifest.json").read_bytes()
        if hashlib.sha256(manifest).hexdigest() != (checkpoint / "STABLE").read_text().strip():
            problems.append(f"{checkpoint.name}: STABLE is not the sum of its manifest")
        listed = [(checkpoint, json.loads(manifest)["files"])]
        if (optimizer := checkpoint / "optimizer/manifest.json").is_file():
            listed.append((optimizer.parent, json.loads(optimizer.read_bytes())["files"]))
        for folder, files in listed:
            for entry in files:
                data = (folder / entry["path"]).read_bytes()
                if (len(data), hashlib.sha256(data).hexdigest()) != (entry["bytes"], entry["sha256"]):
                    problems.append(f"{checkpoint.name}: {entry['path']} has another sum")
    except (OSError, ValueError, KeyError) as error:
        problems.append(f"{checkpoint.name} cannot be read: {error}")
    return problems


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
