"""Batch arithmetic, lag and evaluation (CONFIG section 3)."""

from collections import Counter
from collections.abc import Iterator
from math import gcd, isqrt

from trainer.config.derive import arithmetic
from trainer.config.errors import Problem
from trainer.config.facts import Facts, Unusable
from trainer.config.fixes import ways

MOST_TRIED = 100_000  # divisors; exact for iterations of up to 10^10 episodes


def nearest_divisors(number: int, near: int, at_least: int) -> list[int]:
    """The divisors of `number` around `near`, below and above, none below `at_least`."""
    small = [d for d in range(1, min(isqrt(number), MOST_TRIED) + 1) if number % d == 0]
    divisors = sorted({d for s in small for d in (s, number // s) if d >= at_least})
    below = [d for d in divisors if d <= near][-1:]
    above = [d for d in divisors if d > near][:1]
    return below + above


def group_size(facts: Facts) -> Iterator[Problem]:
    size = facts["training.group_size"]
    per_batch, batches = facts["rollout.episodes_per_batch"], facts["rollout.batches_per_step"]
    episodes = per_batch * batches
    if episodes % size == 0:
        return
    near = nearest_divisors(episodes, size, at_least=2)
    best = min(near, key=lambda divisor: abs(divisor - size))
    step = size // gcd(size, batches)
    next_per_batch = -(-per_batch // step) * step
    yield facts.problem(
        "training.group_size",
        f"episodes per iteration = episodes_per_batch {per_batch} x batches_per_step {batches} = {episodes}; "
        f"{episodes} / {size} = {episodes / size:.4g} groups",
        allowed=f"a divisor of {episodes} that is >= 2 (nearest: {', '.join(map(str, near))})",
        fix=f"group_size = {best}        or   --set rollout.episodes_per_batch={next_per_batch}",
        code="batch_arithmetic",
    )


def _groups(facts: Facts) -> int:
    """Groups of an iteration; Unusable while episodes are not whole groups: that error comes first."""
    numbers = arithmetic(facts)
    if numbers["E"] % facts["training.group_size"]:
        raise Unusable("training.group_size")
    return numbers["groups"]


def uneven_updates(facts: Facts) -> Iterator[Problem]:
    """Updates that split groups, and a last one that is smaller."""
    _groups(facts)
    numbers, size = arithmetic(facts), facts["training.group_size"]
    episodes, update, steps = numbers["E"], numbers["U"], numbers["m"]
    if steps == 1:
        return
    parts = []
    if update % size:
        parts.append(
            f"{update} / {size} = {update / size:.3g} groups an update: some groups are split between two updates "
            "(advantages are computed before, so they stay right)"
        )
    if last := episodes % update:
        parts.append(
            f"{episodes} / {update} = {episodes / update:.3g} updates: the last of an iteration has {last} sequences "
            "and its own mean, so each of them weighs more"
        )
    if parts:
        yield facts.note("training.batch_size", "; ".join(parts), code="uneven_updates")


def batch_size(facts: Facts) -> Iterator[Problem]:
    numbers = arithmetic(facts)
    size = facts["training.batch_size"]
    if size > numbers["E"]:
        yield facts.note(
            "training.batch_size",
            f"an iteration has {numbers['E']} episodes, so no update has more than {numbers['E']} sequences",
            code="batch_size",
        )
    most, steps = facts["training.max_accumulated_minibatch"], facts["training.gradient_accumulation_steps"]
    if most is not None and most < steps:
        yield facts.note(
            "training.max_accumulated_minibatch",
            f"lowers the minibatches of one update from {steps} to {most}: {numbers['U']} sequences",
            code="accumulation",
        )
    said = facts["data.episodes_per_iteration"]
    if said is not None and said != numbers["E"]:
        yield facts.note(
            "data.episodes_per_iteration",
            f"no effect: episodes per iteration = episodes_per_batch x batches_per_step = {numbers['E']}",
            fix="delete this line",
            code="no_effect",
        )


def max_turns(facts: Facts) -> Iterator[Problem]:
    turns = facts["rollout.max_turns"]
    if facts.given("training.max_turns") and facts["training.max_turns"] != turns:
        yield facts.problem(
            "training.max_turns",
            f"rollout.max_turns = {turns} at {facts.place('rollout.max_turns')}; the two must be equal",
            allowed=str(turns),
            fix="delete this line",
            code="max_turns",
        )


def max_lag(facts: Facts) -> Iterator[Problem]:
    lag, interval = facts["training.max_lag"], facts["training.weight_sync_interval"]
    if not facts["training.weight_sync.enable"]:
        if facts.given("training.max_lag"):
            why = "ignored: training.weight_sync.enable is false, so the engine never gets new weights"
            yield facts.note("training.max_lag", why, code="max_lag")
        return
    if 0 < lag < interval:
        yield facts.problem(
            "training.max_lag",
            f"weights reach the engine every {interval} updates (training.weight_sync_interval), "
            f"so a lag of at most {lag} cannot be kept",
            allowed=f"0 (synchronous), or >= {interval}",
            fix=f"max_lag = {interval}        or   --set training.weight_sync_interval={lag}",
            code="max_lag",
        )


def anchor(facts: Facts) -> Iterator[Problem]:
    numbers = arithmetic(facts)
    if facts["training.anchor"] == "proximal" and numbers["m"] < 2:
        yield facts.problem(
            "training.anchor",
            f"{numbers['E']} episodes / update size {numbers['U']} = 1 update per iteration; "
            "then the ratio is 1 and the clip idle",
            allowed="proximal with >= 2 updates per iteration, or behavior",
            fix=ways('anchor = "behavior"', *_smaller_updates(facts, numbers["E"])),
            code="anchor",
        )


def _smaller_updates(facts: Facts, episodes: int) -> list[str]:
    """As a fix: a batch size with which an iteration has two updates, if any has."""
    minibatches = arithmetic(facts)["U"] // facts["training.batch_size"]
    size = -(-episodes // 2) // minibatches
    return [f"--set training.batch_size={size}"] if size >= 1 else []


def warmup(facts: Facts) -> Iterator[Problem]:
    total = arithmetic(facts)["iterations"]
    if facts["training.warmup_iters"] >= total:
        yield facts.problem(
            "training.warmup_iters",
            f"the run has {total} iterations in total",
            allowed=f"an integer >= 0 and < {total}",
            fix=f"warmup_iters = {total // 10}",
            code="warmup",
        )


def seeds(facts: Facts) -> Iterator[Problem]:
    """Training seeds wrap after seed_count, and those held out for evaluation are skipped."""
    count = facts["data.seed_count"]
    if count is None:
        return
    groups = _groups(facts)
    start = facts["data.seed_start"]
    skipped = 0
    if facts.evaluates:
        skipped = len({seed for seed in facts["evaluation.seeds"] if start <= seed < start + count})
    if count - skipped < groups:
        held = f"; {skipped} of the {count} seeds from {start} are held out for evaluation" if skipped else ""
        enough = _enough_seeds(facts, start, groups)
        yield facts.problem(
            "data.seed_count",
            f"an iteration has {groups} groups, each with a seed of its own{held}",
            allowed=f"an integer >= {enough}",
            fix=f"seed_count = {enough}",
            code="seed_count",
        )


def _enough_seeds(facts: Facts, start: int, groups: int) -> int:
    held_out = sorted(set(facts["evaluation.seeds"])) if facts.evaluates else []
    count = groups
    for seed in held_out:
        if start <= seed < start + count:
            count += 1
    return count


def dead_groups(facts: Facts) -> Iterator[Problem]:
    most, groups = facts["rollout.max_refill_groups"], _groups(facts)
    if most > groups:
        why = f"an iteration has {groups} groups, so at most {groups} are ever replaced"
        yield facts.note("rollout.max_refill_groups", why, fix=f"max_refill_groups = {groups}", code="refill")


def evaluation(facts: Facts) -> Iterator[Problem]:
    if not facts.evaluates:
        return
    seeds = facts["evaluation.seeds"]
    if len(set(seeds)) < len(seeds):
        twice = sorted(seed for seed, count in Counter(seeds).items() if count > 1)
        why = f"seeds given more than once count more than once: {', '.join(map(str, twice[:8]))}"
        yield facts.warning("evaluation.seeds", why, fix="delete the duplicates", code="duplicate_seeds")
    episodes = facts["evaluation.instances"]
    if facts["evaluation.temperature"] == 0 and episodes > len(seeds):
        yield facts.note(
            "evaluation.instances",
            f"{episodes} greedy episodes over {len(seeds)} seeds = {episodes / len(seeds):.3g} of each seed; "
            "greedy episodes of one seed repeat themselves unless the environment is random",
            fix=f"instances = {len(seeds)}        or   --set evaluation.temperature=0.7, or more seeds",
            code="evaluation_repeats",
        )
    every, total = facts["evaluation.every_n_iters"], arithmetic(facts)["iterations"]
    if every > total:
        yield facts.note(
            "evaluation.every_n_iters",
            f"the run has {total} iterations in total, so it evaluates at the first and after the last only",
            fix="every_n_iters = 0",
            code="evaluation_rare",
        )
    saved = facts["checkpoint.every_n_iters"]
    chosen = facts.given("checkpoint.every_n_iters") and facts["checkpoint.keep_best"]
    if chosen and 0 < every < total and (saved == 0 or every % saved):
        often = f"after every {saved} iterations and" if saved else "only"
        yield facts.note(
            "evaluation.every_n_iters",
            f"the best checkpoint is chosen where an evaluation meets one: checkpoints are made {often} at the end, "
            f"evaluations after every {every}",
            fix=f"--set checkpoint.every_n_iters={every}",
            code="best_between",
        )
    most, cap = facts["rollout.max_concurrent_rollouts"], "evaluation.max_concurrent_rollouts"
    if facts.given(cap) and facts[cap] > most:
        why = f"rollout.max_concurrent_rollouts = {most} counts evaluation episodes, too"
        yield facts.note(cap, why, fix=f"max_concurrent_rollouts = {most}", code="concurrency")


RULES = (
    group_size,
    uneven_updates,
    batch_size,
    max_turns,
    max_lag,
    anchor,
    warmup,
    seeds,
    dead_groups,
    evaluation,
)
