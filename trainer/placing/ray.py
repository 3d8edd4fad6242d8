"""Nodes from a Ray cluster: a placement group with a bundle a node, and in each bundle an actor that holds it.

The asking is a program of its own (`python -m trainer.placing.ray`), a child of the coordinator: Ray's client ends a
process that loses its cluster, which must not be the one that writes down why. The actor's only work is our agent
(agent.py), a process beside it that ends with it. Nothing here is detached: when the program ends, in whatever way, Ray
gives the bundles back and ends the actors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import trainer
from trainer.config import RunConfig
from trainer.devices import gpus_per_node
from trainer.frames import TOKEN
from trainer.placing.agents import AgentPlacing
from trainer.placing.base import PlacingError, Sink

NAMES = ("address", "cpus_per_node")  # of compute.launcher_options; numbers under other names are custom resources
NOT_INSTALLED = "Ray is not installed here: pip install 'rltui[ray]'"
EARLIER_S = 5.0  # the program gives up before the coordinator does, since it knows why
SOON_S = 2.0  # a cluster with room gives it within
LOOK_S = 1.0


class RayPlacing(AgentPlacing):
    """Of the cluster that this machine is a part of: compute.launcher_options.address, else RAY_ADDRESS, else the one
    that was started here."""

    def __init__(self, config: RunConfig, sink: Sink) -> None:
        super().__init__(config.compute.nodes, config.inference.startup_timeout_s, sink)
        if find_spec("ray") is None:
            raise PlacingError(NOT_INSTALLED)
        self._asked = request(config)

    def command(self, port: int) -> list[str]:
        words = [*self._asked, "--port", str(port), "--timeout", str(max(1.0, self._timeout_s - EARLIER_S))]
        return [sys.executable, "-m", "trainer.placing.ray", *words]

    def why_late(self) -> str:
        return "see logs/launcher.log and `ray status`; what is asked for stands in [compute]"


def request(config: RunConfig) -> list[str]:
    """The program's arguments. Raises PlacingError."""
    options = dict(config.compute.launcher_options)
    address, cpus = options.pop("address", None), options.pop("cpus_per_node", 1)
    if address is not None and "://" in str(address):
        hint = "give HOST:PORT of its head, as `ray start --address` takes it, or leave it out"
        raise PlacingError(
            f"compute.launcher_options.address = {address!r}: the coordinator is a part of the cluster", hint
        )
    for name, value in [("cpus_per_node", cpus), *options.items()]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            known = f"{', '.join(NAMES)}, and amounts of custom resources"
            raise PlacingError(f"compute.launcher_options.{name} = {value!r} means nothing to Ray", f"it takes {known}")
    bundles = [{"CPU": cpus, **({"GPU": gpus} if gpus else {}), **options} for gpus in gpus_per_node(config)]
    words = ["--bundles", json.dumps(bundles)]
    if address is not None:
        words += ["--address", str(address)]
    if config.compute.gpu_type and any("GPU" in bundle for bundle in bundles):
        words += ["--gpu-type", config.compute.gpu_type.partition(":")[0]]
    return words


def with_type(bundles: list[dict[str, float]], gpu_type: str, resources: dict[str, float]) -> list[dict[str, float]]:
    """The bundles on GPUs of that type, as Ray's own resource names it, if the cluster tells types at all. Raises
    PlacingError where it has another one alone."""
    prefix = "accelerator_type:"
    types = [name.removeprefix(prefix) for name in resources if name.startswith(prefix)]
    if not types:
        return bundles
    plain = "".join(filter(str.isalnum, gpu_type.upper()))
    found = next((name for name in types if "".join(filter(str.isalnum, name.upper())) in plain), None)
    if found is None:
        raise PlacingError(f"the cluster has no GPU of type {gpu_type}; it has {', '.join(sorted(types))}")
    return [{**bundle, **({f"{prefix}{found}": 0.001} if "GPU" in bundle else {})} for bundle in bundles]


