"""Evaluation: values, errors in cel-go's words, what absorbs them, and what all this costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.cel.values import INT_MAX, INT_MIN, UInt

_ENVIRONMENT = cel.environment(
    36, stored=True, variables={"d": types.DYN, "i": types.INT, "s": types.STRING}
).extended(libraries=(cel.BINDINGS,))
_BINDINGS = {
    "d": {"a": 1, "l": [1, 2, 3], "n": None, "m": {"k": "v"}, "b": True, "s": "text", "f": 1.5},
    "i": 7,
    "s": "héllo",
}


def _value(expression):
    return cel.compile(expression, _ENVIRONMENT).evaluate(_BINDINGS)[0]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / -2", -3),
        ("-7 % 3", -1),
        ("1.0 / 0.0", float("inf")),
        ("5u - 3u", 2),
        ("[1] + [2]", [1, 2]),
        ("1 == 1u", "!"),
        ("dyn(1) == 1u && dyn(1) == 1.0", True),
        ("dyn(1) == '1'", False),
        ("1 < 2u && 2.5 > 2", True),
        ("2 in d.l && 2.0 in d.l", True),
        ("'k' in d.m", True),
        ("d.n == null", True),
        ("has(d.n) && !has(d.x) && !has(d.m.x)", True),
        ("d.?x.?y.orValue('z')", "z"),
        ("d.m[?'k'].or(optional.of('q')).value()", "v"),
        ("optional.ofNonZeroValue('').hasValue()", False),
        ("[1, 2].first().value() + [1, 2].last().value()", 3),
        ("d.l.filter(x, x > 1).map(x, x * x)", [4, 9]),
        ("d.l.map(x, x > 1, x + 1)", [3, 4]),
        ("d.l.exists_one(x, x == 2)", True),
        ("d.l.transformMap(i, v, v * 10)", {0: 10, 1: 20, 2: 30}),
        ("d.l.transformList(i, v, i > 0, v)", [2, 3]),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", {1: "a"}),
        ("cel.bind(x, d.a, x + x)", 2),
        ("s.size()", 5),
        ("s.charAt(1) + s.substring(2, 4)", "éll"),
        ("s.upperAscii()", "HéLLO"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("['a', 'b'].join('-')", "a-b"),
        ("'abcabc'.lastIndexOf('b') + 'abc'.indexOf('c', 1)", 6),
        ("'aXbX'.replace('X', '-', 1)", "a-bX"),
        ("'  x\\t'.trim()", "x"),
        ("strings.quote('a\"\\n')", '"a\\"\\n"'),
        (
            "'%s is %d of %.2f (%x, %b, %o)'.format([dyn('a'), 3, 2.5, 255, 5, 8])",
            "a is 3 of 2.50 (ff, 101, 10)",
        ),
        ("'%s'.format([[dyn(1), 'a', {'k': 1.0}]])", '[1, "a", {"k":1.000000}]'),
        (
            "'%s'.format([[dyn(b'a'), duration('1s'), timestamp(0), double('NaN'), null]])",
            '[b"a", duration("1s"), timestamp("1970-01-01T00:00:00Z"), "NaN", null]',
        ),
        (
            "'%f %.1f %e %.9e'.format([1234567.0, -1.25, 0.00012, -0.0])",
            "1,234,567.000000 -1.2 1.200000×10⁻⁰⁴ 0.000000×10⁰⁰",  # noqa: RUF001
        ),
        ("'%f %.3e'.format([double('inf'), double('-inf')])", "∞  -∞"),
        ("string(1234567.0) + ' ' + string(1e-7) + ' ' + string(123456.5)", "1.234567e+06 1e-07 123456.5"),
        ("'abc123'.find('[0-9]+')", "123"),
        ("'a1b22'.findAll('[0-9]+', 1)", ["1"]),
        ("'aab'.matches('^a+b$')", True),
        ("[1, 3].sum() + [2, 5].max() + [2, 5].min()", 11),
        ("[duration('1h'), duration('1m')].sum() == duration('61m')", True),
        ("[1, 2, 2].isSorted() && [3, 1].indexOf(1) == 1", True),
        ("d.l.flatten()", [1, 2, 3]),
        ("[[dyn(1), dyn([2])], [dyn(3)]].flatten(2)", [1, 2, 3]),
        ("['bb', 'a'].sortBy(x, x.size())", ["a", "bb"]),
        ("sets.intersects([1], [2, 1]) && sets.contains([1, 2], [2])", True),
        ("int('-42') + int(3.9) + int(duration('1s') == duration('1000ms') ? 1 : 0)", -38),
        ("timestamp('2024-02-29T12:30:00+02:00').getHours()", 10),
        ("timestamp('2024-02-29T12:30:00Z').getDayOfYear('Europe/Berlin')", 59),
        ("timestamp('2024-03-03T00:00:00Z').getDayOfWeek('-01:00')", 6),
        ("string(timestamp('2024-01-01T00:00:00Z') + duration('90m'))", "2024-01-01T01:30:00Z"),
        ("duration('1h30m').getMinutes()", 90),
        (
            "string(duration('1h0m1.5s')) + string(timestamp('2024-01-01T00:00:00.50Z'))",
            "3601.5s2024-01-01T00:00:00.5Z",
        ),
        ("string(timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z'))", "86400s"),
        ("string(duration('1h') - duration('1ns'))", "3599.999999999s"),
        ("string(duration('-1500us')) + string(duration('0'))", "-0.0015s0s"),
        ("int(duration('1.000000001s'))", 1_000_000_001),
        ("string(timestamp('2024-02-29T23:30:00.123456789-01:30'))", "2024-02-29T23:30:00.123456789-01:30"),
        ("timestamp('2024-01-01T00:00:00+02:00') == timestamp('2023-12-31T22:00:00Z')", True),
        ("timestamp('2024-01-01T00:00:00.000000002Z') > timestamp('2024-01-01T00:00:00.000000001Z')", True),
        ("optional.ofNonZeroValue(duration('0s')).hasValue()", False),
        ("dyn([1.5, 2.0]).sum() == 3.5 && dyn(['b', 'a']).max() == 'b'", True),
        ("[dyn(1), dyn('a'), dyn(0)].isSorted() && [dyn(3), dyn('x'), dyn(1)].min() == 1", True),
        ("url('https://u@example.com:8080/p%20q?a=1&a=2').getHost()", "example.com:8080"),
        ("url('https://example.com:8080/p%20q?a=1&a=2').getQuery()", {"a": ["1", "2"]}),
        ("url('https://[::1]:80/').getHostname() + url('/x').getEscapedPath()", "::1/x"),
        ("isURL('://x') || isURL('x')", False),
        ("ip('::1').isLoopback() && ip.isCanonical('10.0.0.1') && !isIP('10.0.0.256')", True),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("string(cidr('10.1.2.3/8').ip())", "10.1.2.3"),
        ("quantity('1Gi').compareTo(quantity('1024Mi')) + sign(quantity('-1'))", -1),
        ("quantity('1.5').isInteger() || isQuantity('x')", False),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1', true).minor() == 0", True),
        ("format.named('uuid').value().validate('x').value()", ["does not match the UUID format"]),
        ("format.dns1123Label().validate('a.b').value()", ["must not contain dots"]),
        (
            "format.dns1035Label().validate('1').value()[0].contains(\"(e.g. 'my-name',  or 'abc-123', \")",
            True,
        ),
        ("format.dns1123SubdomainPrefix().validate('a.-').hasValue()", False),
        ("['', 'YQ==', 'YQ='].map(t, format.byte().validate(t).hasValue())", [True, False, True]),
        ("format.datetime().validate('2021-01-01t00:00:00.5z').hasValue()", False),
        (
            "[format.dns1123Label(), format.labelValue()].map(f, f.validate('a.b').hasValue())",
            [True, False],
        ),
    ],
)
def test_value(expression, value):
    """Expressions have cel-go's values, by Kubernetes' libraries."""
    if value == "!":
        with pytest.raises(cel.CompileError, match="found no matching overload"):
            _value(expression)
    else:
        assert _value(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("d.x", "no such key: x"),
        ("d['x'].y", "no such key: x"),
        ("d.l[3]", "index out of bounds: 3"),
        ("d.l['a']", "unsupported index type 'string' in list"),
        ("d.l[d.f - d.f / 0.0 + d.f / 0.0]", "unsupported index value NaN in list"),
        ("{'a': 1}[dyn([d.a])]", "invalid qualifier type: *types.baseList"),
        ("{bytes(d.s): 1}", "internal error: runtime error: hash of unhashable type types.Bytes"),
        ("{dyn(['a']): 1}", "unsupported key type: list"),
        ("[?d.s]", "cannot initialize optional list element from non-optional value text"),
        ("{?'k': d.a}", "cannot initialize optional entry 'k' from non-optional value 1"),
        (
            "cel.bind(x, [?optional.none(), ?optional.of(dyn(null))], (d.l).x) in d.m",
            "unsupported index type 'string' in list",
        ),
        ("d.a.b", "no such key: b"),
        ("1 / (i - 7)", "division by zero"),
        ("1 % (i - 7)", "modulus by zero"),
        ("9223372036854775807 + i", "integer overflow"),
        ("-9223372036854775808 - i", "integer overflow"),
        ("uint(i) - 8u", "unsigned integer overflow"),
        ("d.a + d.s", "no such overload"),
        ("d.b + d.b", "no such overload: _+_"),
        ("d.m < d.m", "no such overload: _<_"),
        ("!d.m", "no such overload"),
        ("d.s && true", "no such overload"),
        ("d.s ? 1 : 2", "no such overload"),
        ("d.a.size()", "no such overload: size"),
        ("d.a.startsWith('x')", "no such overload"),
        ("d.a.lowerAscii()", "no such overload: lowerAscii(int)"),
        ("int(d.s)", "type conversion error from 'string' to 'int'"),
        ("[].max()", "max called on empty list"),
        ("s.substring(4, 2)", "invalid substring range. start: 4, end: 2"),
        ("s.charAt(9)", "index out of range: 9"),
        ("d.?x.value()", "optional.none() dereference"),
        ("d.a.map(x, x)", "got 'types.Int', expected iterable type"),
        ("d.s.matches(d.s + '[')", "error parsing regexp: missing closing ]: `[`"),
        (
            "quantity(s)",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("duration('3h') + duration('2562047h')", "integer overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("timestamp(s)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("dyn([['a']]).join()", "no such overload: join(list)"),
        ("d.s.flatten()", "no such overload: string.flatten()"),
        (
            "'%d'.format([d.s])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("timestamp('2024-01-01T00:00:00Z').getHours('Nowhere')", "unknown time zone Nowhere"),
        ("[1, 2].slice(2, 1)", "cannot slice(2, 1), start index must be less than or equal to end index"),
    ],
)
def test_error(expression, message):
    """An expression that fails on its input fails with cel-go's message."""
    with pytest.raises(cel.EvaluationError) as caught:
        _value(expression)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("d.x || true", True),
        ("false && d.x", False),
        ("d.x && false", False),
        ("true ? 1 : d.x", 1),
        ("d.l.exists(x, d.x || x == 2)", True),
        ("d.l.all(x, 1 / (x - 1) < 0)", False),
        ("has(d.m.x) || d.l.exists(x, 6 / (x - 1) == 6)", True),
    ],
)
def test_errors_absorbed(expression, value):
    """A deciding operand outdoes a failing one, whichever comes first."""
    assert _value(expression) is value


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("1 + 2 == 3", 2),
        ("i", 1),
        ("d.m.k", 3),
        ("has(d.m)", 1),
        ("has(d.m.k)", 2),
        ("i > 1 ? d.m.k : ''", 4),
        ("[i]", 11),
        ("{'k': i}", 31),
        ("d.l.all(x, x > 0)", 18),
        ("cel.bind(x, d.m.k, i > 1)", 2),
        ("cel.bind(x, d.m.k, x + x)", 6),
        ("s.contains('l')", 2),
        ("i in [1, 2]", 1),
        ("i in d.l", 4),
        ("d.?x.orValue(1)", 1),
        ("[3, 1, 2].isSorted()", 3),
    ],
)
def test_cost(expression, cost):
    """Evaluation costs what cel-go's tracker counts."""
    assert cel.compile(expression, _ENVIRONMENT).evaluate(_BINDINGS)[1] == cost


