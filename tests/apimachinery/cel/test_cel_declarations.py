"""Structural schemas as declared types: what expressions see of them, and what that may cost."""

import gc
import re
import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel import types

_SCHEMA = {
    "type": "object",
    "required": ["names"],
    "properties": {
        "names": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 5}},
        "free": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "for": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "a-b.c/d": {"type": "string"},
        "__x": {"type": "string"},
        "namespace": {"type": "string"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            },
        },
        "hidden": {"x-kubernetes-preserve-unknown-fields": True},
        "pairs": {
            "type": "array",
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k!", "k.v"],
                "items": {
                    "type": "object",
                    "properties": {"k!": {"type": "string"}, "k.v": {"type": "string"}},
                },
            },
        },
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"text": {"type": "string", "nullable": True}},
            },
        },
        "children": {"type": "object", "properties": {"one": {"type": "object", "properties": {}}}},
    },
}
_OBJECT = {
    "names": ["a", "bb"],
    "labels": {"x": 1},
    "ratio": 2,
    "on": True,
    "port": "http",
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00+01:00",
    "for": "1h30m",
    "raw": "aGk=",
    "a-b.c/d": "odd",
    "__x": "under",
    "namespace": "n",
    "set": ["a", "b"],
    "map": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "pairs": [[{"k!": "a", "k.v": "1"}, {"k!": "b"}], [{"k!": "b"}, {"k!": "a", "k.v": "1"}]],
    "notes": [{"text": None}, {"text": "a", "b": [1]}, {"text": "a", "b": [1]}, {"text": "a", "b": [2]}],
    "metadata": {"name": "me"},
}


def _declared():
    declared = cel.declare(_SCHEMA, root=True)
    assert declared is not None
    return declared


_DECLARED = _declared()
_ENVIRONMENT = cel.environment(36, stored=True, variables={"self": _DECLARED})


def _program(expression):
    return cel.compile(expression, _ENVIRONMENT)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.names.size()", 2),
        ("self.metadata.name", "me"),
        ("self.ratio / 4.0", 0.5),
        ("self.port", "http"),
        ("string(self.day)", "2024-02-29T00:00:00Z"),
        ("self.at.getHours()", 11),
        ("string(self.__for__)", "5400s"),
        ("self.raw", b"hi"),
        ("self.a__dash__b__dot__c__slash__d", "odd"),
        ("self.__underscores__x + self.__namespace__", "undern"),
        ("has(self.on) && !has(self.free)", True),
        ("self.set == ['b', 'a']", True),
        ("(self.set + ['c', 'a']).size()", 3),
        ("self.map == [self.map[1], self.map[0]]", True),
        ("(self.map + [self.map[0]]).size()", 2),
        ("self.pairs[0] == self.pairs[1]", True),
        ("has(self.notes[0].text) || self.notes[0] == self.notes[0]", False),
        ("self.notes[1] == self.notes[2] && self.notes[1] != self.notes[3]", True),
        ("self.?free.orValue([]).size() + self.labels['x']", 1),
    ],
)
def test_objects_as_their_schema_says(expression, value):
    """Values have the types of their formats; names are escaped; sets and maps compare without order."""
    assert _program(expression).evaluate({"self": cel.to_value(_OBJECT, _DECLARED)})[0] == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("self.hidden", "undefined field 'hidden'"),
        ("self.nope", "undefined field 'nope'"),
        ("self.on + 1", "found no matching overload for '_+_' applied to '(bool, int)'"),
        ("self.children == self.children.one", "applied to '(selfType.children, selfType.children.one)'"),
    ],
)
def test_what_a_schema_does_not_say_is_not_there(expression, message):
    """Untyped properties cannot be seen; types of objects are named after where they are."""
    with pytest.raises(cel.CompileError) as caught:
        _program(expression)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("self.names.all(x, x.size() < 10)", 2 + 10 * 6 + 1),
        ("self.names.all(x, x == 'abcdefgh')", 2 + 10 * (2 + 1 + 1 + 1) + 1),
        ("self.names.exists(x, self.names.exists(y, x == y))", 2 + 10 * (3 + 1 + 2 + 10 * 8 + 1) + 1),
        ("self.free.all(x, true)", 2 + (3 * 1024 * 1024 - 2) // 3 * 3 + 1),
        ("self.names[0].contains('ab')", 3 + 2 * 1),
        ("self.names.map(x, x + x).size() > 2", 2 + 10 + 10 * (1 + 10 + 2 + 4 + 1) + 1 + 2),
        ("self.labels.all(k, k != '')", 2 + 3 * 4 + 1),
    ],
)
def test_estimate_grows_with_what_is_allowed(expression, most):
    """The largest cost follows maxItems, maxLength and the size of requests."""
    assert _program(expression).estimate()[1] == most


