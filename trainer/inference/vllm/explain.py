"""vLLM's last words as one sentence that says what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_UNKNOWN = re.compile(r"unrecognized arguments: --([\w-]+)")
_BAD_VALUE = re.compile(r"error: argument [^:]*--([\w-]+)[^:]*: (.*)")
_BAD_PARSER = re.compile(r"invalid (tool call|reasoning) parser: (\S+) \(chose from \{ ?(.*?) ?\}")
_MEMORY = re.compile(
    r"out of memory|Available memory on node|No available memory for the cache|less than desired|"
    r"larger than the available KV cache|Cannot allocate memory|DefaultCPUAllocator|MemoryError",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(r"[Mm]odel architectures? .*(?:not supported|failed)|does not support LoRA")
_DIED = re.compile(r"((?:Worker|Engine core) proc\w*) (\S+) died unexpectedly(?: \(exit code: (-?\d+)\))?")
_CORE_DEAD = re.compile(r"EngineDeadError|[Ee]ngine core .*died")
_POINTER = re.compile(r"See (?:root cause|stack trace) \(?above", re.IGNORECASE)
_ERROR = re.compile(r"\b([A-Z]\w*(?:Error|Exception)): (.+)")
_PREFIX = r"^(?:\(.*?pid=\d+\)\s*)?"
_HARMLESS = re.compile(_PREFIX + r"(?:WARNING|INFO|DEBUG)\b")  # may name an error that has not happened
KILLED = "memory may have run out: lower vllm.max_num_seqs"


def refused_option(lines: Iterable[str], given: Collection[str] = ()) -> str | None:
    """What of [vllm] the server did not take, where it ended for that. `given`: the keys of vllm.<other>."""
    for line in lines:
        if found := _UNKNOWN.search(line):
            key = found[1].replace("-", "_")
            key = key if key in given else key.removeprefix("no_")  # --no-x is x = false
            return f"the installed vLLM knows no option --{found[1]}; delete vllm.{key}"
        if found := _BAD_VALUE.search(line):
            key = found[1].replace("-", "_")
            return f"vLLM refuses the value of vllm.{key}: {found[2][:300]}; change or delete it"
        if found := _BAD_PARSER.search(line):
            key = "tool_call_parser" if found[1] == "tool call" else "reasoning_parser"
            known = ", ".join(sorted(name.strip() for name in found[3].split(",")))
            return f"vllm.{key} = {found[2]!r} is not known to the installed vLLM; set it to one of {known}"
    return None


def explain(lines: Iterable[str], code: int) -> str:
    """One sentence of why vLLM ended, from what it printed, and what to do."""
    lines = [line for line in lines if not _HARMLESS.search(line)]
    for line in lines:
        if _MEMORY.search(line):
            where = "vllm.max_model_len, vllm.max_num_seqs or vllm.gpu_memory_utilization"
            return f"vLLM had not enough memory ({_without_prefix(line)}); lower {where}"
        if _UNSUPPORTED.search(line):
            return (
                f"the installed vLLM cannot serve this model ({_without_prefix(line)}); choose another "
                'policy.model_name, or inference.engine = "local"'
            )
    for line in lines:
        if found := _DIED.search(line):
            how = "was killed (signal 9)" if found[3] == "-9" else f"died (exit {found[3]})" if found[3] else "died"
            return f"vLLM's {found[1].lower()} {found[2]} {how}; if nobody ended it, {KILLED}"
    if code == -9:
        return f"vLLM was killed (signal 9); if nobody ended it, {KILLED}"
    how = f"exit {code}" if code >= 0 else f"signal {-code}"
    causes = [found for line in lines if (found := _ERROR.search(line)) and not _POINTER.search(line)]
    if causes:
        return f"vLLM ended ({how}): {causes[-1][0][:300]}"
    dead = any(_CORE_DEAD.search(line) for line in lines)
    return f"vLLM's engine core died; if nobody ended it, {KILLED}" if dead else f"vLLM ended ({how})"


def _without_prefix(line: str) -> str:
    return re.sub(_PREFIX + r"(?:[A-Z]+ [\d:. -]+\[[^\]]*\]\s*)?", "", line).strip()[:300]