def test_limit_cannot_be_absorbed():
    """At the limit evaluation ends, regardless of what surrounds it."""
    program = cel.compile("[1, 2, 3].all(x, i > 0) || true", _ENVIRONMENT)

    with pytest.raises(
        cel.EvaluationError, match=r"^operation cancelled: actual cost limit exceeded$"
    ) as caught:
        program.evaluate(_BINDINGS, limit=5)
    assert caught.value.cost == 6


def test_lazy_bindings_are_read_once():
    """A lazy value is computed when first read, its reader pays, and a failure is kept."""
    calls = []

    def compute():
        calls.append(1)
        return 5, 100

    def fail():
        calls.append(2)
        raise cel.EvaluationError("broken")

    variables = {"a": cel.Lazy(compute), "b": cel.Lazy(fail)}
    environment = _ENVIRONMENT.extended(
        {"variables": types.object_type("V", {"a": types.INT, "b": types.INT})}
    )
    unused = cel.compile("i == 7 || variables.b > 1", environment)
    used = cel.compile("variables.a + variables.a", environment)
    broken = cel.compile("variables.b > 1", environment)

    assert unused.evaluate({**_BINDINGS, "variables": variables}) == (True, 2)
    assert calls == []
    assert used.evaluate({"variables": variables}) == (10, 105)
    for _ in range(2):
        with pytest.raises(cel.EvaluationError, match=r"^broken$"):
            broken.evaluate({"variables": variables})
    assert calls == [1, 2]


