"""The JSON Schema against the schema it is made from, and against real files."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.config.texts import SDK_EXAMPLE, SMALL
from trainer.config import all_keys
from trainer.config.json_schema import json_schema
from trainer.config.keys import OPEN_SECTIONS, all_sections
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES, VALUE_SPELLINGS
from trainer.config.sources import LOADER_KEYS

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "sample_configs").glob("*.toml"))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def tables(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every path of a property and its schema; a value that may also be a table is walked as a table, too."""
    for name, node in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, node
        for option in [node, *node.get("anyOf", [])]:
            yield from tables(option, f"{path}.")


def test_paths_are_those_of_the_keys(schema) -> None:
    current = {path for path, node in tables(schema) if not deprecated(schema, path)}
    inside = {path for path in current if any(path.startswith(f"{key}.") for key in all_keys())}
    assert current - inside == {*all_keys(), *all_sections()}
    assert inside == {f"judge.reward_blend.{name}" for name in ("env", "event", "outcome")}


def deprecated(schema: dict[str, Any], path: str) -> bool:
    """A path is deprecated with the table it is in."""
    parts = path.split(".")
    nodes = dict(tables(schema))
    return any(nodes[".".join(parts[: n + 1])].get("deprecated") for n in range(len(parts)))


def test_every_old_key_is_accepted_and_names_the_new_one(schema) -> None:
    nodes = dict(tables(schema))
    for move in MOVES:
        node = nodes[move.old]
        said = [node, *node.get("anyOf", [])]
        assert any(item.get("deprecated") and move.new in item.get("description", "") for item in said), move.old
    for path in [*NO_EFFECT, *LOADER_KEYS, *SECTION_MOVES]:
        assert nodes[path.removesuffix(".*")]["deprecated"], path


def test_unknown_keys_are_refused_where_the_loader_refuses_them(schema) -> None:
    nodes = {"": schema} | dict(tables(schema))
    for path in ["", *all_sections()]:
        opens = nodes[path].get("additionalProperties")
        assert (opens is not False) == (path in OPEN_SECTIONS), path


def test_it_says_what_the_keys_say(schema) -> None:
    nodes = dict(tables(schema))
    for path, key in all_keys().items():
        node = nodes[path]
        assert node["description"].startswith(key.help)
        assert node.get("default") == key.default
        spellings = set(VALUE_SPELLINGS.get(path, {}))
        if key.choices:
            options = [node, *node.get("anyOf", [])]
            accepted = {value for option in options for value in option.get("enum", [option.get("const")])} - {None}
            assert accepted == set(key.choices) | spellings, path
    assert nodes["training.lora.dropout"] | {"description": ""} == {
        "type": "number",
        "minimum": 0,
        "exclusiveMaximum": 1,
        "default": 0.0,
        "description": "",
    }


def test_it_is_plain(schema) -> None:
    text = repr(schema)
    assert "$ref" not in text and "'null'" not in text and "rltui'" not in text and "'title': 'T" not in text[100:]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_are_valid(validator, path: Path) -> None:
    assert list(validator.iter_errors(tomllib.loads(path.read_text(encoding="utf-8")))) == []


def test_the_sdk_example_is_valid(validator) -> None:
    assert list(validator.iter_errors(tomllib.loads(SDK_EXAMPLE))) == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("group_size = 4", "group_size = 1", "training.group_size"),
        ("group_size = 4", 'group_size = "4"', "training.group_size"),
        ("group_size = 4", "group_siz = 4", "training"),
        ('variety = "gspo"', 'variety = "gspoo"', "algorithm.variety"),
        ("num_epochs = 1\n", "", "training"),
        ('task_url = "http://localhost:8001"', 'task_url = "localhost"', "services.task_url"),
        ("[rollout]", "[rollouts]\n[rollout]", ""),
    ],
)
def test_what_is_wrong_is_found(validator, old: str, new: str, where: str) -> None:
    found = list(validator.iter_errors(tomllib.loads(SMALL.replace(old, new))))
    assert [".".join(map(str, error.absolute_path)) for error in found] == [where]
