"""x-kubernetes-validations: checked in definitions, evaluated on objects."""

from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.structuralschema import (
    Structural,
    expressions,
    validate_definition,
    validate_object,
    validate_update,
)

AT = "spec.validation.openAPIV3Schema.properties[x]"
RULE = f"{AT}.x-kubernetes-validations[0]"


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    """A schema with rules."""
    return {
        **schema,
        "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules],
    }


def defined(schema: dict[str, Any]) -> list[str]:
    root = {"type": "object", "properties": {"x": schema}}
    found = validate_definition({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}})
    return [str(error) for error in found]


def judged(schema: dict[str, Any], new: Any, *old: Any, minor: int = 36) -> list[str]:
    """Returns the errors of `x` that is created, or changed from `old`."""
    rules = Features.of(FeatureGates(Version(minor))).schemas
    root = Structural.of({"type": "object", "properties": {"x": schema}}, rules)
    if old:
        return [str(error) for error in validate_update({"x": new}, {"x": old[0]}, root)]
    return [str(error) for error in validate_object({"x": new}, root)]


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, "
    "and strings are declared)"
)
OBJECT = {"type": "object", "properties": {"a": TEXT, "n": NUMBER, "namespace": TEXT, "b-c": TEXT}}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {
        "type": "object",
        "required": ["k"],
        "properties": {"k": TEXT, "v": ruled(NUMBER, "self >= oldSelf")},
    },
}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (ruled(TEXT, "self == 'a'"), []),
        (ruled(OBJECT, "self.__namespace__ == self.b__dash__c"), []),
        (
            ruled(TEXT, "self == 5"),
            [
                (
                    f'{RULE}.rule: Invalid value: {{"Rule":"self == 5","Message":"","MessageExpression":"",'
                    '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
                    "ERROR: <input>:1:6: found no matching overload for '_==_' applied to '(string, int)'\n"
                    " | self == 5\n | .....^"
                )
            ],
        ),
        (ruled(TEXT, " "), [f"{RULE}.rule: Required value: rule is not specified"]),
        (
            ruled(TEXT, "self\n== 'a'"),
            [f"{RULE}.message: Required value: message must be specified if rule contains line breaks"],
        ),
        (
            ruled(OBJECT, {"rule": "true", "fieldPath": ".z", "reason": "Odd"}),
            [
                (
                    f'{RULE}.reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", '
                    '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
                ),
                f'{RULE}.fieldPath: Invalid value: ".z": must be a valid path',
            ],
        ),
        (
            ruled(TEXT, {"rule": "self == 'a'", "optionalOldSelf": False}),
            [f"{RULE}.optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"],
        ),
        (
            {"type": "array", "maxItems": 2, "items": ruled({**TEXT, "maxLength": 3}, "self == oldSelf")},
            [
                (
                    f'{AT}.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": '
                    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {AT}"
                )
            ],
        ),
        (
            ruled({"type": "array", "maxItems": 1000, "items": TEXT}, "self.all(x, x.contains('abc'))"),
            [
                f"{RULE}.rule: Forbidden: estimated rule cost exceeds budget by factor of 31.5x {ADVICE}",
                (
                    f"{RULE}.rule: Forbidden: contributed to estimated rule cost total exceeding "
                    "cost limit for entire OpenAPIv3 schema"
                ),
                (
                    "spec.validation.openAPIV3Schema: Forbidden: "
                    "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
                    f"exceeds budget by factor of 3.1x {ADVICE}"
                ),
            ],
        ),
        (ruled({"type": "array", "maxItems": 10, "items": TEXT}, "self.all(x, x.contains('abc'))"), []),
    ],
)
def test_rules_of_definitions(schema: dict[str, Any], said: list[str]):
    """Compiled, typed, and not too expensive; the words are upstream's."""
    assert defined(schema) == said