def test_authorizer_is_asked_what_was_built():
    """Each step of a question adds to what is asked; a question is dear."""
    asked = []

    def check(question):
        asked.append(dict(question))
        return "allow", "because"

    environment = cel.environment(
        36,
        stored=True,
        variables={"authorizer": types.opaque("kubernetes.authorization.Authorizer")},
    )
    bindings = {"authorizer": cel.authorizer.Authorizer(check)}
    text = "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('x')"
    program = cel.compile(
        f"{text}.check('get').allowed() && authorizer.path('/healthz').check('get').reason() != ''",
        environment,
    )
    value, cost = program.evaluate(bindings)

    assert value is True
    assert cost == 700_010
    assert asked == [
        {
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "namespace": "n",
            "name": "x",
            "verb": "get",
        },
        {"path": "/healthz", "verb": "get"},
    ]
    account = cel.compile(
        "authorizer.serviceAccount('n', 'a').path('/x').check('get').errored()", environment
    )
    assert account.evaluate(bindings)[0] is False
    assert asked[-1]["serviceAccount"] == ("n", "a")


_INTEGERS = st.integers(INT_MIN, INT_MAX)
_NUMBERS = cel.environment(36, stored=True, variables={"x": types.INT, "y": types.INT})


@given(_INTEGERS, _INTEGERS)
def test_division_and_remainder_agree(x, y):
    """x == (x / y) * y + x % y, as in Go, unless it overflows or y is zero."""
    program = cel.compile("(x / y) * y + x % y == x", _NUMBERS)
    if y == 0 or (x == INT_MIN and y == -1):
        with pytest.raises(cel.EvaluationError, match=r"division by zero|integer overflow"):
            program.evaluate({"x": x, "y": y})
    else:
        assert program.evaluate({"x": x, "y": y})[0] is True


