"""The schema as JSON Schema (draft 2020-12), for editors: completion, help and checks while a file is written.

It knows single keys; rules over several keys are the loader's. Old spellings are accepted and marked deprecated.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from trainer.config.derive import DERIVATIONS
from trainer.config.keys import Key, all_keys, section_models
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES, VALUE_SPELLINGS, Move
from trainer.config.schema import RunConfig
from trainer.config.schema.base import META
from trainer.config.sources import LOADER_KEYS

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """A new schema of the config file, without references."""
    raw = RunConfig.model_json_schema()
    root: Schema = _plain(raw, raw["$defs"])
    for path, known in all_keys().items():
        _describe(_at(root, path), known)
    _require(root)
    for path, spellings in VALUE_SPELLINGS.items():
        _accept(_at(root, path), list(spellings))
    _at(root, "training.weight_sync.targets")["items"] = {"enum": ["vllm", "policy"]}
    for move in MOVES:
        _put(root, move.old, _moved(root, move))
    for path, reason in NO_EFFECT.items():
        kind = {"type": "object"} if path.endswith(".*") else {}
        _put(root, path.removesuffix(".*"), kind | _deprecated(f"Recognised, no effect here: {reason}."))
    for path in LOADER_KEYS:
        _put(root, path, {"type": "string"} | _deprecated("A file of variables, loaded before everything else."))
    for old, new in SECTION_MOVES.items():
        root["properties"][old] = _at(root, new) | _deprecated(f"Another name of [{new}].")
    return {"$schema": DIALECT, "title": "A training run"} | root


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    """References replaced by what they name; titles, our metadata and null (which TOML has not) taken out."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "properties" in node:
        node = node | {"properties": {name: _plain(item, definitions) for name, item in node["properties"].items()}}
    plain = {
        name: item if name == "properties" else _plain(item, definitions)
        for name, item in node.items()
        if name not in ("title", "$ref", "$defs", META) and not (name == "default" and item is None)
    }
    if "$ref" in node:
        plain = _plain(definitions[node["$ref"].rpartition("/")[2]], definitions) | plain
    if "anyOf" in plain:
        options = [item for item in plain["anyOf"] if item != {"type": "null"}]
        plain["anyOf"] = options
        if len(options) == 1:
            del plain["anyOf"]
            plain = options[0] | plain
    return plain


def _at(root: Schema, path: str) -> Schema:
    for part in path.split("."):
        root = root["properties"][part]
    return root


def _describe(node: Schema, known: Key) -> None:
    lines = [known.help]
    if known.unit:
        lines.append(f"Unit: {known.unit}.")
    if known.derived:
        lines.append(f"Not given: {known.derived}.")
    if checks := known.meta.get("checks"):
        lines.append(f"Checks: {checks}.")
    node["description"] = "\n".join(lines)
    if known.default is not None:
        node["default"] = known.default
    elif "example" in known.meta:
        node["examples"] = [known.meta["example"]]


def _require(root: Schema) -> None:
    """Required are keys that nothing else in the file, and no variable, can stand in for."""
    elsewhere = {"services.task_url", *(item.key for item in DERIVATIONS), *(move.new for move in MOVES)}
    elsewhere |= {key for spellings in VALUE_SPELLINGS.values() for new in spellings.values() for key in new}
    for path in section_models():
        node = _at(root, path)
        required = [name for name in node.pop("required", []) if f"{path}.{name}" not in elsewhere]
        if required:
            node["required"] = required
    root["required"] = [name for name in root["required"] if "required" in root["properties"][name]]


def _accept(node: Schema, olds: list[str]) -> None:
    """Old spellings of a value, beside the ones that it has now."""
    now = {name: node.pop(name) for name in ("type", "enum", "const") if name in node}
    node["anyOf"] = [now, {"enum": olds} | _deprecated("An old spelling; it still works.")]


def _moved(root: Schema, move: Move) -> Schema:
    note = f" ({move.note})" if move.note else ""
    said = _deprecated(f"Old spelling of {move.new}{note}; it still works.")
    if move.convert is not None:
        return said
    value = deepcopy(_at(root, move.new))
    return {name: item for name, item in value.items() if name not in ("description", "default", "examples")} | said


def _deprecated(text: str) -> Schema:
    return {"deprecated": True, "description": text}


def _put(root: Schema, path: str, schema: Schema) -> None:
    """Adds an old key. A name may be a value and a table: `rubric.event`."""
    *tables, name = path.split(".")
    for depth, part in enumerate(tables, 1):
        known = root["properties"].get(part)
        if known is None or "properties" not in known:
            table = {"type": "object", "additionalProperties": False, "properties": {}}
            table |= _deprecated(f"Old section [{'.'.join(tables[:depth])}]; it still works.")
            if known is None:
                root["properties"][part] = known = table
            else:
                options = known.get("anyOf") or [known]
                tabled = [option for option in options if "properties" in option]
                if not tabled:
                    root["properties"][part] = {"anyOf": [*options, table], "deprecated": True}
                known = tabled[0] if tabled else table
        root = known
    root["properties"][name] = schema
