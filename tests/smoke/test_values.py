"""Random values against an independent judge of JSON schemas."""

import random

import jsonschema
import pytest

from rltui.smoke.policies.values import value_of

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
    {"type": "integer", "minimum": 3, "maximum": 5},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "integer", "multipleOf": 7, "minimum": 1},
    {"type": "integer", "maximum": -4},
    {"type": "number", "minimum": -0.5, "exclusiveMaximum": 0.5},
    {"type": "string", "minLength": 12, "maxLength": 14},
    {"type": "string", "maxLength": 2},
    {"enum": [None, 3, "x"]},
    {"const": {"k": [1]}},
    {"type": ["null", "boolean"]},
    {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "minItems": 2, "maxItems": 3, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]},
    {"allOf": [{"properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"required": ["y"]}], "type": "object"},
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "left": {"$ref": "#/$defs/tree"}},
                "required": ["value"],
            }
        },
        "$ref": "#/$defs/tree",
    },
    {"properties": {"mode": {"oneOf": [{"const": "a"}, {"const": "b"}]}}, "required": ["mode"]},
    {"type": "object"},
    True,
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_values_are_valid(schema) -> None:
    for seed in range(60):
        jsonschema.validate(value_of(schema, random.Random(seed)), schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        3,
        {"type": 3},
        {"type": []},
        {"enum": []},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"properties": 3, "required": "x", "type": "object"},
        {"type": "integer", "minimum": "a", "maximum": float("1e30")},
        {"type": "array", "items": {"type": "array", "minItems": 9e9}},
        {"anyOf": 3},
        {"format": ["x"]},
    ],
    ids=str,
)
def test_what_is_no_schema_raises_nothing(schema) -> None:
    for seed in range(5):
        value_of(schema, random.Random(seed))
