"""The queue: who may start, in which order, on which GPUs."""

from rltui.server.slots import Places, position, startable
from rltui.server.table import JobRow


def row(number: int, gpus: int = 0, *, devices: list[str] | None = None, placed: bool = True) -> JobRow:
    return JobRow(
        job_id=f"rl_{number}",
        folder="",
        stage="queued",
        created_at=0.0,
        queued_at=float(number),
        number=number,
        gpus=gpus,
        devices=devices or [],
        placed=placed,
    )


def starts(places: Places, holding: list[JobRow], waiting: list[JobRow]) -> dict[int, list[str]]:
    return {row.number: devices for row, devices in startable(places, holding, waiting)}


def test_jobs_on_the_cpu_run_one_at_a_time_in_the_order_of_waiting():
    assert starts(Places((), 1), [], [row(2), row(1)]) == {1: []}
    assert starts(Places((), 1), [row(1)], [row(2)]) == {}
    assert starts(Places((), 3), [row(1)], [row(2), row(3), row(4)]) == {2: [], 3: []}


def test_gpu_jobs_get_free_devices_and_none_is_given_twice():
    places = Places(("0", "1", "2", "3"), 1)
    assert starts(places, [row(1, 2, devices=["0", "2"])], [row(2, 1), row(3, 1)]) == {2: ["1"], 3: ["3"]}


def test_a_large_job_is_not_overtaken_by_small_ones_but_the_cpu_goes_on():
    places = Places(("0", "1"), 1)
    holding = [row(1, 1, devices=["0"])]
    assert starts(places, holding, [row(2, 2), row(3, 1), row(4, 0)]) == {4: []}


def test_a_job_that_wants_more_than_there_is_gets_all():
    assert starts(Places(("0", "1"), 1), [], [row(1, 8)]) == {1: ["0", "1"]}
    assert starts(Places((), 1), [], [row(1, 8)]) == {1: []}


def test_a_job_of_a_cluster_takes_no_place_here():
    assert starts(Places((), 1), [row(1), row(2, placed=False)], [row(3, 8, placed=False)]) == {3: []}


def test_the_position_counts_those_that_wait_for_the_same():
    waiting = [row(1, 1), row(2), row(3, 4), row(4, 0, placed=False), row(5)]
    assert [position(one, waiting) for one in waiting] == [1, 1, 2, 1, 2]
