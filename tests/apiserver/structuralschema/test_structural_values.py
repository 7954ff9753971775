"""Custom resources' values against their schema."""

from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.structuralschema import Structural, validate_object

ANY_OF = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}


def texts(schema: dict[str, Any], value: Any, minor: int = 36) -> list[str]:
    """Returns the errors of an object whose `x` has the value."""
    rules = Features.of(FeatureGates(Version(minor))).schemas
    root = Structural.of({"type": "object", "properties": {"x": schema}}, rules)
    return [str(error) for error in validate_object({"x": value}, root)]


NOT_INT64 = '<nil>: Invalid value: "": Checked value must be of type integer (default format) in x'


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (
            {"type": "integer"},
            "3",
            ['x: Invalid value: "string": x in body must be of type integer: "string"'],
        ),
        (
            {"type": "integer"},
            3.5,
            ['x: Invalid value: "number": x in body must be of type integer: "number"', NOT_INT64],
        ),
        ({"type": "integer"}, 3.0, []),
        (
            {"type": "integer"},
            2**64,
            ['x: Invalid value: "number": x in body must be of type integer: "number"', NOT_INT64],
        ),
        ({"type": "number"}, 3, []),
        ({"type": "boolean"}, None, ['x: Invalid value: "null": x in body must be of type boolean: "null"']),
        ({"type": "boolean", "nullable": True}, None, []),
        (
            {"type": "string", "minLength": 2, "maxLength": 3},
            "ä",
            [
                'x: Invalid value: "ä": x in body should be at least 2 chars long',
            ],
        ),
        (
            {"type": "string", "minLength": 2, "maxLength": 3},
            "abcd",
            ["x: Too long: may not be more than 3 bytes"],
        ),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            ["x: Invalid value: \"b\": x in body should match '^a+$'"],
        ),
        (
            {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
            2,
            [
                "x: Invalid value: 2: x in body should be greater than 2",
            ],
        ),
        (
            {"type": "number", "maximum": 1e6},
            2e6,
            [
                "x: Invalid value: 2e+06: x in body should be less than or equal to 1e+06",
            ],
        ),
        (
            {"type": "number", "multipleOf": 0.5},
            0.7,
            [
                "x: Invalid value: 0.7: x in body should be a multiple of 0.5",
            ],
        ),
        ({"type": "integer", "enum": [1, 2]}, 3, ['x: Unsupported value: 3: supported values: "1", "2"']),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            None,
            [
                'x: Unsupported value: null: supported values: "a"',
            ],
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            [
                'x: Invalid value: "number": x in body must be of type integer,string: "number"',
            ],
        ),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, {}], []),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", 1],
            [
                'x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"',
                "x: Too many: 2: must have at most 1 item",
            ],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            [
                "x: Invalid value: 0: x in body should have at least 1 items",
            ],
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            [
                "x: Invalid value: 0: x in body should have at least 1 properties",
            ],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a/b": "c"},
            [
                'x.a/b: Invalid value: "string": x.a/b in body must be of type integer: "string"',
            ],
        ),
        ({"type": "object", "required": ["a", "b"]}, {}, ["x.a: Required value", "x.b: Required value"]),
        ({"type": "object", **ANY_OF}, {"b": 1}, []),
        (
            {"type": "object", **ANY_OF},
            {},
            [
                '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
                "x.a: Required value",
            ],
        ),
        (
            {"type": "object", "oneOf": ANY_OF["anyOf"]},
            {"a": 1, "b": 1},
            [
                (
                    '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
                    "Found 2 valid alternatives"
                ),
            ],
        ),
        (
            {"type": "object", "oneOf": ANY_OF["anyOf"]},
            {},
            [
                (
                    '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found '
                    "none valid"
                ),
                "x.a: Required value",
            ],
        ),
        (
            {"type": "object", "allOf": ANY_OF["anyOf"]},
            {},
            [
                "x.a: Required value",
                "x.b: Required value",
                '<nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated',
            ],
        ),
        (
            {"type": "string", "not": {"enum": ["a"]}},
            "a",
            [
                '<nil>: Invalid value: "": "x" must not validate the schema (not)',
            ],
        ),
        ({"type": "string", "format": "uuid"}, ["a list passes"], []),
        (
            {"type": "string", "format": "date"},
            True,
            [
                'x: Invalid value: "": x in body must be of type date: ""',
            ],
        ),
        ({"type": "string", "format": "unheard-of"}, "x", []),
    ],
)
def test_values_are_judged_as_upstream_does(schema: dict[str, Any], value: Any, said: list[str]):
    """Every kind of constraint, with upstream's words and order."""
    assert texts(schema, value) == said


