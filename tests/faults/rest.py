"""Faults while a run is at rest: damage to its files, and what comes too late."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import time
from pathlib import Path

from tests.faults.damage import cut_last_line, damage_line, damaged, file_of
from tests.faults.plan import Injection
from tests.faults.scene import Scene


class AtRest:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def damage(self, injection: Injection) -> None:
        scene = self._scene
        what, _, which = injection.kind.partition(":")
        if what in ("corrupt", "cut"):
            made = self._corrupt(injection, which, cut=what == "cut")
        elif what == "asked":
            made = self._ask_too_late(which)
        elif what == "shortened":
            made = cut_last_line(scene.run_dir, f"{which}.jsonl", injection.draw, scene.seen.newest())
        else:
            place = damage_line(scene.run_dir, f"{which}.jsonl", injection.draw, torn=what == "torn")
            made = place is not None
            if place is not None and what == "garbage":
                scene.damaged.add(place)
        if made:
            scene.outcome.injections.append(injection.kind)
            scene.outcome.moments.append("rest")

    def _ask_too_late(self, verb: str) -> bool:
        """A request that nobody takes before the next attempt begins, which must not carry it out."""
        scene = self._scene
        if scene.seen.status().get("state") == "succeeded":
            return False
        control_id = f"{round(time.time() * 1000)}-{secrets.token_hex(4)}"
        by = {"user": "somebody", "host": "elsewhere", "pid": 1, "client": "cli"}
        created = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        request = {"schema": 1, "control_id": control_id, "action": verb, "args": {}, "by": by, "created_at": created}
        folder = scene.run_dir / "control"
        folder.mkdir(exist_ok=True)
        (folder / f"{control_id}.json").write_text(json.dumps(request) + "\n")
        scene.left_over.append(control_id)
        return True

    def _corrupt(self, injection: Injection, which: str, *, cut: bool) -> bool:
        """A resume refuses it, names it and changes nothing; what it says is to be done instead is done."""
        scene = self._scene
        newest = scene.seen.newest()
        if not newest or scene.seen.status().get("state") == "succeeded":
            return False
        path = file_of(scene.run_dir / f"checkpoints/step_{newest}", which)
        path.write_bytes(damaged(path.read_bytes(), injection.draw, cut=cut))
        before = scene.seen.size("events.jsonl")
        words = scene.argv(str(scene.run_dir / "config.toml"), "--run-dir", str(scene.run_dir), "--resume")
        done = scene.call(words)
        if done.returncode != 2 or path.name not in done.stderr or "Traceback" in done.stderr:
            scene.lose(f"a damaged {path.name} was met with {done.returncode}: {done.stderr[-500:]}")
        if scene.seen.size("events.jsonl") > before:
            scene.lose("a refused resume wrote into the record")
        self._go_on_as_told(done.stderr)
        return True

    def _go_on_as_told(self, said: str) -> None:
        """From an older step; else what is left of the plan is played by a new run, of the weights that it names."""
        scene = self._scene
        if older := re.search(r"--resume RUN --from (\d+)", said):
            scene.from_step = int(older[1])
            return
        told = re.search(r"rltui train (.*)", said)
        words = shlex.split(told[1]) if told else []
        if told and (len(words) != 3 or words[1] != "--set"):
            scene.lose(f"not the command that was expected: {told[0]}")
        elif not told and "start the run anew" not in said:
            scene.lose(f"it does not say what to do instead: {said[-500:]}")
        if told:
            scene.config = Path(words[0])
            scene.sets = [item for item in scene.sets if not item.startswith("policy.source=")] + words[2:]
        scene.begin(f"run-{scene.outcome.attempts}")
