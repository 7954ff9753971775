"""The type checker: what fits, what does not, and in which words."""

import pytest

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel import types

_VARIABLES = {
    "d": types.DYN,
    "i": types.INT,
    "s": types.STRING,
    "names": types.list_of(types.STRING),
    "labels": types.map_of(types.STRING, types.STRING),
    "o": types.object_type(
        "Thing", {"size": types.INT, "inner": types.object_type("Inner", {"x": types.BOOL})}
    ),
}
_DECIMAL = "error during formatting: decimal clause can only be used on integers, was given "
_TEXT = (
    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
    "lists, types, durations, and timestamps, was given "
)
_ENVIRONMENT = cel.environment(36, stored=True, variables=_VARIABLES)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("i + 1", "int"),
        ("d + 1", "int"),
        ("d + d", "dyn"),
        ("d.x.y", "dyn"),
        ("o.inner.x", "bool"),
        ("has(o.inner)", "bool"),
        ("names.map(n, n.size())", "list(int)"),
        ("names.filter(n, n != '')", "list(string)"),
        ("labels.transformMap(k, v, v.size())", "map(string, int)"),
        ("names.transformList(n, v, n)", "list(int)"),
        ("labels[?'a']", "optional_type(string)"),
        ("labels.?a.orValue('')", "string"),
        ("o.?inner.?x", "optional_type(bool)"),
        ("[]", "list(dyn)"),
        ("[dyn(1), d]", "list(dyn)"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("type(i)", "type(int)"),
        ("i > 1.5", "bool"),
        ("s == null", "!"),
        ("o == null", "bool"),
        ("i > 1 ? 'a' : 'b'", "string"),
        ("optional.of(1).optMap(x, string(x))", "optional_type(string)"),
        ("duration('1h') + duration('1m')", "google.protobuf.Duration"),
        ("quantity('1').add(quantity('2'))", "kubernetes.Quantity"),
        ("[3, 1].sort()[0]", "int"),
        ("names.sortBy(n, n.size())", "list(string)"),
        ("[[1], [2]].flatten()", "list(int)"),
    ],
)
def test_type_of_an_expression(expression, result):
    """An expression has the type that cel-go finds, or none if it does not fit."""
    if result == "!":
        with pytest.raises(cel.CompileError, match="found no matching overload"):
            cel.compile(expression, _ENVIRONMENT)
    else:
        assert str(cel.compile(expression, _ENVIRONMENT).result) == result


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("i + 'a'", 3, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("s.size(1)", 7, "found no matching overload for 'size' applied to 'string.(int)'"),
        ("nope", 1, "undeclared reference to 'nope' (in container '')"),
        ("o.nope", 2, "undefined field 'nope'"),
        ("o.inner.nope", 8, "undefined field 'nope'"),
        ("i.nope", 2, "type 'int' does not support field selection"),
        (
            "s.all(x, true)",
            1,
            "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("names.all(n, n)", 14, "expected type 'bool' but found 'string'"),
        ("[1, 'a']", 5, "expected type 'int' but found 'string'"),
        ("[1, 'a', 'b']", 5, "expected type 'int' but found 'string'"),
        ("[1, d]", 5, "expected type 'int' but found 'dyn'"),
        ("[[1], ['a']]", 7, "expected type 'list(int)' but found 'list(string)'"),
        ("['%d'.format([1])].map(x, [x, 1])", 31, "expected type 'string' but found 'int'"),
        ("'%d'.format(['a'])", 14, _DECIMAL + "string"),
        ("'%s %d'.format([[1, duration('1s')], {'a': true}])", 38, _DECIMAL + "map"),
        (
            "'%s'.format([['a', optional.of(1)]])",
            31,
            _TEXT + "optional_type",
        ),
        ("'%d %d'.format([1])", 15, "index 1 out of range"),
        ("'%d'.format([1, 2])", 12, "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%q'.format([1])", 12, 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("{'a': 1, 'b': 'c'}", 15, "expected type 'int' but found 'string'"),
        ("i && true", 1, "expected type 'bool' but found 'int'"),
        ("[?i]", 3, "expected type 'optional_type(int)' but found 'int'"),
        ("s.matches('(')", 11, "invalid matches argument"),
        ("matches('(', s)", 9, "invalid matches argument"),
        ("duration('1x') == duration('1s')", 10, "invalid duration argument"),
        ("timestamp('today') == d", 11, "invalid timestamp argument"),
        ("timestamp(9223372036854775807) == d", 11, "invalid timestamp argument"),
        ("names.map(i + 1, i)", 13, "argument is not an identifier"),
        ("for > 1", 1, "reserved identifier: for"),
        ("i.startsWith('a')", 13, "found no matching overload for 'startsWith' applied to 'int.(string)'"),
        (
            "sets.contains(names, [1])",
            14,
            "found no matching overload for 'sets.contains' applied to '(list(string), list(int))'",
        ),
    ],
)
def test_message_of_a_misfit(expression, place, message):
    """An expression whose types do not fit is refused with cel-go's message, at its line and column."""
    with pytest.raises(cel.CompileError) as caught:
        cel.compile(expression, _ENVIRONMENT)

    text = str(caught.value)
    assert text.startswith("compilation failed: ERROR: <input>:1:")
    assert f"<input>:1:{place}: {message}\n | {expression}\n | {'.' * (place - 1)}^" in text


def test_all_misfits_are_reported_by_place():
    """Several problems come in the order of the text."""
    with pytest.raises(cel.CompileError) as caught:
        cel.compile("b +\na", _ENVIRONMENT)

    assert str(caught.value) == (
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'b' (in container '')\n | b +\n | ^"
        "\n"
        "ERROR: <input>:2:1: undeclared reference to 'a' (in container '')\n | a\n | ^"
    )


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ((types.BOOL,), "must evaluate to bool but got int"),
        ((types.STRING, types.NULL), "must evaluate to one of [string null_type] but got int"),
    ],
)
def test_results_that_are_allowed(results, message):
    """A result of another type is refused in the words of admission."""
    with pytest.raises(cel.CompileError) as caught:
        cel.compile("i", _ENVIRONMENT, results)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("minor", "stored", "known"),
    [(33, False, False), (33, True, True), (34, False, True), (32, True, False)],
)
def test_libraries_come_with_minors(minor, stored, known):
    """A library new in a minor serves stored expressions at once, and new expressions one minor later."""
    environment = cel.environment(minor, stored=stored)
    if known:
        assert cel.compile("isSemver('1.0.0')", environment).result == types.BOOL
    else:
        with pytest.raises(cel.CompileError, match="undeclared reference to 'isSemver'"):
            cel.compile("isSemver('1.0.0')", environment)