def test_stored_expressions_may_use_what_is_new():
    """A new expression must be understood by the release before; a stored one is kept."""
    root = {"type": "object", "properties": {"x": ruled(TEXT, "isIP(self)")}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}}
    rules = Features.of(FeatureGates(Version(30))).schemas
    assert [error.path for error in validate_definition(crd, None, rules)] == [f"{RULE}.rule"]
    assert validate_definition(crd, crd, rules) == []


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (ruled(TEXT, "self == 'a'"), "a", []),
        (ruled(TEXT, "self == 'a'"), "b", ["x: Invalid value: \"b\": failed rule: self == 'a'"]),
        (ruled(TEXT, {"rule": "self == 'a'", "message": " m "}), "b", ['x: Invalid value: "b": m']),
        (
            ruled(TEXT, {"rule": "self == 'a'", "message": "m", "messageExpression": "'not ' + self"}),
            "b",
            ['x: Invalid value: "b": not b'],
        ),
        (
            ruled(TEXT, {"rule": "self == 'a'", "message": "m", "messageExpression": "''"}),
            "b",
            ['x: Invalid value: "b": m'],
        ),
        (
            ruled(OBJECT, {"rule": "self.n > 0", "fieldPath": ".n", "reason": "FieldValueForbidden"}),
            {"n": 0},
            ["x.n: Forbidden: failed rule: self.n > 0"],
        ),
        (
            ruled(OBJECT, {"rule": "self.n > 0", "reason": "FieldValueRequired", "message": "m"}),
            {"n": 0},
            ["x: Required value: m"],
        ),
        (
            ruled(OBJECT, {"rule": "self.n > 0", "reason": "FieldValueDuplicate"}),
            {"n": 0},
            ["x: Duplicate value"],
        ),
        (
            ruled(OBJECT, "self.n > 0"),
            {},
            ['x: Invalid value: "object": no such key: n evaluating rule: self.n > 0'],
        ),
        (
            ruled(NUMBER, "1 / self > 0"),
            0,
            ['x: Invalid value: "integer": division by zero evaluating rule: 1 / self > 0'],
        ),
        (ruled(TEXT, "self == oldSelf"), "b", []),
        (ruled({**TEXT, "nullable": True}, "self == 'a'"), None, []),
        (
            ruled({"type": "array", "items": NUMBER, "maxItems": 9}, "self.sum() < 5"),
            [3, 3],
            ["x: Invalid value: failed rule: self.sum() < 5"],
        ),
        (
            {"type": "object", "additionalProperties": ruled(NUMBER, "self < 5")},
            {"k": 9},
            ["x[k]: Invalid value: 9: failed rule: self < 5"],
        ),
        (
            ruled({**TEXT, "maxLength": 1}, "self == 'a'"),
            "bcd",
            [
                "x: Too long: may not be more than 1 byte",
                (
                    "<nil>: Invalid value: null: some validation rules were not checked because the "
                    "object was invalid; correct the existing errors to complete validation"
                ),
            ],
        ),
    ],
)
def test_rules_on_new_objects(schema: dict[str, Any], value: Any, said: list[str]):
    """Messages, reasons and paths; a rule about the past does not apply to something new."""
    assert judged(schema, value) == said


@pytest.mark.parametrize(
    ("schema", "new", "old", "said"),
    [
        (ruled(TEXT, "self == oldSelf"), "b", "a", ['x: Invalid value: "b": failed rule: self == oldSelf']),
        (ruled(TEXT, "self == oldSelf"), "b", None, []),
        (KEYED, [{"k": "b", "v": 2}, {"k": "a", "v": 1}], [{"k": "a", "v": 1}, {"k": "b", "v": 1}], []),
        (
            KEYED,
            [{"k": "b", "v": 0}, {"k": "c", "v": 0}],
            [{"k": "a", "v": 1}, {"k": "b", "v": 1}],
            ["x[0].v: Invalid value: 0: failed rule: self >= oldSelf"],
        ),
        (
            ruled(TEXT, {"rule": "oldSelf.orValue('z') != 'z' || self == 'new'", "optionalOldSelf": True}),
            "b",
            "a",
            [],
        ),
        (
            {
                "type": "object",
                "properties": {"a": ruled(TEXT, "self == 'z'"), "b": ruled(TEXT, "self == 'z'")},
            },
            {"a": "old", "b": "new"},
            {"a": "old", "b": "old"},
            ["x.b: Invalid value: \"new\": failed rule: self == 'z'"],
        ),
    ],
)
def test_rules_on_changes(schema: dict[str, Any], new: Any, old: Any, said: list[str]):
    """Old values are found by name and key; what did not change keeps its errors."""
    assert judged(schema, new, old) == said


def test_optional_old_values_are_there_from_the_start():
    """With optionalOldSelf a rule runs on creation, too."""
    schema = ruled(TEXT, {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": True})
    assert judged(schema, "new") == []
    assert judged(schema, "b") == [
        "x: Invalid value: \"b\": failed rule: oldSelf.hasValue() || self == 'new'"
    ]


def test_older_releases_show_the_type():
    """Values are shown since 1.35."""
    schema = ruled(TEXT, "self == 'a'")
    assert judged(schema, "b", minor=34) == ["x: Invalid value: \"string\": failed rule: self == 'a'"]


def test_a_rule_that_costs_too_much_ends_it_all(monkeypatch: pytest.MonkeyPatch):
    """The limit of one call; no rule runs after it."""
    monkeypatch.setattr(expressions, "CALL_LIMIT", 10_000)
    costly = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    schema = ruled({"type": "array", "items": NUMBER}, costly, "false")
    assert judged(schema, list(range(200))) == [
        (
            "x: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further "
            f"validation rules will be run due to call cost exceeds limit for rule: {costly}"
        )
    ]


def test_the_root_sees_its_kind_and_name():
    """apiVersion, kind and the names are there without being in the schema."""
    root = ruled(
        {"type": "object"}, "self.kind == 'K' && self.apiVersion == 'g/v1' && self.metadata.name == 'a'"
    )
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "b"}}
    (error,) = validate_object(obj, Structural.of(root))
    assert (error.path, error.body.partition(":")[0]) == ("<nil>", "Invalid value")
    obj["metadata"] = {"name": "a"}
    assert validate_object(obj, Structural.of(root)) == []


@pytest.mark.parametrize("minor", range(26, 38))
def test_every_release_knows_rules(minor: int):
    """A simple rule is compiled and evaluated by all of them."""
    rules = Features.of(FeatureGates(Version(minor))).schemas
    root = {"type": "object", "properties": {"x": ruled(TEXT, "self.startsWith('a')")}}
    assert (
        validate_definition({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}}, None, rules)
        == []
    )
    assert len(judged(root["properties"]["x"], "b", minor=minor)) == 1
