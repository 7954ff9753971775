"""An object after a round trip through Go."""

from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.golang.decode_errors import explain
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise, normalise_and_report
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version

TEXT, COUNT = Schema(Kind.STRING), Schema(Kind.INTEGER, format="int32")
INNER = Schema(Kind.OBJECT, "x.v1.Inner", fields={"amount": Field(Schema(Kind.QUANTITY))})
OUTER = Schema(
    Kind.OBJECT,
    "x.v1.Outer",
    fields={
        "name": Field(TEXT, omit_empty=False),
        "note": Field(TEXT),
        "count": Field(COUNT),
        "pointer": Field(COUNT, pointer=True),
        "list": Field(Schema(Kind.LIST, items=TEXT)),
        "always": Field(Schema(Kind.LIST, items=TEXT), omit_empty=False),
        "map": Field(Schema(Kind.MAP, items=INNER)),
        "struct": Field(INNER),
        "maybe": Field(INNER, pointer=True),
        "time": Field(Schema(Kind.STRING, format="date-time"), pointer=True),
        "micro": Field(Schema(Kind.STRING, format="micro-time"), pointer=True),
        "bytes": Field(Schema(Kind.STRING, format="byte")),
        "raw": Field(Schema(Kind.ANY)),
    },
)
ZERO: dict[str, Any] = {"name": "", "always": None, "struct": {}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({}, {}),
        ({"unknown": 1, "note": None}, {}),
        ({"note": "", "count": 0, "list": [], "map": {}}, {}),
        ({"pointer": 0, "maybe": {}}, {"pointer": 0, "maybe": {}}),
        ({"list": ["a", None]}, {"list": ["a", ""]}),
        ({"always": []}, {"always": []}),
        ({"map": {"k": {"amount": "1000m"}, "n": None}}, {"map": {"k": {"amount": "1"}, "n": {}}}),
        ({"struct": {"amount": 5}}, {"struct": {"amount": "5"}}),
        ({"time": "2024-01-01T02:00:00.9+02:00"}, {"time": "2024-01-01T00:00:00Z"}),
        ({"micro": "2024-01-01T00:00:00.123456Z"}, {"micro": "2024-01-01T00:00:00.123456Z"}),
        ({"bytes": "aGV\nsbG8="}, {"bytes": "aGVsbG8="}),
        ({"bytes": [104, None, 255]}, {"bytes": "aAD/"}),
        ({"bytes": []}, {}),
        ({"raw": {"x": None, "y": []}}, {"raw": {"x": None, "y": []}}),
    ],
)
def test_what_go_would_write_again(given: Any, written: Any) -> None:
    """Nulls and empty values go, zero values of required fields come, texts become canonical."""
    assert normalise(given, OUTER) == {**ZERO, **written}


@pytest.mark.parametrize(
    "given",
    [
        {"name": 5},
        {"count": 2**31},
        {"count": True},
        {"list": {}},
        {"map": []},
        {"struct": "x"},
        {"bytes": "?"},
    ],
)
def test_a_value_of_another_type_is_refused(given: Any) -> None:
    """Nothing is coerced."""
    with pytest.raises(WrongShape):
        normalise(given, OUTER)


def test_normalising_is_idempotent_on_real_kinds() -> None:
    """A second round trip changes nothing."""
    schema = catalogue_for(Version(36)).definition("io.k8s.api.core.v1.Pod")
    once = normalise(
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "0.5"}}}]}}, schema
    )
    assert normalise(once, schema) == once
    assert once["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}
    assert once["status"] == {}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"items": {"type": "string", "bogus": 1, "nullable": False}}, {"items": {"type": "string"}}),
        ({"items": [{"bogus": 1}]}, {"items": [{}]}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b"]}}),
    ],
)
def test_schemas_inside_schemas(given: dict[str, Any], written: dict[str, Any]):
    """A field that may hold a schema drops unknown fields without a report, as its Go type does."""
    props = types_of(DEFAULT_VERSION)[
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    ]
    assert normalise_and_report(given, props) == (written, False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"items": {"type": 5}},
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string",
        ),
        ({"additionalProperties": 5}, "boolean or JSON schema expected"),
    ],
)
def test_schemas_inside_schemas_have_types(given: dict[str, Any], text: str):
    """A wrong type inside of them is reported from there."""
    props = types_of(DEFAULT_VERSION)[
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    ]
    with pytest.raises(WrongShape):
        normalise(given, props)
    assert explain(given, props) == text