def test_equal_expressions_share_a_program():
    """An expression is compiled once per environment."""
    assert cel.compile("i + 1", _ENVIRONMENT) is cel.compile("i + 1", _ENVIRONMENT)
    assert cel.compile("i + s.size()", _ENVIRONMENT).names == {"i", "s"}


def test_mutations_make_objects_and_patches():
    """Objects take any field; patches take theirs."""
    environment = _ENVIRONMENT.extended(named=cel.mutations.TYPES, libraries=(cel.JSON_PATCH,))
    program = cel.compile("Object{spec: Object.spec{replicas: i}}", environment)
    value, _ = program.evaluate({"i": 3})

    assert program.result == types.object_type("Object", {})
    assert cel.to_json(value) == {"spec": {"replicas": 3}}
    assert cel.mutations.name_errors(value) == []
    source = "Object.spec{a: Object.status{b: [Object.status.b{}]}}"
    wrong, _ = cel.compile(source, environment).evaluate({})
    assert cel.mutations.name_errors(wrong) == [
        f'unexpected type name "{own}", expected "{name}", which matches field name path from root '
        "Object type"
        for own, name in (("Object.status", "Object.spec.a"), ("Object.status.b", "Object.spec.a.b"))
    ]
    with pytest.raises(cel.CompileError, match="undefined field 'nope'"):
        cel.compile("JSONPatch{nope: 1}", environment)
    with pytest.raises(
        cel.CompileError, match="expected type of field 'op' is 'string' but provided type is 'int'"
    ):
        cel.compile("JSONPatch{op: 1}", environment)
