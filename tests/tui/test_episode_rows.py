from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.model.episode_view import EpisodeView
from rltui.model.episodes import KEPT_PAGES, PAGE_ROWS, EpisodeRows, _Numbers
from rltui.sources.local import LocalRunSource
from trainer.rundir import RunReader
from trainer.rundir.resume import counts
from trainer.rundir.synth import play, write_run
from trainer.rundir.synth_data import SynthConfig

N = 320


class Counted(LocalRunSource):
    """Counts the rows that were asked for."""

    read = 0

    def index(self, n0: int, n1: int, fields: Sequence[str] | None = None) -> list[dict[str, Any]]:
        self.read += n1 - n0
        return super().index(n0, n1, fields)


def refreshed(rows: EpisodeRows) -> EpisodeRows:
    while rows.refresh()[1]:
        pass
    return rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=6))
def test_numbers_of_rows_and_rows_of_numbers(count: int, cuts: list[tuple[int, int]]) -> None:
    gone = {n for start, size in cuts for n in range(start, start + size) if n < count}
    ranges: list[tuple[int, int]] = []
    for n in sorted(gone):
        if ranges and ranges[-1][1] == n:
            ranges[-1] = ranges[-1][0], n + 1
        else:
            ranges.append((n, n + 1))
    numbers = _Numbers(count, tuple(ranges))
    kept = [n for n in range(count) if n not in gone]
    assert numbers.size == len(kept)
    assert [numbers.n_at(i) for i in range(len(kept))] == kept
    assert [numbers.find(n) for n in range(-1, count + 1)] == [
        kept.index(n) if n in kept else None for n in range(-1, count + 1)
    ]


def test_rows_in_both_orders_and_their_places(tmp_path: Path) -> None:
    source = LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=N)))
    everything = source.index(0, source.episode_count())
    rows = refreshed(EpisodeRows(source))
    assert [rows.row(i) for i in range(len(rows))] == everything
    rows.order = "newest"
    assert rows.row(0) == everything[-1] and rows.find(everything[-1]["n"]) == 0
    assert rows.find(0) == len(rows) - 1 and rows.find(len(everything)) is None
    for i in (-1, len(rows)):
        with pytest.raises(IndexError):
            rows.row(i)


def test_opening_reads_no_row_and_a_screen_one_page(tmp_path: Path) -> None:
    source = Counted(write_run(tmp_path / "run", SynthConfig(episodes=1_600)))
    rows = refreshed(EpisodeRows(source, "newest"))
    assert len(rows) > 1_600 and source.read == 0
    for i in range(600, 640):
        rows.row(i)
    assert source.read <= 2 * PAGE_ROWS
    for i in range(600, 640):
        rows.row(i)
    assert source.read <= 2 * PAGE_ROWS


def test_no_more_pages_are_kept_than_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.model.episodes.PAGE_ROWS", 2)
    rows = refreshed(EpisodeRows(LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=N)))))
    for i in range(len(rows)):
        assert rows.row(i)["n"] == i
    assert len(rows._pages) == KEPT_PAGES


def test_rows_of_an_attempt_that_was_taken_back_vanish(tmp_path: Path) -> None:
    """Looked at after every iteration: those already known go, and a view keeps only what counts."""
    root = tmp_path / "run"
    rows = EpisodeRows(LocalRunSource(root))
    view = EpisodeView(rows, lambda row: row["split"] == "train", fields=("split",))
    lengths = []
    for _ in play(root, SynthConfig(episodes=N, kind="resumed")):
        refreshed(rows)
        list(view.scan())
        lengths.append(len(rows))
    assert rows.version > 0 and lengths[-1] < rows.recorded
    refreshed(rows)
    list(view.scan())
    reader = RunReader(root)
    resumes = reader.resumes()
    expected = [row for row in reader.index() if counts(row, resumes)]
    assert [rows.n_at(i) for i in range(len(rows))] == [row["n"] for row in expected]
    assert [view.n_at(i) for i in range(len(view))] == [row["n"] for row in expected if row["split"] == "train"]
    assert len(view) == N and all(rows.row(i)["n"] == rows.n_at(i) for i in range(len(rows)))