class Holder:
    """Of one bundle, in a worker of Ray. Pickled by value, so that it needs nothing of ours."""

    def run(self, command: list[str], env: dict[str, str]) -> tuple[int, str]:
        """Exit code and last words of our agent."""
        process = subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, words = process.communicate()
        return process.returncode, words.decode(errors="replace").strip()[-2000:]


def hold(args: argparse.Namespace) -> int:
    """Gets the bundles, runs an agent in each, and returns when they have ended."""
    deadline = time.monotonic() + args.timeout
    import ray
    from ray.exceptions import RayError
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address=args.address or "auto", log_to_driver=False, logging_level="WARNING")
    bundles: list[dict[str, float]] = json.loads(args.bundles)
    total = ray.cluster_resources()
    if args.gpu_type:
        bundles = with_type(bundles, args.gpu_type, total)
    group = placement_group(bundles, strategy="STRICT_SPREAD" if len(bundles) > 1 else "PACK")
    if not group.wait(SOON_S):
        _say(f"waiting for {_words(bundles)}; {_has(ray)}")
    if not group.wait(max(SOON_S, deadline - time.monotonic())):
        return _say(f"Ray did not give {_words(bundles)} within {args.timeout:g} s; {_has(ray)}", 1)
    host = ray.util.get_node_ip_address()
    home = str(Path(trainer.__file__).resolve().parent.parent)
    env = {TOKEN: os.environ[TOKEN], "PYTHONPATH": _joined(home), "PYTHONSAFEPATH": "1"}
    running: dict[Any, int] = {}
    holders = []
    for node, bundle in enumerate(bundles):
        holder = ray.remote(Holder).options(
            num_cpus=bundle["CPU"],
            num_gpus=bundle.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node),
        )
        holders.append(holder.remote())
        command = ["-P", "-m", "trainer.placing.agent", f"{host}:{args.port}", "--node", str(node)]
        running[holders[-1].run.remote(command, env)] = node
    while running:
        done, _ = ray.wait(list(running), timeout=LOOK_S)
        for answer in done:
            node = running.pop(answer)
            try:
                code, words = ray.get(answer)
            except RayError as error:
                _say(f"node {node} was lost: {str(error).strip().splitlines()[0]}")
                continue
            if code:  # it never came to work: without it there is no run
                return _say(f"the agent on node {node} ended with status {code}: {words or 'it said nothing'}", 1)
    return 0


def _joined(home: str) -> str:
    rest = os.environ.get("PYTHONPATH")
    return f"{home}{os.pathsep}{rest}" if rest else home


def _words(bundles: list[dict[str, float]]) -> str:
    return f"{len(bundles)} node{'s' * (len(bundles) > 1)} with {json.dumps(bundles)}"


def _has(ray: Any) -> str:
    alive = sum(bool(node["Alive"]) for node in ray.nodes())
    free = {name: free for name, free in ray.available_resources().items() if name in ("CPU", "GPU") or ":" in name}
    free = {name: amount for name, amount in free.items() if not name.startswith("node:")}
    return f"the cluster has {alive} nodes, and free {json.dumps(free)}"


def _say(text: str, code: int = 0) -> int:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}", file=sys.stderr, flush=True)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.placing.ray", description="Holds nodes of a Ray cluster.")
    parser.add_argument("--bundles", required=True, help="JSON: the resources of each node")
    parser.add_argument("--port", required=True, type=int, help="of this machine, where the coordinator listens")
    parser.add_argument("--timeout", required=True, type=float, help="seconds, for the nodes to be given")
    parser.add_argument("--address", default=None, help="HOST:PORT of the cluster's head")
    parser.add_argument("--gpu-type", default=None)
    try:
        return hold(parser.parse_args())
    except PlacingError as error:
        return _say(str(error), 1)
    except ConnectionError as error:  # no cluster is found, or it does not answer
        first = (str(error).strip().splitlines() or ["no answer"])[0]
        return _say(f"there is no Ray cluster here: {first}; start one with `ray start --head`", 1)


if __name__ == "__main__":
    sys.exit(main())
