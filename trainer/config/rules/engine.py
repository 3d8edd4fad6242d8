"""The engine: its context, its options, and what ties it to the gateway."""

from collections.abc import Iterator

from trainer.config.engine_options import why_refused
from trainer.config.errors import Problem
from trainer.config.facts import Facts
from trainer.config.keys import all_keys

MOST_LORA_RANK = 512  # the largest that vLLM serves
LOCAL = ("max_model_len", "max_num_seqs", "max_parallel_generations", "tool_call_parser")


def options(facts: Facts) -> Iterator[Problem]:
    """Names that are not ours go to the installed vLLM, which checks them; some are the run's own."""
    for key, entry in facts.entries.items():
        section, _, name = key.partition(".")
        if section != "vllm" or not name or key in all_keys() or (reason := why_refused(name)) is None:
            continue
        why = f"not to be set: {reason}"
        yield Problem(entry.key_place, key, why, fix="delete this line", allowed="another option", code="engine_option")


def local_engine(facts: Facts) -> Iterator[Problem]:
    """One note for all that only vLLM reads."""
    if not facts.runs_local_engine:
        return
    idle = [
        key
        for key, entry in facts.entries.items()
        if key.startswith("vllm.")
        and key.partition(".")[2] not in LOCAL
        and (key not in all_keys() or entry.value != all_keys()[key].default)
        and (key, entry.value) != ("vllm.tensor_parallel_size", 1)  # what it does anyway
    ]
    if idle:
        place = facts.entries[idle[0]].key_place
        names = ", ".join(key.removeprefix("vllm.") for key in idle)
        why = f"the local engine generates, and does not read: {names}"
        yield Problem(place, "vllm", why, fix="keep them for vLLM, or delete them", level="note", code="local_engine")


def batch_limit(facts: Facts) -> Iterator[Problem]:
    key, limit = "vllm.max_parallel_generations", "vllm.max_num_seqs"
    if facts.given(key) and facts.given(limit) and facts[key] != facts[limit]:
        why = f"no effect: vllm.max_num_seqs = {facts[limit]} is given at {facts.place(limit)}"
        yield facts.note(key, why, fix="delete this line", code="no_effect")


def lora_rank(facts: Facts) -> Iterator[Problem]:
    has_adapter = facts["policy.trainer_mode"] != "full"
    if has_adapter and facts["training.lora.r"] > MOST_LORA_RANK and not facts.runs_local_engine:
        yield facts.problem(
            "training.lora.r",
            f"vLLM serves adapters of rank {MOST_LORA_RANK} at most",
            allowed=f"an integer >= 1 and <= {MOST_LORA_RANK}",
            fix=f"r = {MOST_LORA_RANK}",
            code="lora_rank",
        )


def running_server(facts: Facts) -> Iterator[Problem]:
    if facts["inference.url"] is not None and facts["inference.engine"] == "local":
        yield facts.problem(
            "inference.engine",
            f"inference.url at {facts.place('inference.url')} names a vLLM server that runs already",
            allowed='"auto" or "vllm" beside inference.url',
            fix='engine = "vllm"',
            code="engine",
        )


def gateway(facts: Facts) -> Iterator[Problem]:
    if facts["inference.tunnel"] != "none" and facts["inference.public_url"] is not None:
        why = f"no effect: inference.public_url = {facts['inference.public_url']} is used"
        yield facts.note("inference.tunnel", why, fix='tunnel = "none"', code="no_effect")


def context_limit(facts: Facts) -> Iterator[Problem]:
    limit, answer = facts["vllm.max_model_len"], facts["policy.max_tokens"]
    if limit is None:
        return
    if facts.model_limit is not None and limit > facts.model_limit:
        yield facts.problem(
            "vllm.max_model_len",
            f"the model's own limit is {facts.model_limit} tokens",
            allowed=f"an integer <= {facts.model_limit}",
            fix=f"max_model_len = {facts.model_limit}",
            code="context_limit",
        )
    if limit <= answer:
        key = "vllm.max_model_len" if facts.given("vllm.max_model_len") else "policy.max_tokens"
        yield facts.problem(
            key,
            f"vllm.max_model_len {limit}{_default(facts, 'vllm.max_model_len')} leaves no room for a prompt beside "
            f"policy.max_tokens {answer}{_default(facts, 'policy.max_tokens')}",
            allowed=f"vllm.max_model_len > {answer}, or policy.max_tokens < {limit}",
            fix=_room(facts, key, limit, answer),
            code="context_limit",
        )
    turns = facts["rollout.max_turns"]
    if limit > answer and turns * answer >= limit:
        key = "vllm.max_model_len" if facts.given("vllm.max_model_len") else "policy.max_tokens"
        yield facts.note(
            key,
            f"max_turns {turns} x max_tokens {answer} = {turns * answer} tokens of answers may not fit into "
            f"max_model_len {limit}, prompts not counted: such an episode ends with context_overflow",
            fix="shorter answers, fewer turns, or a longer context",
            code="context_budget",
        )
    sequence = facts["training.max_seq_len"]
    if sequence is not None and sequence > limit:
        yield facts.problem(
            "training.max_seq_len",
            f"no sequence is longer than vllm.max_model_len {limit}",
            allowed=f"an integer <= {limit}",
            fix=f"max_seq_len = {limit}",
            code="context_limit",
        )
    tokens = facts["training.micro_batch_tokens"]
    if tokens is not None and sequence is not None and tokens < sequence:
        yield facts.problem(
            "training.micro_batch_tokens",
            f"one sequence may have {sequence} tokens (training.max_seq_len) and is never cut",
            allowed=f"an integer >= {sequence}",
            fix=f"micro_batch_tokens = {sequence}",
            code="context_limit",
        )


def _default(facts: Facts, key: str) -> str:
    return "" if facts.given(key) else " (its default)"


def _room(facts: Facts, key: str, limit: int, answer: int) -> str:
    """Half of the context for the answer; or twice the answer as context, where nothing forbids that."""
    shorter = f"max_tokens = {limit // 2}"
    if limit < 2:
        return f"max_model_len = {2 * answer}"
    if key == "policy.max_tokens":
        return shorter
    longer = 2 * answer
    if facts.model_limit is not None and longer > facts.model_limit:
        return f"--set policy.{shorter.replace(' ', '')}"
    return f"max_model_len = {longer}        or   --set policy.{shorter.replace(' ', '')}"


RULES = (options, local_engine, batch_limit, lora_rank, running_server, gateway, context_limit)
