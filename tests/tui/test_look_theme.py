"""Theme files: what the loader refuses, where it points, and that an error leaves the old theme standing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.data import data_dir
from rltui.look import ThemeError, ThemeFiles
from rltui.look.files import user_themes
from rltui.look.theme import parse_theme, read_theme

DARK = (data_dir("themes") / "dark.toml").read_text(encoding="utf-8")


def refused(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ThemeError) as caught:
        parse_theme(text, "dark.toml", "dark")
    return caught.value.problems


def line_of(text: str, start: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(start))


def test_a_bad_colour_is_named_with_file_line_and_key() -> None:
    text = DARK.replace('act = "#', 'act = "red#', 1)
    [(line, key, what)] = refused(text)
    assert (line, key) == (line_of(text, 'act = "red#'), "colors.act")
    assert "#1a2b3c" in what
    with pytest.raises(ThemeError, match=f"^dark.toml:{line}: colors.act: "):
        parse_theme(text, "dark.toml", "dark")


def test_a_missing_key_points_at_its_table() -> None:
    text = "\n".join(line for line in DARK.splitlines() if not line.startswith("dim = "))
    assert [(line, key) for line, key, _ in refused(text)] == [
        (line_of(text, "[colors]"), "colors.dim"),
        (line_of(text, "[ansi]"), "ansi.dim"),
    ]


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    text = DARK.replace("[gradients]", 'acent = "#112233"\n[gradients]')
    [(line, key, what)] = refused(text)
    assert (line, key) == (line_of(text, "acent"), "colors.acent")
    assert "colors.accent" in what


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("dark = true", 'dark = "yes"', "dark"),
        ('name = "dark"', 'name = "night"', "name"),
        ('twin = "light"', "twin = 3", "twin"),
        ('twin = "light"', 'twin = ""', "twin"),
        ('series = ["#', 'series = ["#123456", "#', "series"),
        ('series = ["#', 'series = [["#123456"], "#', "series"),
        ("sequential = [", "sequential = [] #", "gradients.sequential"),
        ('accent = "bright_cyan"', 'accent = "orange"', "ansi.accent"),
        ('accent = "bright_cyan"', 'accent = ""', "ansi.accent"),
        ("[ansi]", "[ansi]\ndiverging.x = 1", "ansi.diverging"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(old: str, new: str, key: str) -> None:
    assert old in DARK
    with pytest.raises(ThemeError) as caught:
        parse_theme(DARK.replace(old, new, 1), "dark.toml", "dark")
    assert "dark.toml:" in str(caught.value)
    if "diverging.x" not in new:  # there it is TOML itself that refuses
        assert key in {found for _, found, _ in caught.value.problems}


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    assert refused(DARK.replace("[gradients]", "[gradients", 1))[0][0] == line_of(DARK, "[gradients]")
    assert refused("name = ")[0][0] == 1


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\n\xff")
    (tmp_path / "big.toml").write_bytes(b"#" * 100_000)
    for name, line in (("a", 2), ("big", 1), ("gone", 1)):
        with pytest.raises(ThemeError) as caught:
            read_theme(tmp_path / f"{name}.toml")
        assert caught.value.problems[0][0] == line


def test_the_users_themes_win_by_name_and_join_the_list(tmp_path: Path) -> None:
    (tmp_path / "dark.toml").write_text(DARK.replace('twin = "light"', 'twin = "paper"'), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(DARK.replace('name = "dark"', 'name = "mine"'), encoding="utf-8")
    files = ThemeFiles(user=tmp_path)
    assert files.load("dark").twin == "paper"
    assert files.load("mine").name == "mine"
    assert files.list()["dark"].parent == tmp_path
    assert {"light", "mine"} <= files.list().keys()


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    for name in ("nope", "../themes/dark", ""):
        with pytest.raises(ThemeError, match="contrast-dark"):
            ThemeFiles(user=tmp_path).load(name)


def test_a_save_is_noticed_once_also_of_a_broken_file_and_of_one_that_comes_and_goes(tmp_path: Path) -> None:
    files = ThemeFiles(user=tmp_path)
    assert not files.changed()
    files.load("dark")
    assert not files.changed()

    own = tmp_path / "dark.toml"  # now hides the shipped one
    own.write_text("name = ", encoding="utf-8")
    assert files.changed()
    with pytest.raises(ThemeError):
        files.load("dark")
    assert not files.changed()  # told once, not every second

    own.write_text(DARK, encoding="utf-8")
    assert files.changed()
    files.load("dark")
    swapped = tmp_path / "new"
    swapped.write_text(DARK, encoding="utf-8")
    os.replace(swapped, own)  # as editors save
    assert files.changed()
    files.load("dark")
    own.unlink()
    assert files.changed()
    assert files.load("dark").name == "dark"


def test_the_users_folder_follows_xdg_and_ignores_a_relative_one() -> None:
    assert user_themes({"XDG_CONFIG_HOME": "/x"}) == Path("/x/rltui/themes")
    assert user_themes({"XDG_CONFIG_HOME": "x"}) == Path.home() / ".config/rltui/themes"
