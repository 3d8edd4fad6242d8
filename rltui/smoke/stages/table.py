"""The stages in their order."""

from __future__ import annotations

from rltui.smoke.stages.base import Check
from rltui.smoke.stages.failures import failure_paths
from rltui.smoke.stages.groups import concurrent, groups
from rltui.smoke.stages.info import info, task_info
from rltui.smoke.stages.judging import judging
from rltui.smoke.stages.outlook import outlook
from rltui.smoke.stages.reach import health, reachable, wrong_key
from rltui.smoke.stages.single import one_episode, policy_called, repeatable
from rltui.smoke.stages.tokens import tokens

CHECKS: tuple[Check, ...] = (
    Check("S01", "reachable", (), 90.0, reachable),
    Check("S02", "health and key", ("S01",), 30.0, health),
    Check("S03", "wrong key is refused", ("S02",), 60.0, wrong_key),
    Check("S04", "info and limits", ("S02",), 15.0, info),
    Check("S05", "task info of seeds", ("S02",), 60.0, task_info),
    Check("S06", "same seed, same episode", ("S02",), None, repeatable),
    Check("S07", "one episode", ("S02",), None, one_episode),
    Check("S08", "policy called at the given address", ("S02",), None, policy_called),
    Check("S09", "groups", ("S07",), None, groups),
    Check("S10", "concurrency", ("S07",), None, concurrent),
    Check("S11", "tokens and sampling", ("S07",), None, tokens),
    Check("S12", "judge", ("S07",), None, judging),
    Check("S13", "failure paths", ("S02",), None, failure_paths),
    Check("S14", "forecast", ("S09",), None, outlook),
)