def test_estimate_bounds_what_is_spent():
    """Evaluation costs no more than the estimate, no less than its least."""
    program = _program("self.names.all(x, x.size() < 10) && self.labels.exists(k, k == 'x')")
    cost = program.evaluate({"self": cel.to_value(_OBJECT, _DECLARED)})[1]
    least, most = program.estimate()

    assert least <= cost <= most


def test_plain_objects_are_not_copied():
    """A value of a type that CEL can see as plain JSON is bound without a copy."""
    declared = cel.declare({"type": "object", "properties": {"a": {"type": "string"}}})
    data = {"a": "b"}

    assert declared is not None
    assert cel.to_value(data, declared) is data
    assert cel.declare({"type": "array"}) is None
    assert declared.type == types.object_type("selfType", {})


def test_a_bad_format_fails_when_read():
    """Data that is not what its format says is an error of the expression that reads it."""
    value = cel.to_value({"names": [], "at": "yesterday"}, _DECLARED)

    assert _program("self.names.size() == 0").evaluate({"self": value})[0] is True
    with pytest.raises(cel.EvaluationError, match="Invalid date-time formatted string yesterday"):
        _program("self.at.getHours() == 0").evaluate({"self": value})


@example("_/_")
@example("_____")
@example("-_._/__")
@example("/a")
@example("a__dot__a")
@given(st.from_regex(r"[A-Za-z_./-][A-Za-z0-9_./-]{0,20}", fullmatch=True))
def test_escaped_names_come_back(name):
    """Every name that can be escaped comes back as it was."""
    escaped = cel.escape(name)

    assert escaped is not None
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", escaped)
    assert cel.unescape(escaped) == name


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a._a", "a__dot___a"),
        ("_/_", "___slash___"),
        ("a.-/__a", "a__dot____dash____slash____underscores__a"),
        ("a____a", "a__underscores____underscores__a"),
        ("a___a", "a__underscores___a"),
        ("-a", "__dash__a"),
        ("namespace", "__namespace__"),
        ("_if", "_if"),
        ("1up", None),
        ("@", None),
        ("", None),
    ],
)
def test_escaped_names(name, escaped):
    """Names are escaped from the left, two underscores at a time; one that begins with a digit cannot be."""
    assert cel.escape(name) == escaped


@pytest.mark.parametrize(
    ("identifier", "name"),
    [("__int__extra", None), ("__illegal__", None), ("__if__extra", None), ("a__", "a__"), ("__a", "__a")],
)
def test_odd_identifiers(identifier, name):
    """An identifier with a sequence that means nothing is no name; other underscores mean themselves."""
    assert cel.unescape(identifier) == name


def test_programs_go_with_their_environment():
    """An expression is compiled once in an environment; nothing keeps either when they are no longer used."""
    made = cel.environment(36, stored=False, variables={"x": types.INT})
    program = cel.compile("x + 1 == 2", made)
    assert cel.compile("x + 1 == 2", made) is program
    with pytest.raises(cel.CompileError):
        cel.compile("y", made)

    gone = weakref.ref(made)
    del made, program
    gc.collect()

    assert gone() is None
