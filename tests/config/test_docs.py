"""docs/config.md is what the schema says."""

from pathlib import Path

from trainer.config import all_keys, load_text
from trainer.config.docs import WIDTH, document, smallest
from trainer.config.migrations import MOVES, NO_EFFECT
from trainer.config.sources import LOADER_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
REGENERATE = "docs/config.md is not current: python -m trainer.config.docs > docs/config.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), REGENERATE


def test_every_key_has_a_heading_of_its_own() -> None:
    headings = [line for line in document().splitlines() if line.startswith("#### ")]
    assert sorted(headings) == sorted(f"#### `{path}`" for path in all_keys())


def test_old_keys_are_listed() -> None:
    page = document()
    tables = page[page.index("## Old spellings") :]
    listed = {*(move.old for move in MOVES), *NO_EFFECT, *LOADER_KEYS}
    assert not [path for path in listed if f"`{path}`" not in tables]


def test_lines_are_short() -> None:
    prose = [line for line in document().splitlines() if not line.startswith(("|", "#"))]
    assert not [line for line in prose if len(line) > WIDTH + 2]


def test_the_smallest_config_loads() -> None:
    loaded = load_text(smallest(), "my.toml", environ={}, device="cpu")
    assert loaded.warnings == []
    assert loaded.derived["steps"] == 40


def test_the_page_promises_nothing_that_is_not_there() -> None:
    page = document()
    assert not [word for word in ("overrides=", "--allow-code", "launch target", " yet:") if word in page]
