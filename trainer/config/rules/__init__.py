"""Rules over more than one key. A rule is a pure function from `Facts` to problems; a list names them all."""

from trainer.config.rules import batch, engine, machine, policy, repeatable, rewards, unused

RULES = (
    *batch.RULES,
    *policy.RULES,
    *engine.RULES,
    *machine.RULES,
    *rewards.RULES,
    *repeatable.RULES,
    *unused.RULES,
)

__all__ = ["RULES"]
