"""The stages in their order."""

from __future__ import annotations

from rltui.smoke.report import TITLES
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
    Check("S01", TITLES["S01"], (), 90.0, reachable),
    Check("S02", TITLES["S02"], ("S01",), 30.0, health),
    Check("S03", TITLES["S03"], ("S02",), 60.0, wrong_key),
    Check("S04", TITLES["S04"], ("S02",), 15.0, info),
    Check("S05", TITLES["S05"], ("S02",), 60.0, task_info),
    Check("S06", TITLES["S06"], ("S02",), None, repeatable),
    Check("S07", TITLES["S07"], ("S02",), None, one_episode),
    Check("S08", TITLES["S08"], ("S02",), None, policy_called),
    Check("S09", TITLES["S09"], ("S07",), None, groups),
    Check("S10", TITLES["S10"], ("S07",), None, concurrent),
    Check("S11", TITLES["S11"], ("S07",), None, tokens),
    Check("S12", TITLES["S12"], ("S07",), None, judging),
    Check("S13", TITLES["S13"], ("S02",), None, failure_paths),
    Check("S14", TITLES["S14"], ("S09",), None, outlook),
)