@pytest.mark.parametrize(
    ("minor", "schema", "value", "errors"),
    [
        (36, {"type": "integer", "format": "int32"}, 3_000_000_000, 1),
        (35, {"type": "integer", "format": "int32"}, 3_000_000_000, 0),
        (36, {"type": "number", "format": "float"}, 1e300, 1),
        (34, {"type": "string", "format": "k8s-short-name"}, "A_b", 1),
        (33, {"type": "string", "format": "k8s-short-name"}, "A_b", 0),
    ],
)
def test_formats_come_with_releases(minor: int, schema: dict[str, Any], value: Any, errors: int):
    """A release checks the formats that it knows."""
    assert len(texts(schema, value, minor)) == errors


FORMATS = {
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f"),
    "uri": ("/path?x", "x y"),
    "email": ("A B <a@example.com>", "a@"),
    "hostname": ("a-b.example.com", "a_b"),
    "ipv4": ("010.0.0.1", "1.2.3"),
    "ipv6": ("::ffff:1.2.3.4", "1.2.3.4"),
    "cidr": ("2001:db8::/32", "10.0.0.0/33"),
    "mac": ("01-23-45-67-89-AB", "01:23"),
    "uuid3": ("123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
    "uuid4": ("123e4567e89b42d3a456426614174000", "123e4567-e89b-42d3-c456-426614174000"),
    "isbn": ("0-321-75104-3", "0-321-75104-4"),
    "creditcard": ("4111 1111 1111 1111", "4111 1111 1111 1112"),
    "ssn": ("111-22-3333", "111-22"),
    "hexcolor": ("#fff", "#ffff"),
    "rgbcolor": ("rgb(0, 128,255)", "rgb(0,0,256)"),
    "byte": ("aGk=", ""),
    "password": ("anything", None),
    "date": ("2024-02-29", "2023-02-29"),
    "date-time": ("2024-02-29T24:00:00Z", None),
    "duration": ("3 days", "3 moons"),
    "k8s-long-name": ("a.b", "a..b"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_texts(name: str):
    """Each format takes what Go's parsers take."""
    good, bad = FORMATS[name]
    if name == "date-time":
        good, bad = "2024-02-29T23:00:00Z", good
    schema = {"type": "string", "format": name}
    assert texts(schema, good) == []
    if bad is not None:
        assert texts(schema, bad) == [f'x: Invalid value: "{bad}": x in body must be of type {name}: "{bad}"']


def test_errors_below_fields_and_maps_name_their_place():
    """Keys of maps are shown with dots by value checks, with brackets by list checks."""
    schema = {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "integer"},
        },
    }
    assert texts(schema, {"k": [1, 1, 1, "1"]}) == [
        'x.k[3]: Invalid value: "string": x.k[3] in body must be of type integer: "string"',
        "x[k][1]: Duplicate value: 1",
    ]


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (["a"], [{"a": 1}, {"a": 2}, {"a": 1}], ['x[2]: Duplicate value: {"a":1}']),
        (["a"], [{}, {}], ["x[1]: Duplicate value: {}"]),
        (["a", "b"], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['x[1]: Duplicate value: {"a":1,"b":2}']),
        (["a"], [{"a": 1}, {"a": True}], []),
    ],
)
def test_map_lists_hold_a_key_once(keys: list[str], value: Any, said: list[str]):
    """Repeated keys are duplicates, absent ones included."""
    schema = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    assert texts(schema, value) == said


def test_words_of_releases_up_to_1_33():
    """Up to 1.33 errors count one item as items, and say that what is required must not be empty."""
    many = {"type": "array", "items": {"type": "string"}, "maxItems": 1}
    assert texts(many, ["a", "b"], 33) == ["x: Too many: 2: must have at most 1 items"]
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert texts(embedded, {}, 33) == [
        "x.apiVersion: Required value: must not be empty",
        "x.kind: Required value: must not be empty",
    ]


def test_embedded_resources_have_kinds_and_sound_metadata():
    """An embedded resource must say what it is, and its metadata is checked."""
    schema = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert texts(schema, {"metadata": {"labels": {"a b": "c"}}})[:2] == [
        "x.apiVersion: Required value",
        "x.kind: Required value",
    ]
    assert texts(schema, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}) == []
    assert texts(schema, {"apiVersion": "a/b/c", "kind": "9", "metadata": {"name": 5}}) == [
        'x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        (
            'x.kind: Invalid value: "9": may have mixed case, but should otherwise match: a '
            "DNS-1035 label must "
            "consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end "
            "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
            "'[a-z]([-a-z0-9]*[a-z0-9])?')"
        ),
        (
            'x.metadata: Invalid value: {"name":5}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.name of type string"
        ),
    ]
