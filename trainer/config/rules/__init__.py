"""Rules over more than one key. A rule is a pure function from `Facts` to problems; a list names them all."""

from trainer.config.rules import batch, machine, policy, rewards

RULES = (*batch.RULES, *policy.RULES, *machine.RULES, *rewards.RULES)

__all__ = ["RULES"]
