"""The tags of declarative validation: their grammar, and what of them the catalogue keeps."""

from typing import Any

import pytest

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.versions import Version
from kubeskew.releases.catalogue.validation_rules import declared_rules
from kubeskew.releases.catalogue.validation_tags import TagError, rules_of, unfollowed

RULES: list[tuple[str, list[Any]]] = [
    ("k8s:optional", ["optional"]),
    ("+k8s:maxItems=8", ["maxItems", 8]),
    ("k8s:minimum=-2147483648", ["minimum", -2147483648]),
    ("k8s:maximum=1000 # the highest", ["maximum", 1000]),
    ("k8s:format=k8s-long-name", ["format", "k8s-long-name"]),
    ('k8s:format="k8s-short-name"', ["format", "k8s-short-name"]),
    ("k8s:neq=true", ["neq", True]),
    (r'k8s:neq="a\"b\\"', ["neq", 'a"b\\']),
    ("k8s:neq=`a b`", ["neq", "a b"]),
    ("k8s:update=NoModify", ["update", "NoModify"]),
    ("k8s:eachVal=+k8s:maxLength=5", ["eachVal", ["maxLength", 5]]),
    ("k8s:eachKey=+k8s:format=k8s-label-key", ["eachKey", ["format", "k8s-label-key"]]),
    ("k8s:subfield(name)=+k8s:optional", ["subfield", "name", ["optional"]]),
    ("k8s:ifEnabled(Gate)=+k8s:required", ["ifEnabled", "Gate", ["required"]]),
    ('k8s:ifDisabled("Gate")=+k8s:forbidden', ["ifDisabled", "Gate", ["forbidden"]]),
    ("k8s:ifOptionEnabled(Gate)=+k8s:required", ["ifEnabled", "Gate", ["required"]]),
    ('k8s:item(type: "A")=+k8s:zeroOrOneOfMember', ["item", {"type": "A"}, ["zeroOrOneOfMember"]]),
    ('k8s:item(a: 1, b: true)=+k8s:immutable', ["item", {"a": 1, "b": True}, ["immutable"]]),
    ('k8s:unionMember(union: "u", memberName: "M")', ["unionMember", {"union": "u", "memberName": "M"}]),
    ('k8s:alpha(since: "1.36")=+k8s:maxItems=8', ["alpha", ["maxItems", 8]]),
    ('k8s:beta(since:"1.37")=+k8s:optional', ["beta", ["optional"]]),
    (
        'k8s:alpha(since: "1.36")=+k8s:eachVal=+k8s:ifEnabled(X)=+k8s:maxBytes=3',
        ["alpha", ["eachVal", ["ifEnabled", "X", ["maxBytes", 3]]]],
    ),
    ('k8s:beta=+k8s:ifMode("Queue")=+k8s:required', ["beta", ["member", "Queue", ["required"]]]),
    ('k8s:dependentRequired("other")', ["dependentRequired", "other"]),
]  # fmt: skip


@pytest.mark.parametrize(("marker", "rule"), RULES, ids=[marker for marker, _ in RULES])
def test_rules(marker: str, rule: list[Any]) -> None:
    """Each form of a tag becomes the rule that it says."""
    assert rules_of([marker]) == [rule]


@pytest.mark.parametrize(
    "marker",
    ["k8s:deepcopy-gen=false", "optional", "default=1", "k8s:openapi-gen=true", "k8s:validation-gen-nolint",
     "k8s:supportsSubresource=\"/status\"", "listType=map", "k8s:customValidation", "k8s:validateFalse=\"x\"",
     "k8s:alpha=+k8s:customValidation"],
)  # fmt: skip
def test_other_markers(marker: str) -> None:
    """A marker that is no tag of validation, or has its check in code, is no rule."""
    assert rules_of([marker]) == []


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("k8s:maxItems=", "unexpected end of input"),
        ("k8s:maxItems=8 x", "unexpected character ' ' at position 14"),
        ("k8s:item(type: )=+k8s:required", "unexpected character ')' at position 15"),
        ("k8s:item(type", "unexpected end of input"),
        ('k8s:item(type: "A', "unexpected character '\"' at position 15"),
        ("k8s:item(a: 1, b)=+k8s:required", "can't mix named and positional arguments"),
        ("k8s:ifEnabled(a, b)=+k8s:required", "multiple arguments must use 'name: value' syntax"),
        ("k8s:maximum=09", "invalid number '09'"),
        ("k8s:eachVal=+k8s:maxLenght=5", "unknown tag 'k8s:maxLenght'"),
        ("k8s:eachVal=5", "k8s:eachVal: requires a validation tag as its value payload"),
        ("k8s:optional=+k8s:required", "k8s:optional: takes no validation tag"),
        ("k8s:maxLength=x", "k8s:maxLength: failed to parse tag payload as int"),
        ("k8s:maxItems", "k8s:maxItems: failed to parse tag payload as int"),
        ("k8s:minItems=-1", "k8s:minItems: must be greater than or equal to zero"),
        ("k8s:format=k8s-ip", "k8s:format: unknown value 'k8s-ip'"),
        ("k8s:listType=bag", "k8s:listType: unknown value 'bag'"),
        ("k8s:update", "k8s:update: unknown value ''"),
        ("k8s:neq", "k8s:neq: missing required payload"),
        ("k8s:subfield=+k8s:optional", "k8s:subfield: missing or wrong argument"),
        ("k8s:item(x)=+k8s:immutable", "k8s:item: missing or wrong argument"),
        ("k8s:ifEnabled(a: 1)=+k8s:optional", "k8s:ifEnabled: missing or wrong argument"),
    ],
)
def test_refused(marker: str, text: str) -> None:
    """A tag that upstream's generator would refuse is refused, with the place of the mistake."""
    with pytest.raises(TagError) as caught:
        rules_of([marker])

    assert str(caught.value) == text


