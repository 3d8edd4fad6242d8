"""The ranks of a learner over the nodes of a run, each a process of its own, seen as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from trainer.devices import Place, visible
from trainer.placing.base import Placed, Placing, Sink
from trainer.processes import torch_environment


class Ranks(Placed):
    """Ends as the first of its processes does; `terminate` ends all. `first` is the rank that ended first."""

    def __init__(self, role: str, processes: Sequence[Placed]) -> None:
        self.role, self._processes, self.first = role, processes, 0
        self.ended = asyncio.get_running_loop().create_future()
        for rank, process in enumerate(processes):
            process.ended.add_done_callback(lambda done, rank=rank: self._one_ended(rank, done.result()))

    def _one_ended(self, rank: int, code: int) -> None:
        if not self.ended.done():
            self.first, self.lost = rank, self._processes[rank].lost
            self.ended.set_result(code)

    def __getitem__(self, rank: int) -> Placed:
        return self._processes[rank]

    @property
    def pid(self) -> int:
        return self._processes[0].pid

    @property
    def tail(self) -> str:
        return self._processes[self.first].tail

    async def terminate(self) -> None:
        await asyncio.gather(*(process.terminate() for process in self._processes))


async def place_ranks(
    placing: Placing, places: Sequence[Place], role: str, words: Callable[[int], Sequence[str]], sinks: Sequence[Sink]
) -> Ranks:
    """One process a rank. Their environment is torchrun's: they meet at the node of rank 0. Raises PlacingError.

    Args:
        words: of a rank with so many CPU threads.
        sinks: of each rank.
    """
    meet = {
        "MASTER_ADDR": placing.nodes[places[0].node].address,
        "MASTER_PORT": str(await placing.free_port(places[0].node)),
        "WORLD_SIZE": str(len(sinks)),
    }
    processes: list[Placed] = []
    try:
        for place in places:
            local = len(place.devices) or 1
            threads = placing.nodes[place.node].cores // local or 1
            for number in range(local):
                rank = len(processes)
                env = meet | _rank(rank, number, local) | torch_environment(threads) | visible(place.devices)
                process = await placing.place(place.node, role, words(threads), sink=sinks[rank], env=env)
                processes.append(process)
    except BaseException:
        await Ranks(role, processes).terminate()
        raise
    return Ranks(role, processes)


def _rank(rank: int, local_rank: int, local_size: int) -> Mapping[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(local_size)}
