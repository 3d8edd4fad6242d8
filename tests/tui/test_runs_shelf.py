"""A pinned run comes first, an archived one stays out of the list; nothing of either changes on the disk."""

from __future__ import annotations

from pathlib import Path

from rltui.shelf import ARCHIVED, PINNED, Shelf, shelf_file
from tests.tui.app_driver import build, run_in, screen_text, until


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
        await until(app, f"{last}-rl", "is pinned", lambda: names(app)[0] == last)
        assert app.look.glyph("pin") in screen_text(app)
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


def test_two_interfaces_keep_what_the_other_did_and_a_damaged_file_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "state" / "shelf.json"
    one, other = Shelf(file), Shelf(file)
    assert one.toggle(PINNED, "rl_1") and other.toggle(ARCHIVED, "rl_2") and not one.toggle(ARCHIVED, "rl_2")
    assert Shelf(file).pinned == {"rl_1"} and not Shelf(file).archived
    assert file.stat().st_mode & 0o777 == 0o600
    for text in ("{", "[]", '{"schema": 1, "pinned": 3, "archived": [[], "rl_3"]}'):
        file.write_text(text)
        assert not Shelf(file).pinned and Shelf(file).archived <= {"rl_3"}
    assert shelf_file().name == "shelf.json"
