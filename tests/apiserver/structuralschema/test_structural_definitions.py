"""Schemas of definitions, judged when they are created."""

from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.structuralschema import validate_definition, warnings

AT = "spec.validation.openAPIV3Schema"
X = f"{AT}.properties[x]"
TEXT = {"type": "string"}
KEYED: dict[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}


def definition(*roots: Any, **version: Any) -> dict[str, Any]:
    """A definition with a version per schema."""
    versions = [
        {"name": f"v{number}", "schema": {"openAPIV3Schema": root}, **version}
        for number, root in enumerate(roots)
    ]
    return {"spec": {"versions": versions}}


def texts(schema: dict[str, Any]) -> list[str]:
    root = {"type": "object", "properties": {"x": schema}}
    return [str(error) for error in validate_definition(definition(root))]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, [f"{X}.type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, [f"{X}.items: Required value: must be specified"]),
        (
            {"type": "array", "items": {}},
            [
                f"{X}.items.type: Required value: must not be empty for specified array items",
            ],
        ),
        ({"x-kubernetes-preserve-unknown-fields": True}, []),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
        (
            {
                "x-kubernetes-int-or-string": True,
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}],
            },
            [],
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            [
                (
                    f"{X}.x-kubernetes-preserve-unknown-fields: Invalid value: true: "
                    "must be false if x-kubernetes-int-or-string is true"
                ),
            ],
        ),
        (
            {"type": "text"},
            [
                (
                    f'{X}.type: Unsupported value: "text": supported values: '
                    '"array", "boolean", "integer", "number", "object", "string"'
                ),
            ],
        ),
        (
            {"type": "string", "pattern": "["},
            [
                (
                    f'{X}.pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: '
                    "error parsing regexp: missing closing ]: `[`"
                ),
            ],
        ),
        (
            {"type": "object", "anyOf": [{"type": "object", "properties": {"a": {"nullable": True}}}]},
            [
                f"{X}.anyOf[0].properties[a].nullable: Forbidden: must be false to be structural",
                f"{X}.anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
            [
                (
                    f"{X}.additionalProperties: Forbidden: additionalProperties and properties are mutual "
                    "exclusive"
                ),
            ],
        ),
        (
            {"type": "string", "uniqueItems": True},
            [
                (
                    f"{X}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
                    "complexity "
                    "becomes quadratic"
                ),
            ],
        ),
        ({"type": "object", "$ref": "#/definitions/a"}, [f"{X}.$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "object", "$schema": "x"},
            [
                f"{AT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
            ],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            [
                f"{X}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "odd"},
            [
                (
                    f'{X}.x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", '
                    '"granular"'
                ),
            ],
        ),
        (
            {"type": "string", "x-kubernetes-list-type": "set"},
            [
                f'{X}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
            ],
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
            [
                (
                    f"{X}.items.x-kubernetes-map-type: Invalid value: null: "
                    "must be atomic as item of a list with x-kubernetes-list-type=set"
                ),
            ],
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
            [
                (
                    f"{X}.x-kubernetes-list-type: Required value: must be map if "
                    "x-kubernetes-list-map-keys is non-empty"
                ),
            ],
        ),
        (
            {**KEYED, "items": TEXT},
            [
                (
                    f'{X}.items.type: Invalid value: "string": must be object if parent array\'s '
                    "x-kubernetes-list-type is map"
                ),
            ],
        ),
        (
            {**KEYED, "items": {"type": "object"}},
            [
                (
                    f'{X}.x-kubernetes-list-map-keys: Invalid value: ["k"]: entries must all be names of '
                    "item properties"
                ),
            ],
        ),
        (
            {**KEYED, "items": {"type": "object", "properties": {"k": TEXT}}},
            [
                (
                    f"{X}.items.properties[k].default: Required value: this property is in "
                    "x-kubernetes-list-map-keys, "
                    "so it must have a default or be a required property"
                ),
            ],
        ),
        (
            {
                **KEYED,
                "items": {"type": "object", "required": ["k"], "nullable": True, "properties": {"k": TEXT}},
            },
            [
                f"{X}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                (
                    f"{X}.properties: Required value: must not be empty if x-kubernetes-embedded-resource "
                    "is true "
                    "without x-kubernetes-preserve-unknown-fields"
                ),
            ],
        ),
        (
            {"type": "string", "default": 5},
            [
                f'{X}.default: Invalid value: "integer":  in body must be of type string: "integer"',
            ],
        ),
        (
            {"type": "integer", "format": "double", "default": 1.5},
            [
                f'{X}.default: Invalid value: "float64":  in body must be of type double: "float64"',
                (
                    f'{X}.default: Invalid value: "": Checked value must be of type integer '
                    "(default format) in "
                ),
            ],
        ),
        (
            {"type": "string", "format": "other", "default": 5},
            [f'{X}.default: Invalid value: "int64":  in body must be of type other: "int64"'],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False, "default": "text"},
            [
                f"{X}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            {
                "x-kubernetes-int-or-string": True,
                "default": True,
                "x-kubernetes-validations": [{"rule": "self.find('[0-9]+') != ''"}],
            },
            [
                (
                    f'{X}.default: Invalid value: "": invalid data, expected XIntOrString value to be '
                    "either a string or integer evaluating rule: self.find('[0-9]+') != ''"
                ),
            ],
        ),
        (
            {"type": "object", "default": {"b": 1, "a": 2}, "properties": {"a": {"type": "integer"}}},
            [
                f'{X}.default: Invalid value: {{"a":2,"b":1}}: must not have unknown fields',
            ],
        ),
    ],
)
def test_schemas_are_judged_as_upstream_does(schema: dict[str, Any], said: list[str]):
    """Structure, list types and defaults, one error at a time."""
    assert texts(schema) == said


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ({"type": "string"}, [f'{AT}.type: Invalid value: "string": must be object at the root']),
        (
            {"type": "object", "additionalProperties": TEXT},
            [
                f"{AT}.additionalProperties: Forbidden: must not be used at the root",
            ],
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": TEXT}}}},
            [],
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "required": ["name"]}}},
            [
                (
                    f"{AT}.properties[metadata]: Forbidden: must not specify anything other than name and "
                    "generateName, "
                    "but metadata is implicitly specified"
                ),
            ],
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "integer"}}},
            [
                f'{AT}.properties[kind].type: Invalid value: "integer": must be string',
            ],
        ),
        (
            {"type": "object", "not": {"properties": {"a": {"minimum": 1}}}},
            [
                f"{AT}.properties[a]: Required value: because it is defined in {AT}.not.properties[a]",
            ],
        ),
        (
            {"type": "object", "nullable": True},
            [f"{AT}.nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}},
            [
                f"{AT}.properties[metadata].default: Forbidden: must not be set in top-level metadata",
            ],
        ),
    ],
)
def test_the_root_of_a_schema(root: dict[str, Any], said: list[str]):
    """The root of a schema is refused if it uses keywords that are allowed only below it."""
    assert [str(error) for error in validate_definition(definition(root))] == said