def test_order() -> None:
    """Tags are taken by name, those that need what others gather last, equal names as they stand."""
    markers = ["k8s:alpha=+k8s:optional", "k8s:maxItems=4", "k8s:eachVal=+k8s:maxLength=2", "k8s:immutable",
               "k8s:eachVal=+k8s:maxLength=1", "k8s:required"]  # fmt: skip

    assert [rule[0] for rule in rules_of(markers)] == [
        "immutable", "maxItems", "required", "alpha", "eachVal", "eachVal",
    ]  # fmt: skip
    assert rules_of(markers)[-1] == ["eachVal", ["maxLength", 1]]


def test_unfollowed() -> None:
    """Checks that are code of the tree are named, wherever they stand in a tag."""
    markers = ["k8s:required", "k8s:beta=+k8s:customValidation", "k8s:customValidation"]

    assert unfollowed(markers) == ["k8s:beta=+k8s:customValidation", "k8s:customValidation"]


def test_rules_by_type() -> None:
    """Rules of named types that are no structs stand with the fields, as do those of embedded structs; an
    enumeration without known values is no rule."""
    types: dict[str, Any] = {
        "apps/v1": {
            "Thing": {
                "markers": ["+k8s:immutable"],
                "fields": {
                    "<inline:metav1.TypeMeta>": {"type": "metav1.TypeMeta"},
                    "<inline:metav1.ObjectMeta>": {
                        "type": "metav1.ObjectMeta",
                        "markers": ["k8s:subfield(name)=+k8s:format=k8s-short-name"],
                    },
                    "<inline:Shared>": {"type": "Shared"},
                    "mode": {"type": "*Mode", "markers": ["k8s:optional"]},
                    "modes": {"type": "[]v1.Mode"},
                    "names": {"type": "map[Name]Names"},
                    "plain": {"type": "string"},
                    "unknown": {"type": "Unknown"},
                },
            },
            "Shared": {"fields": {"size": {"type": "int32", "markers": ["k8s:maximum=5"]}}},
            "Mode": {
                "alias": "string",
                "markers": ["+enum", '+k8s:alpha(since: "1.36")=+k8s:enum'],
                "values": ["B", "A", "C", "D"],
                "valueMarkers": {
                    "C": ["k8s:ifDisabled(Gate)=+k8s:enumExclude"],
                    "D": ["k8s:enumExclude"],
                },
            },
            "Name": {"alias": "string", "markers": ["+k8s:maxLength=3"]},
            "Unknown": {"alias": "string", "markers": ["+k8s:enum"]},
            "Names": {"alias": "[]Name", "markers": ["+k8s:maxItems=2"]},
        }
    }
    enum = ["alpha", ["enum", ["A", "B", "C"], [["C", "Gate", False]]]]
    name = ["type", [["maxLength", 3]]]

    assert declared_rules(types) == {
        "io.k8s.api.apps.v1.Shared": {"size": [["maximum", 5]]},
        "io.k8s.api.apps.v1.Thing": {
            "": [["immutable"]],
            "metadata": [["subfield", "name", ["format", "k8s-short-name"]]],
            "size": [["maximum", 5]],
            "mode": [["optional"], ["type", [enum]]],
            "modes": [["items", [["type", [enum]]]]],
            "names": [["keys", [name]], ["items", [["type", [["maxItems", 2], ["items", [name]]]]]]],
        },
    }


def test_a_wrong_tag_names_its_field() -> None:
    """The error of a wrong tag names type and field."""
    types = {"apps/v1": {"Thing": {"fields": {"a": {"type": "string", "markers": ["k8s:maxLength="]}}}}}

    with pytest.raises(TagError, match=r"^apps/v1\.Thing\.a: unexpected end of input$"):
        declared_rules(types)


def test_shipped_rules() -> None:
    """Fields have the rules of their release."""
    name = "io.k8s.api.resource.v1.DeviceRequest"
    old, new, newest = (
        types_of(Version(minor))[name].fields["firstAvailable"].rules for minor in (34, 35, 36)
    )

    assert not old
    assert [rule[0] for rule in new] == ["listMapKey", "listType", "maxItems", "optional", "unique"]
    assert list(newest) == [
        ["listType", "atomic"], ["alpha", ["optional"]], ["alpha", ["unique", "map"]],
        ["alpha", ["listMapKey", "name"]], ["alpha", ["maxItems", 8]],
    ]  # fmt: skip