@given(st.integers(0, 2**64 - 1))
def test_unsigned_text_and_back(number):
    """Numbers survive the way to text and back."""
    environment = cel.environment(36, stored=True, variables={"u": types.UINT})

    assert cel.compile("uint(string(u)) == u", environment).evaluate({"u": UInt(number)})[0] is True


@given(st.lists(st.integers(-5, 5), max_size=8))
def test_quantifiers_are_dual(numbers):
    """`all` is `exists` of the opposite, and collecting keeps the order."""
    environment = cel.environment(36, stored=True, variables={"l": types.list_of(types.INT)})
    program = cel.compile("l.all(x, x > 0) == !l.exists(x, x <= 0) && l.filter(x, true) == l", environment)

    assert program.evaluate({"l": numbers})[0] is True


@pytest.mark.parametrize(
    ("inner", "with_bug", "without"),
    [
        ("10.0.0.0/16", True, True),
        ("10.1.0.0/16", False, True),
        ("10.0.0.0/7", False, False),
        ("11.0.0.0/16", False, False),
    ],
)
def test_a_release_may_miss_networks_inside_of_others(inner: str, with_bug: bool, without: bool):
    """With 130450 networks contain only those that begin where they do, given as text or as a network."""
    for misses, expected in ((True, with_bug), (False, without)):
        expressions = cel.environment(Release(32, misses), stored=True)
        for other in (f"'{inner}'", f"cidr('{inner}')"):
            program = cel.compile(f"cidr('10.0.0.0/8').containsCIDR({other})", expressions)
            assert program.evaluate({})[0] is expected