def test_with_a_status_subresource_the_root_says_little():
    """The status is validated alone then, by its own part of the schema."""
    root = {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": TEXT}}
    (error,) = validate_definition(definition(root, subresources={"status": {}}))
    assert error.detail.startswith("only [Description Type Format Title Maximum")
    assert error.value["OneOf"][0]["Required"] == ["a"]


def test_schemas_that_differ_are_named_by_version():
    """Versions that say the same are judged once, at the top."""
    good, bad = {"type": "object"}, {"type": "string"}
    assert [e.path for e in validate_definition(definition(bad, bad))] == [f"{AT}.type"]
    assert [e.path for e in validate_definition(definition(good, bad))] == [
        "spec.versions[1].schema.openAPIV3Schema.type"
    ]
    assert [e.path for e in validate_definition(definition(None))] == [
        "spec.versions[0].schema.openAPIV3Schema"
    ]


def test_unknown_formats_are_warned_of():
    """Since 1.34, once per format."""
    root = {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "odd"}, "b": {"type": "integer", "format": "int32"}},
    }
    assert warnings(definition(root)) == ['unrecognized format "odd"']
    assert warnings(definition(root), Features.of(FeatureGates(Version(33))).schemas) == []


@pytest.mark.parametrize(("minor", "expected"), [(34, []), (35, []), (36, ["int33", "date", "odd"])])
def test_a_release_looks_at_formats_of_other_types(minor: int, expected: list[str]):
    """Up to 1.35 those of strings alone, since 1.36 those of all types, and without a type."""
    root = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "format": "int33"},
            "b": {"type": "boolean", "format": "date"},
            "c": {"format": "odd", "x-kubernetes-int-or-string": True},
        },
    }
    found = warnings(definition(root), Features.of(FeatureGates(Version(minor))).schemas)

    assert found == [f'unrecognized format "{name}"' for name in expected]


@pytest.mark.parametrize(("version", "warns"), [("1.34.0", True), ("1.34.1", False), ("1.35", False)])
def test_a_release_warns_of_formats_of_numbers(version: str, warns: bool):
    """A server with 133901 recognizes no format of an integer or of another number."""
    root = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "format": "int32"},
            "b": {"type": "number", "format": "double"},
        },
    }
    found = warnings(definition(root), Features.of(FeatureGates(Version.parse(version))).schemas)

    assert found == (['unrecognized format "int32"', 'unrecognized format "double"'] if warns else [])
