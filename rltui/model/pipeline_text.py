"""The object of model.pipeline_view in words: for the tab and for `rltui pipeline`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import localtime, strftime
from typing import Any

from rltui.model.now import duration_of
from rltui.model.pipeline_view import percents
from rltui.text import clean
from rltui.words import batches, duration, short

View = Mapping[str, Any]
Run = tuple[str, str]  # text, name of a style
_GIB = 1 << 30


def bound_words(view: View) -> tuple[str, str]:
    """("inference-bound", "the trainer waits 42 % of the time for episodes")."""
    bound = view["bound"]
    return (bound["word"], bound["text"]) if bound is not None else ("not known yet", "the first step has not ended")


def over_words(view: View) -> str:
    """Of which steps the shares are."""
    steps = view["steps"]
    return f"last {steps} step{'' if steps == 1 else 's'}" if steps else ""


def wait_words(wait: View) -> str:
    """One line: who waits for whom."""
    on = f": {clean(wait['on'], 120)}" if wait["on"] else ""
    return f"{wait['words']}{on}"


def wait_numbers(wait: View) -> str:
    """How long it goes on now, or its seconds a step: "now 34 s", "1.4 s"."""
    if wait["now"]:
        return f"now {duration(wait['seconds'])}" if wait["seconds"] is not None else "now"
    return seconds(wait["step_s"])


def wait_detail(wait: View) -> list[str]:
    """Since when, how much of the time, and what shortens it."""
    since = wait["since"]
    told = [f"since {strftime('%H:%M:%S', localtime(since))}"] if since is not None else []
    if wait["share"] is not None:
        told.append(f"{percent(wait['share'])} of the time, {seconds(wait['step_s'])} a step")
    if wait["now"]:
        told.append(f"{wait['limit']} ends it")
    keys = [f"{'or' if at else 'shorter by'} {key}" for at, key in enumerate(wait["keys"])]
    return [*filter(None, ["; ".join(told)]), *keys]


def split_rows(view: View) -> list[tuple[str, float, int, float]]:
    """(words, share, percent, seconds) of each part of a step; the percents add up to 100."""
    parts = view["split"]
    whole = percents([part["share"] for part in parts])
    return [(part["words"], part["share"], n, part["seconds"]) for part, n in zip(parts, whole, strict=True)]


def gpu_words(gpu: View) -> list[str]:
    """Role, use and memory."""
    use = percent(gpu["util"]) if gpu.get("util") is not None else "-"
    memory = "-"
    if gpu.get("used_bytes") is not None and gpu.get("total_bytes"):
        memory = f"{gpu['used_bytes'] / _GIB:.0f} of {gpu['total_bytes'] / _GIB:.0f} GiB"
    return [f"GPU {gpu.get('index', '?')}", clean(gpu.get("role") or "", 24), use, memory]


def host_words(machine: View) -> list[tuple[str, str]]:
    """(name, value) of what is known of the host."""
    found = []
    if machine["alloc_retries"] is not None:
        found.append(("retries", f"{machine['alloc_retries']:.0f} of the GPU allocator"))
    if machine["cpu"] is not None:
        found.append(("CPU", percent(machine["cpu"])))
    if machine["rss"] is not None:
        found.append(("memory", f"{machine['rss'] / _GIB:.1f} GiB of our processes"))
    if machine["disk_free_gib"] is not None:
        found.append(("disk", f"{machine['disk_free_gib']:.0f} GiB free"))
    return found


def rollout_words(view: View) -> list[str]:
    rollouts = view["rollouts"]
    lines = []
    if rollouts.get("max"):
        lines.append(f"{rollouts['running']} of {rollouts['max']} running")
        parts = ((rollouts["generating"], "gen"), (rollouts["app"], "app"), (rollouts["judging"], "judge"))
        lines.append(", ".join(f"{word} {count}" for count, word in parts if count) or "none is in flight")
    lines.append(f"busy {percent(rollouts['busy'])}")
    lines.append(f"{short(rollouts['tokens_per_sec'])} tokens/s")
    return lines


def queue_words(view: View) -> list[str]:
    queue = view["queue"]
    if queue.get("need"):
        if (queue.get("ready") or 0) >= queue["need"]:
            return [f"{queue['ready']} ready", batches(queue["ready"], queue["need"])]
        return [f"{queue.get('ready') or 0} of {queue['need']}", "ready"]
    return ["no batch", "is awaited"]


def trainer_words(view: View) -> list[str]:
    trainer = view["trainer"]
    state = [f"now {clean(trainer['state'], 20)}"] if trainer["state"] else []
    rate = f"{short(trainer['tokens_per_sec'])} tokens/s"
    return [*state, f"busy {percent(trainer['busy'])}", f"{seconds(trainer['step_s'])} a step", rate]


def sync_words(view: View) -> list[str]:
    sync = view["sync"]
    version = f"weights v{sync['version']}" if sync["version"] is not None else "no weights"
    state = [f"now {clean(sync['state'], 20)}"] if sync["state"] else []
    return [*state, version, f"{seconds(sync['seconds'])} a step"]


def service_lines(view: View) -> list[tuple[str, str, str]]:
    """(name, text, name of a style) of those that answer the episodes of a run that goes on."""
    lines = []
    if engines := view["engines"]:
        alike = Counter((str(e.get("kind") or "?"), str(e.get("state") or "?"), e.get("version")) for e in engines)
        told = [
            f"{f'{count} ' if count > 1 else ''}{clean(kind, 20)} {clean(state, 20)}"
            + ("" if version is None else f" v{version:g}")
            for (kind, state, version), count in sorted(alike.items(), key=lambda item: item[0][1] == "serving")
        ]
        at = f", {clean(engines[0]['url'], 60)}" if len(engines) == 1 and engines[0].get("url") else ""
        well = all(engine.get("state") == "serving" for engine in engines)
        rate = f"{short(view['rollouts']['tokens_per_sec'])} tokens/s"
        lines.append(("engine", f"{', '.join(told)}, {rate}{at}", "text" if well else "watch"))
    if (gateway := view["gateway"]) is not None:
        urls = [clean(gateway[name], 60) for name in ("url", "public_url") if gateway.get(name)]
        calls = gateway["calls"]
        lines.append(
            ("gateway", ", ".join([f"{calls:g} model call{'' if calls == 1 else 's'} in flight", *urls]), "text")
        )
    if (judge := view["judge"]) is not None:
        oldest = f", the oldest {seconds(judge['oldest_s'])} old" if judge["oldest_s"] is not None else ""
        lines.append(
            ("judge", f"{judge['in_flight'] or 0:g} calls in flight, {judge['queued'] or 0:g} queued{oldest}", "text")
        )
    return lines


def pipeline_lines(view: View) -> list[str]:
    """Plain text of all of it."""
    word, text = bound_words(view)
    over = over_words(view)
    lines = [f"{word}: {text}{', ' if over else ''}{over}"]
    stages = (("rollouts", rollout_words), ("queue", queue_words), ("trainer", trainer_words), ("weights", sync_words))
    lines += [f"  {name:<10}{', '.join(words(view))}" for name, words in stages]
    lines += [f"  {name:<10}{text}" for name, text, _ in service_lines(view)]
    if view["waits"]:
        lines.append("who waits for whom")
        lines += [
            f"  {_share(wait):>5}  {wait_words(wait)} ({wait_numbers(wait)}{'' if wait['now'] else ' a step'})"
            for wait in view["waits"]
        ]
    if view["split"]:
        lines.append("time of a step")
        lines += [f"  {n:>3} %  {words} ({seconds(spent)})" for words, _, n, spent in split_rows(view)]
    lag = view["lag"]
    if lag["counts"]:
        total = sum(count for _, count in lag["counts"])
        limit = "" if lag["limit"] is None else f", limit {lag['limit']}"
        lines.append(f"lag of the last {total} episodes in steps{limit}")
        lines += [f"  {steps:>5}  {count}" for steps, count in lag["counts"]]
    machine = [" ".join(part for part in gpu_words(gpu) if part) for gpu in view["machine"]["gpus"]]
    machine += [f"{name} {value}" for name, value in host_words(view["machine"])]
    return [*lines, *(["machine"] if machine else []), *(f"  {line}" for line in machine)]


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def seconds(value: float | None) -> str:
    """Tenths below ten seconds, milliseconds where those say nothing."""
    return "-" if value is None else duration_of(value)


def _share(wait: View) -> str:
    return percent(wait["share"]) if wait["share"] is not None else "now"
