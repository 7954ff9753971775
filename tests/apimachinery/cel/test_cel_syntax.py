"""Syntax: what is accepted, and what cel-go's parser (ANTLR) says of the rest."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery import cel

_ENVIRONMENT = cel.environment(36, stored=True, variables={"a": cel.types.DYN, "b": cel.types.DYN})
_ISSUE = re.compile(r"ERROR: <input>:(-?\d+):(\d+): (.*)")
_START = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)


def _issues(expression):
    """Column and text of each issue."""
    with pytest.raises(cel.CompileError) as caught:
        cel.compile(expression, _ENVIRONMENT)
    return [(int(column), text) for _, column, text in _ISSUE.findall(str(caught.value))]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-9223372036854775808", -(2**63)),
        ("0xFFu", 255),
        ("-0x10", -16),
        (".5 + 1e-1", 0.6),
        (r"'\u00e9\x41\101\U0001F600'", "éAA😀"),
        (r"r'\d' + R\"\q\"".replace('\\"', '"'), r"\d\q"),
        ('"""a\n"b" """', 'a\n"b" '),
        (r"b'\xff\377é'", b"\xff\xff\xc3\xa9"),
        ("[1, 2,]", [1, 2]),
        ("{'a': 1,}", {"a": 1}),
        ("!!true", True),
        ("--1", 1),
        ("- -1", 1),
        ("1 - -1", 2),
        ("2 + 3 * 4 % 5", 4),
        ("1 < 2 == true", True),
        ("true || false && false", True),
        ("false ? 1 : true ? 2 : 3", 2),
        ("[?optional.none(), ?optional.of(1)]", [1]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}),
        ("1 // one\n + 1", 2),
        (".a", {"x": 1}),
        ("a.x.b.orValue(1)", None),
    ],
)
def test_what_is_accepted(expression, value):
    """Literals, operators and optional syntax mean what they mean in cel-go."""
    if value is None:
        with pytest.raises(cel.EvaluationError):
            cel.compile(expression, _ENVIRONMENT).evaluate({"a": {"x": 1}})
        return
    found, _ = cel.compile(expression, _ENVIRONMENT).evaluate({"a": {"x": 1}})

    assert found == pytest.approx(value) if isinstance(value, float) else found == value


@pytest.mark.parametrize(
    ("expression", "issues"),
    [
        ("", [(0, f"Syntax error: mismatched input '<EOF>' expecting {_START}")]),
        ("a +", [(4, f"Syntax error: mismatched input '<EOF>' expecting {_START}")]),
        ("a b", [(3, "Syntax error: extraneous input 'b' expecting <EOF>")]),
        ("a b c", [(3, "Syntax error: mismatched input 'b' expecting <EOF>")]),
        ("a.", [(3, "Syntax error: no viable alternative at input '.'")]),
        ("!-x", [(3, "Syntax error: no viable alternative at input '-x'")]),
        ("a.1", [(2, "Syntax error: extraneous input '.1' expecting <EOF>")]),
        (
            "a.in",
            [
                (3, "Syntax error: no viable alternative at input '.in'"),
                (5, f"Syntax error: mismatched input '<EOF>' expecting {_START}"),
            ],
        ),
        ("a.null", [(3, "Syntax error: mismatched input 'null' expecting IDENTIFIER")]),
        ("a[1", [(4, "Syntax error: missing ']' at '<EOF>'")]),
        ("[1, 2", [(6, "Syntax error: mismatched input '<EOF>' expecting {']', ','}")]),
        (
            "a[]",
            [(3, "Syntax error: mismatched input ']' expecting " + _START.replace("'!', ", "'!', '?', "))],
        ),
        ("{1}", [(3, "Syntax error: mismatched input '}' expecting ':'")]),
        ("a ? b", [(6, "Syntax error: mismatched input '<EOF>' expecting ':'")]),
        (
            "a & b",
            [
                (3, "Syntax error: token recognition error at: '& '"),
                (5, "Syntax error: extraneous input 'b' expecting <EOF>"),
            ],
        ),
        (
            "a = b",
            [
                (3, "Syntax error: token recognition error at: '= '"),
                (5, "Syntax error: extraneous input 'b' expecting <EOF>"),
            ],
        ),
        ("#a", [(1, "Syntax error: token recognition error at: '#'")]),
        (
            "'a",
            [
                (1, "Syntax error: token recognition error at: ''a'"),
                (3, f"Syntax error: mismatched input '<EOF>' expecting {_START}"),
            ],
        ),
        (
            r"'\q'",
            [
                (1, r"Syntax error: token recognition error at: ''\q'"),
                (4, "Syntax error: token recognition error at: '''"),
                (5, f"Syntax error: mismatched input '<EOF>' expecting {_START}"),
            ],
        ),
        ("size(a))", [(8, "Syntax error: extraneous input ')' expecting <EOF>")]),
        ("18446744073709551616u", [(1, "invalid uint literal")]),
        ("1e400", [(1, "invalid double literal")]),
        ("has(a)", [(5, "invalid argument to has() macro")]),
        ("a.`b-c`", [(3, "unsupported syntax: '`'")]),
    ],
)
def test_what_is_refused(expression, issues):
    """Every issue is reported where ANTLR finds it, in its words."""
    assert _issues(expression) == issues


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 251 + "1" + ")" * 251, "expression recursion limit exceeded: 250"),
        ("+".join(["1"] * 252), "max recursion depth exceeded"),
        ("a" + ".b" * 251, "max recursion depth exceeded"),
        ("1" * 100_001, "expression code point size exceeds limit: size: 100001, limit 100000"),
    ],
)
def test_limits(expression, message):
    """Expressions too deep or too long are refused as a whole."""
    assert _issues(expression) == [(0, message)]


def test_recovery_gives_up():
    """After thirty recoveries no more is reported."""
    issues = _issues("( ) + " * 40)

    assert issues[-1][1] == "Syntax error: error recovery attempt limit exceeded: 30"


def test_old_minors_know_no_optional_syntax():
    """Before 1.28 there are no optional values."""
    environment = cel.environment(27, stored=True, variables={"a": cel.types.DYN})

    with pytest.raises(cel.CompileError, match=r"<input>:1:2: unsupported syntax '\.\?'"):
        cel.compile("a.?b", environment)


_PIECES = st.sampled_from(
    [
        "a",
        "b",
        "1",
        "'s'",
        "b'x'",
        ".",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ",",
        ":",
        "?",
        "+",
        "-",
        "!",
        "==",
        "&&",
        "in",
        "null",
        "has(",
        "a.map(",
        "x",
        "size",
        "1.5",
        "//",
        "&",
        "'",
        "`",
        "#",
        "\\",
        "é",
    ]
)


@given(st.lists(_PIECES, max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_text_is_answered(text):
    """Any text compiles or is refused with an issue of its own."""
    message = "compilation failed: ERROR: <input>:"
    try:
        cel.compile(text, _ENVIRONMENT)
    except cel.CompileError as error:
        message = str(error)
    assert message.startswith(("compilation failed: ERROR: <input>:", "program instantiation failed: "))


_ATOMS = st.sampled_from(
    ["a", "1", "'s'", "true", "null", "1.5", "[1, 2]", "{'k': 1}", "a.b", "a['k']", "size(a)"]
)


@settings(max_examples=examples(50))  # celpy's parser takes its time
@given(
    st.recursive(
        _ATOMS,
        lambda inner: st.one_of(
            st.tuples(
                inner, st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "in", "&&", "||"]), inner
            ).map(lambda parts: "(" + " ".join(parts) + ")"),
            inner.map("!{}".format),
            st.tuples(inner, inner, inner).map(lambda parts: "({} ? {} : {})".format(*parts)),
        ),
        max_leaves=8,
    )
)
def test_celpy_accepts_the_same(text):
    """Our parser accepts each expression of operators that celpy's grammar accepts."""
    pytest.importorskip("celpy")
    from celpy import CELParser
    from celpy.celparser import CELParseError

    from kubeskew.apimachinery.cel.parser.macros import STANDARD
    from kubeskew.apimachinery.cel.parser.syntax import parse

    try:
        CELParser().parse(text)
        accepted = True
    except CELParseError:
        accepted = False
    if accepted:
        parse(text, STANDARD)
