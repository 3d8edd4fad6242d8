"""The checks of a launch on this machine, in the order in which they are listed."""

from __future__ import annotations

from rltui.launch.base import Launcher
from rltui.preflight.base import Check
from rltui.preflight.config import smoke_report, starts, target, valid
from rltui.preflight.machine import devices, disk, folder, memory, packages, ports
from rltui.preflight.services import engine, judge, model, variables, way_back
from rltui.preflight.task_app import LIMIT_S, contract

CHECKS: tuple[Check, ...] = (
    Check("config", "config", valid, needs=()),
    Check("starts", "can start", starts),
    Check("smoke", "smoke test", smoke_report),
    Check("target", "target", target, limit_s=40.0),  # a job server waits for a task app that is about to start
    Check("folder", "run folder", folder),
    Check("packages", "packages", packages),
    Check("model", "model", model),
    Check("engine", "engine", engine, limit_s=20.0),
    Check("gpus", "GPUs", devices, limit_s=20.0),
    Check("memory", "memory", memory, needs=("config", "gpus")),
    Check("disk", "disk", disk),
    Check("ports", "port", ports),
    Check("variables", "variables", variables),
    Check("way_back", "way back", way_back),
    Check("judge", "judge", judge),
    Check("task_app", "task app", contract, needs=("config", "starts"), limit_s=LIMIT_S, holds=True),
)
# What has no meaning where the run is elsewhere: on nodes of a cluster that sees our files, on the machine of a server.
_OF_THIS_MACHINE = frozenset({"gpus", "memory", "ports", "way_back"})
_OF_A_SERVER = frozenset({"config", "smoke", "target"})


def checks_of(launcher: Launcher | None) -> tuple[Check, ...]:
    """Those of a launch at this target; None: this machine."""
    if launcher is None or launcher.name == "local":
        return CHECKS
    if launcher.shares_disk:
        return tuple(check for check in CHECKS if check.id not in _OF_THIS_MACHINE)
    return tuple(check for check in CHECKS if check.id in _OF_A_SERVER)
