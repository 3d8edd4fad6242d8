"""A pinned run comes first, an archived one stays out of the list; nothing of either changes on the disk."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from rltui.shelf import ARCHIVED, PINNED, Shelf, ShelfFault, shelf_file
from tests.tui.app_driver import build, run_in, until


def names(app) -> list[str]:
    rows = app.get_screen("runs").rows
    return [rows.row(i).name.partition("-")[0] for i in range(len(rows))]


async def test_a_run_is_pinned_and_archived_and_that_is_remembered(folder: Path) -> None:
    for number, name in enumerate(("alpha", "beta", "gamma"), 1):
        run_in(folder, name, number=number)
    before = sorted(str(path) for path in folder.rglob("*"))
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "3 runs")
        first, last = names(app)[0], names(app)[-1]
        await pilot.press("G", "p")
        await until(app, f"{last}-rl", "is pinned", app.look.glyph("pin"), lambda: names(app)[0] == last)
        await pilot.press("g", "down")
        await until(app, lambda: Path(app.get_screen("runs").where or "").name.startswith(first))
        await pilot.press("A")
        await until(app, "is archived", ", 1 archived", lambda: first not in names(app))
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 archived", lambda: names(app)[:1] == [last] and first not in names(app))
        await pilot.press("/", *"archived", "enter")
        await until(app, lambda: names(app) == [first])
        await pilot.press("A")
        await until(app, "is back in the list", lambda: names(app) == [])
        await pilot.press("escape")
        await until(app, lambda: sorted(names(app)) == ["alpha", "beta", "gamma"])
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_two_interfaces_keep_what_the_other_did(tmp_path: Path) -> None:
    file = tmp_path / "state" / "shelf.json"
    one, other = Shelf(file), Shelf(file)
    assert one.toggle(PINNED, "rl_1") and other.toggle(ARCHIVED, "rl_2") and not one.toggle(ARCHIVED, "rl_2")
    assert Shelf(file).pinned == {"rl_1"} and not Shelf(file).archived
    assert file.stat().st_mode & 0o777 == 0o600
    assert shelf_file().name == "shelf.json"


def test_of_many_changes_at_once_none_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "shelf.json"
    code = f"""
from pathlib import Path
from rltui import shelf as shelves
from rltui.shelf import PINNED, Shelf
import sys
shelves._TRIES = 100_000  # who changes it may be held up meanwhile
shelf = Shelf(Path({str(file)!r}))
for number in range(20):
    shelf.toggle(PINNED, f"{{sys.argv[1]}}-{{number}}")
"""
    children = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "abc"]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert Shelf(file).pinned == {f"{name}-{number}" for name in "abc" for number in range(20)}


def test_who_holds_it_for_long_is_not_waited_for(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "shelf.json"
    monkeypatch.setattr("rltui.shelf._PAUSE_S", 0.0)
    with file.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ShelfFault, match="another interface holds"):
            Shelf(file).toggle(PINNED, "rl_1")
    assert Shelf(file).toggle(PINNED, "rl_1")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 2, "pinned": []}', '{"schema": 1, "pinned": 3, "archived": ["rl_3"]}']
)
def test_what_cannot_be_read_stays_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "shelf.json"
    file.write_text(text)
    shelf = Shelf(file)
    assert not shelf.pinned and not shelf.archived and str(file) in shelf.fault
    with pytest.raises(ShelfFault, match="cannot be read"):
        shelf.toggle(PINNED, "rl_1")
    assert file.read_text() == text
    file.unlink()
    assert shelf.toggle(PINNED, "rl_1")


async def test_a_damaged_shelf_is_said_in_a_line(folder: Path) -> None:
    run_in(folder, "alpha")
    shelf_file().parent.mkdir(parents=True, exist_ok=True)
    shelf_file().write_text("{")
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run", "pins and archive cannot be read")
        await pilot.press("A")
        await until(app, "pins and archive cannot be read", lambda: names(app) == ["alpha"])
    assert shelf_file().read_text() == "{"