def test_the_last_page_is_read_again_when_it_grew(tmp_path: Path) -> None:
    root = tmp_path / "run"
    rows = EpisodeRows(LocalRunSource(root))
    for _ in play(root, SynthConfig(episodes=96)):
        refreshed(rows)
        assert rows.row(len(rows) - 1)["n"] == len(rows) - 1 and "cid" in rows.row(len(rows) - 1)


def test_views_filter_and_sort_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", 50)
    source = LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=N, kind="failed")))
    rows = refreshed(EpisodeRows(source))
    total = len(rows)
    fields = ("iteration", "split")
    view = EpisodeView(rows, lambda row: (row["iteration"], row["split"]) == (7, "train"), fields=fields)
    progress = list(view.scan())
    assert progress[0] == (50, total) and progress[-1] == (total, total)
    assert [view.row(i) for i in range(len(view))] == source.episodes("train", 7)
    assert view.find(view.n_at(3)) == 3 and view.find(0) is None
    rows.order = "newest"
    assert view.row(0) == source.episodes("train", 7)[-1] and view.find(view.n_at(3)) == 3
    best = EpisodeView(rows, key=lambda row: row.get("R"), reverse=True, fields=("R",))
    list(best.scan())
    rewards = [best.row(i)["R"] for i in range(len(best))]
    known = [reward for reward in rewards if reward is not None]
    assert len(rewards) == total and known == sorted(known, reverse=True)
    assert None in rewards and rewards[len(known) :] == [None] * (total - len(known))
    mixed = EpisodeView(rows, key=lambda row: row["n"] if row["n"] % 2 else str(row["n"]), fields=())
    list(mixed.scan())
    assert len(mixed) == total


def test_the_newest_are_looked_at_first_and_the_best_so_far_show_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 times as many rows one slice is decoded for the first screenful, filtered or sorted."""
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", N // 20)
    source = Counted(write_run(tmp_path / "run", SynthConfig(episodes=N)))
    rows = refreshed(EpisodeRows(source, "newest"))
    total = len(rows)
    kept, best = (
        EpisodeView(rows, lambda row: True, fields=()),
        EpisodeView(rows, key=lambda row: row["R"], fields=("R",)),
    )
    for view in (kept, best):
        source.read = 0
        scan = view.scan()
        next(scan)
        assert source.read == len(view) == view.scanned == N // 20
        first = {view.n_at(i) for i in range(len(view))}
        assert first == set(range(total - N // 20, total))
        list(scan)
        assert len(view) == view.scanned == total
    assert [kept.n_at(i) for i in range(total)] == list(range(total))[::-1]
    values = [best.row(i)["R"] for i in range(total)]
    assert values == sorted(values)


def test_rows_that_come_during_a_search_are_found_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", 16)
    path = tmp_path / "run"
    iterations = play(path, SynthConfig(kind="running", episodes=N))
    for _ in range(4):
        next(iterations)
    rows = refreshed(EpisodeRows(LocalRunSource(path), "newest"))
    view = EpisodeView(rows, fields=("R",))
    next(view.scan())
    for _ in range(2):
        next(iterations)
    refreshed(rows)
    list(view.scan())
    assert [view.n_at(i) for i in range(len(view))] == list(range(len(rows)))[::-1]
    assert list(view.rewards) == [rows.of(n)["R"] for n in range(len(rows))]


def test_a_damaged_row_has_nothing_but_its_number(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=64))
    with (root / "rollouts" / "index.jsonl").open("r+b") as file:
        file.seek(512 * 20)
        file.write(b"\xff" * 200)
    rows = refreshed(EpisodeRows(LocalRunSource(root)))
    assert rows.row(20) == {"n": 20} and rows.row(21)["n"] == 21 and len(rows) == 80


def test_another_run_in_the_same_folder(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N))
    rows = EpisodeRows(LocalRunSource(root))
    view = EpisodeView(refreshed(rows), lambda row: True, fields=())
    list(view.scan())
    index = root / "rollouts" / "index.jsonl"
    index.write_bytes(index.read_bytes()[: 512 * 9])
    refreshed(rows)
    list(view.scan())
    assert len(rows) == len(view) == 9 and isinstance(view._found, array)
