"""Random CEL expressions: along the functions, macros and variables of an environment, sound and nearly so."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.environments import Environment
from kubeskew.apimachinery.cel.overloads import Overload
from kubeskew.apimachinery.cel.types import Type

_OPERATORS = {"@in": "in"}
_AUTHORIZATION = "kubernetes.authorization."
_SCALARS = (
    types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES, types.DURATION,
    types.TIMESTAMP,
)  # fmt: skip
_KEYS = (types.STRING, types.STRING, types.INT, types.BOOL, types.UINT)
_OPAQUE = tuple(
    types.object_type(f"kubernetes.{name}", {}) for name in ("Quantity", "Semver", "URL", "NamedFormat")
) + (types.opaque("net.IP"), types.opaque("net.CIDR"))
_PATTERNS = (
    "^a+$", "[0-9]+", "a|b", "(a)(b)?", "", ".", "^$", "[", "(", "*", "\\\\d{2,3}", "\\\\w+", "(?i)ABC", "a{2}",
    "(?P<n>x)", "[[:alpha:]]", "\\\\p{L}", "x*", "a{1001}", "(?=a)", "\\\\bb", "a**", "[^a]*", "[b-a]", "\\\\", "a)",
)  # fmt: skip
_QUANTITIES = (
    "1", "0", "-1", "1Gi", "1.5", "100m", "1e3", "1E", "12Ki", "0.1m", "1n", "1u", "x", "", "1 Gi", "1.5Gi",
    "9223372036854775807", "9223372036854775808", "1000000000000000000000", "0.5", "-0", "+1", "1Mi", "1.", ".5",
    "1e-3", "1E3", "1_0", "5Pi", "10Ei", "1e400",
)  # fmt: skip
_VERSIONS = (
    "1.2.3", "0.0.0", "1.2", "v1.2.3", "1.2.3-alpha.1", "1.2.3+build", "01.2.3", "1.2.3-01", "1.2.3.4", "",
    "1", "v1", "1.2.3-", "10.20.30", "1.2.3-rc.1+b.2", "1.2.x", "99999999999999999999.0.0", "1.2.3-alpha", "v01.2",
)  # fmt: skip
_URLS = (
    "https://example.com:8080/a%20b?x=1&y=2&x=3", "http://[::1]:80/", "/path/to", "mailto:a@b.c", "example.com",
    "", "*", "https://u:p@example.com", "http://a b/", "http://example.com:port/", "://x", "https://a/?q=%zz",
    "http://a/%zz", "//host/path", "http://a/b#frag", "HTTP://A.B/c", "https://[fe80::1%25eth0]/", "http://",
    "https://example.com/a b", "https://exa mple.com", "/a?b=c;d=e", "https://ü.example/ü", "http://[::1", "x:y",
)  # fmt: skip
_ADDRESSES = (
    "10.0.0.1", "::1", "127.0.0.1", "0.0.0.0", "::", "fe80::1", "ff02::1", "224.0.0.1", "255.255.255.255", "10.0.0",
    "10.0.0.256", "10.0.0.01", "::ffff:10.0.0.1", "fe80::1%eth0", "x", "", "2001:db8::1", "2001:DB8::1", "1::2::3",
    "10.0.0.0.1", "169.254.1.1", "2001:0db8::0001", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", ":", "10..0.1", "1.2.3.4 ",
    "224.0.1.1", "ff01::1", "::1.2.3.4", "12345::",
)  # fmt: skip
_NETWORKS = (
    "10.0.0.0/8", "10.1.2.3/16", "::/0", "2001:db8::/32", "10.0.0.0/33", "10.0.0.0", "x/8", "10.0.0.0/-1", "fe80::1/64",
    "0.0.0.0/0", "10.0.0.1/32", "::ffff:10.0.0.0/104", "fe80::1%e/64", "10.0.0.0/08", "/8", "10.0.0.0/", "::1/128",
    "2001:db8:0:0::/64",
)  # fmt: skip
_DURATIONS = (
    "1h", "1.5s", "-2m30s", "1ns", "87600h", "0s", "0", "1d", "", "h", "1", "100us", "1ms", "3h2m1s", "1h1h", "-1.5h",
    "+1s", ".5s", "1.s", "9223372036s", "9223372037s", "2562047h47m16.854775807s", "1µs", "1s ", "300000h",
)  # fmt: skip
_TIMES = (
    "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z", "2026-06-30T23:59:59+02:00", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z", "2024-02-29T12:00:00-08:00", "2026-01-02", "2026-13-01T00:00:00Z", "", "now",
    "2026-01-02T03:04:05", "2026-01-02t03:04:05z", "1970-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
    "2026-01-02T25:00:00Z", "2023-02-29T00:00:00Z", "10000-01-01T00:00:00Z", "2026-01-02T03:04:05.5+14:00",
    "2026-01-02 03:04:05Z", "2026-01-02T03:04:60Z",
)  # fmt: skip
_ZONES = (
    "UTC", "", "America/New_York", "+05:30", "-08:00", "5:30", "Europe/Berlin", "Mars/Base", "+25:00", "+1", "Local",
    "Asia/Kolkata", "GMT", "+5:3", "-00:00", "23:59", "02:00",
)  # fmt: skip
_FORMATS = (
    "dns1123Label", "dns1123Subdomain", "qualifiedName", "uri", "uuid", "date", "datetime", "byte", "labelValue",
    "dns1035Label", "other", "", "dns1035LabelPrefix", "dns1123SubdomainPrefix",
)  # fmt: skip
_TEXTS = (
    "", "a", "b", "abc", "a,b,c", "ü", "😀x", "Hello World", " pad ", "it\\'s", "a\\nb", "1", "-5", "true", "1.5", "NaN",
    "x" * 20, "UPPER", "aXbX", "a.b.example.com", "A_b-c", "-", "0x10", "  ", "\\t", "\\u00e9", "TRUE", "t", "F", "1e3",
    "aaaa", "a" * 64, "ß", "İ", "123e4567-e89b-12d3-a456-426614174000", "YWJj", "a/b", "~", "inf", "+7", "1_000",
    "18446744073709551616", "9223372036854775808", "07", "\\\\", '"', "a\\x00b", "ab\\u200bc", "%s", "name",
)  # fmt: skip
_SELECTORS = (
    "a=b",
    "metadata.name=x",
    "a in (b, c)",
    "!a",
    "a notin (b)",
    "a==b,c!=d",
    "a in (",
    "",
    "spec.x=1",
    "a",
)
_VERBS = ("get", "list", "watch", "create", "*", "", "other")
# What a text that a function gets is likely to be: by the function's name and the place among its parameters.
_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "matches": _PATTERNS, "find": _PATTERNS, "findAll": _PATTERNS,
    "quantity": _QUANTITIES, "isQuantity": _QUANTITIES, "semver": _VERSIONS, "isSemver": _VERSIONS,
    "url": _URLS, "isURL": _URLS, "ip": _ADDRESSES, "isIP": _ADDRESSES, "ip.isCanonical": _ADDRESSES,
    "cidr": _NETWORKS, "isCIDR": _NETWORKS, "containsIP": _ADDRESSES, "containsCIDR": _NETWORKS,
    "duration": _DURATIONS, "timestamp": _TIMES, "format.named": _FORMATS,
    "fieldSelector": _SELECTORS, "labelSelector": _SELECTORS, "check": _VERBS,
    "path": ("/healthz", "/", "", "/x"), "group": ("", "apps", "other"), "resource": ("pods", "deployments", ""),
    **dict.fromkeys(
        (
            "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours",
            "getMinutes", "getSeconds", "getMilliseconds",
        ),
        _ZONES,
    ),
}  # fmt: skip
_INTEGERS = (
    "0", "1", "2", "-1", "3", "10", "100", "2147483648", "9223372036854775807", "-9223372036854775808", "0x1F", "-7",
    "1000000", "4", "5", "-0x10", "86400", "253402300799", "-62135596800",
)  # fmt: skip
_UNSIGNED = ("0u", "1u", "7u", "18446744073709551615u", "0xFFu", "2u", "10U", "9223372036854775808u")
_DOUBLES = (
    "0.0", "1.5", "-2.25", "1e3", "1e-7", "123456789.125", "1e21", "1e308", ".5", "3.0", "-0.0", "1e6", "100000.0",
    "0.1", "1e20", "9223372036854775807.0", "1.0E+2", "2.5", "1234567.0", "0.0001", "0.00001", "-1e19", "1e-320",
    "double('NaN')", "double('inf')", "double('-Infinity')",
)  # fmt: skip
_BYTES = ("b''", "b'abc'", "b'\\xff'", "b'\\303\\274'", "b'ü'", 'b"""x"""', "br'\\d'", "b'\\000a'")
_WRONG = (
    "self.none", "none", "foo(1)", "'a' + 1", "1 + 1u", "!1", "-'a'", "[1, 'a']", "{1: 2, 'a': 3}", "has(1)", "has(self)",
    "self.ls.all(1, true)", "self.ls.all(x, 1)", "self.ls.map(x)", "self.ls.exists(x, y, z, w)", "'a'.size(1)", "size()",
    "self()", "self.s()", "1()", "a.b.c", "self.o.none.x", "self.ls.x", "self.s.x", "self.i[0]", "self['s']", "string",
    "int + 1", "null + null", "null == 1", "1 == '1'", "1 < 'a'", "1 in 2", "'a' in self", "1 ? 2 : 3", "true ? 1 : 'a'",
    "'%d'.format(['a'])", "'%s'.format([])", "'%'.format([1])", "'%y'.format([1])", "'%s'.format('a')", "'%.3d'.format([1])",
    "duration('x')", "timestamp('x')", "'a'.matches('[')", "self.o{a: 1}", "Foo{a: 1}", "{}", "[]", "optional.none()",
    "[?1]", "{?'a': 1}", "self.?none", "self.?s.x", "self.ls[?'a']", "self.ms[?1]", "1 && true", "true || 1", "(1", "1)",
    "'a", "1 +", "+ 1", "a b", "1..2", "self..s", "self.", ".self", ".", "", "if", "self.in", "for", "package", "1.x", "0x",
    "1uu", "'\\q'", "'\\u12'", "b'\\u00e9'", "r'\\n'", "\"a\"", "'''a\nb'''", "// c\n1", "1 // c", "@", "#", "1 == 1 == 1",
    "1 < 2 < 3", "!!true", "--1", "!-1", "-!true", "a.b()", "a.b(1).c", "x.y.z()", "self.all(x, true)", "1.all(x, true)",
    "'a'.all(x, true)", "self.s.map(x, x)", "cel.bind(x, 1, x)", "cel.bind(1, 1, 1)", "math.greatest(1, 2)", "lists.range()",
    "[1, 2].map(x, x, x, x)", "self.ls.exists_one(x.y, true)", "self.ms.all(k, v, k)", "self.ms.transformMap(k, k, k)",
    "self.ls.filter(self, true)", "self.ls.map(__result__, 1)", "has(self.ls[0])", "has(self.s.size())", "type", "dyn",
    "type(1, 2)", "dyn()", "1 % 1.5", "1.5 % 2.0", "'a' * 2", "[1] + ['a']", "[1] + [1u]", "{'a': 1} + {'b': 2}", "[] == {}",
    "9223372036854775808", "-9223372036854775809", "18446744073709551616u", "1e999", "\x00", "self.s\x00", "$a", "self[0]",
    "sets.contains([1], ['a'])", "sets.foo([1])", "[1].sortBy(x, {})", "[[1]].flatten('a')", "optional.of(1, 2)", "?1", "1?",
    "`a`", "self.`s`", "self.o.`x-y`", "self.o['x-y']", "a::b", "self.s as x", "[1,]", "{'a':1,}", "f(1,)", "[,]", "{,}", "x -> y",
)  # fmt: skip
_MADE_BY: Mapping[str, tuple[str, Sequence[str]]] = {
    "kubernetes.Quantity": ("quantity", _QUANTITIES[:12]),
    "kubernetes.Semver": ("semver", _VERSIONS[:6]),
    "kubernetes.URL": ("url", _URLS[:4]),
    "net.IP": ("ip", _ADDRESSES[:9]),
    "net.CIDR": ("cidr", _NETWORKS[:4]),
}
_TOKEN = re.compile(r"""[A-Za-z_][A-Za-z0-9_]*|\d+\w*|'[^']*'|"[^"]*"|&&|\|\||[=!<>]=|\S|\s+""")
_TOKENS = (
    "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "/", "%", "!", "==", "!=", "<", ">=", "&&", "||", "in",
    "self", "x", "1", "'a'", "null", "true", "1.5", "2u", ".?", "[?", "\n", "\\", "'", '"', "=", "&", "|", "ü", "@", "b'", "r'",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """An expression's text; one that is not `plain` needs parentheses before a dot."""

    text: str
    plain: bool = True

    @property
    def target(self) -> str:
        """The text as it can stand before a dot or in an operation."""
        return self.text if self.plain else f"({self.text})"


Scope = Sequence[tuple[str, Type]]


def _matched(pattern: Type, wanted: Type, bound: dict[Type, Type]) -> bool:
    """Returns whether a result's type can be the wanted one; parameters are bound."""
    if pattern.kind == "param":
        return bound.setdefault(pattern, wanted) == wanted
    if pattern.kind != wanted.kind or pattern.name != wanted.name:
        return False
    if len(pattern.parameters) != len(wanted.parameters):
        return False
    pairs = zip(pattern.parameters, wanted.parameters, strict=True)
    return all(_matched(one, other, bound) for one, other in pairs)


def _bound(kind: Type, bound: Mapping[Type, Type]) -> Type:
    if kind.kind == "param":
        return bound[kind]
    if not kind.parameters:
        return kind
    return Type(kind.kind, kind.name, tuple(_bound(each, bound) for each in kind.parameters))


def _free(kind: Type) -> set[Type]:
    if kind.kind == "param":
        return {kind}
    return {each for inner in kind.parameters for each in _free(inner)}


@dataclass
class Expressions:
    """Makes expressions in an environment with variables; `chance` decides all."""

    environment: Environment
    variables: Scope
    authorizer: bool = False
    chance: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._by_name: dict[str, list[Overload]] = {}
        for each in self.environment.functions.all():
            if ("@" in each.name and each.name not in _OPERATORS) or each.name in ("_&&_", "_||_", "_?_:_"):
                continue
            named = (*each.parameters, each.result)
            if not self.authorizer and any(kind.name.startswith(_AUTHORIZATION) for kind in named):
                continue
            self._by_name.setdefault(each.name, []).append(each)
        self._calls: dict[Type, list[tuple[str, list[Overload]]]] = {}
        self._macros = {name for name, _, _ in self.environment.macros}

    def expression(self, seed: str, roots: Sequence[Type]) -> tuple[str, Type]:
        """Returns the expression of a seed, and the type that it was made for."""
        self.chance = random.Random(seed)
        kind = self.chance.choice(roots)
        if self.chance.random() < 0.04:
            return self.chance.choice(_WRONG), kind
        made = self.make(kind, self.chance.choice((1, 2, 2, 3, 3, 4)), self.variables).text
        if self.chance.random() < 0.04:
            made = self._mutated(made)
        return made, kind

    def _mutated(self, text: str) -> str:
        tokens = _TOKEN.findall(text)
        at = self.chance.randrange(len(tokens) + 1)
        way = self.chance.randrange(3)
        if way == 0:
            tokens[at : at + 1] = []
        elif way == 1:
            tokens.insert(at, self.chance.choice(_TOKENS))
        else:
            tokens[at : at + 1] = [self.chance.choice(_TOKENS)]
        return "".join(tokens)

    def some_type(self, depth: int = 1) -> Type:
        """Returns a type at random."""
        chance = self.chance
        if depth and chance.random() < 0.25:
            inner = self.some_type(depth - 1)
            ways: list[Callable[[], Type]] = [
                lambda: types.list_of(inner),
                lambda: types.list_of(inner),
                lambda: types.map_of(
                    chance.choice((types.STRING, types.STRING, types.INT, types.BOOL)), inner
                ),
            ]
            if self.environment.language.optionals:
                ways.append(lambda: types.optional_of(inner))
            return chance.choice(ways)()
        return chance.choice(_SCALARS if chance.random() < 0.9 else (*_OPAQUE, types.NULL))

    def make(self, kind: Type, depth: int, scope: Scope) -> Made:
        """Returns an expression of a type; now and then of another one, or of none that is known."""
        chance, roll = self.chance, self.chance.random()
        if roll < 0.012:
            return Made(chance.choice(_WRONG), plain=False)
        if roll < 0.02:
            kind = self.some_type()
        elif roll < 0.05 and kind.kind not in ("dyn", "param"):
            return Made(f"dyn({self.make(self.some_type(), max(depth - 1, 0), scope).text})")
        ways: list[tuple[int, Callable[[Type, int, Scope], Made | None]]] = [(3, self._variable)]
        if depth > 0:
            ways += [(8, self._call), (3, self._macro), (1, self._conditional), (2, self._optional)]
            if kind == types.BOOL:
                ways.append((3, self._logic))
            if kind == types.STRING:
                ways.append((1, self._format))
            if kind.kind in ("list", "map"):
                ways.append((2, self._literal))
        else:
            ways.append((2, self._literal))
        for _ in range(4):
            way = chance.choices([each for _, each in ways], [weight for weight, _ in ways])[0]
            if (made := way(kind, depth, scope)) is not None:
                return made
        return self._literal(kind, depth, scope)

    # -- leaves

    def _variable(self, kind: Type, depth: int, scope: Scope) -> Made | None:
        fitting = [name for name, each in scope if each == kind]
        if not fitting and kind.kind in ("list", "map"):
            return None
        if not fitting or self.chance.random() < 0.02:
            fitting = [name for name, each in scope if each.kind == "dyn"]
        if not fitting:
            return None
        # Local variables stand last.
        return Made(self.chance.choice(fitting[-6:] if self.chance.random() < 0.3 else fitting))

    def _literal(self, kind: Type, depth: int, scope: Scope) -> Made:
        chance, below = self.chance, max(depth - 1, 0)
        match kind.kind:
            case "bool":
                return Made(chance.choice(("true", "false")))
            case "int":
                text = chance.choice(_INTEGERS)
                return Made(text, plain=not text.startswith("-"))
            case "uint":
                return Made(chance.choice(_UNSIGNED))
            case "double":
                text = chance.choice(_DOUBLES)
                return Made(text, plain=not text.startswith("-"))
            case "string":
                return Made(self._text(_TEXTS))
            case "bytes":
                return Made(chance.choice(_BYTES))
            case "duration":
                return Made(f"duration({self._text(_DURATIONS[:8])})")
            case "timestamp":
                return Made(f"timestamp({self._text(_TIMES[:6])})")
            case "list":
                items = [
                    self._item(kind.parameters[0], below, scope)
                    for _ in range(chance.choice((0, 1, 2, 2, 3)))
                ]
                return Made(f"[{', '.join(items)}]")
            case "map":
                rows = []
                for _ in range(chance.choice((0, 1, 1, 1))):  # of several, Go's order is chance
                    key = self.make(kind.parameters[0], 0, scope).text
                    rows.append(self._entry(key, self.make(kind.parameters[1], below, scope)))
                return Made(f"{{{', '.join(rows)}}}")
            case "null":
                return Made("null")
            case "dyn" | "any" | "param":
                return Made(f"dyn({self.make(self.some_type(), below, scope).text})")
            case "type":
                names = (
                    "int",
                    "string",
                    "list",
                    "map",
                    "type",
                    "bool",
                    "null_type",
                    "google.protobuf.Duration",
                )
                return Made(
                    chance.choice((*names, f"type({self.make(self.some_type(), below, scope).text})"))
                )
        if types.is_optional(kind):
            if chance.random() < 0.25:
                return Made("optional.none()")
            return Made(f"optional.of({self.make(kind.parameters[0], below, scope).text})")
        return self._opaque(kind.name)

    def _opaque(self, name: str) -> Made:
        """The shortest way to a value of a type that has no literals."""
        check = "authorizer.group('apps').resource('deployments')"
        function, pool = _MADE_BY.get(name, ("", ()))
        if function and function in self._by_name:
            return Made(f"{function}({self._text(pool)})")
        known = {
            "kubernetes.NamedFormat": f"format.{self.chance.choice(_FORMATS[:10])}()",
            f"{_AUTHORIZATION}Authorizer": "authorizer",
            f"{_AUTHORIZATION}PathCheck": "authorizer.path('/healthz')",
            f"{_AUTHORIZATION}GroupCheck": "authorizer.group('')",
            f"{_AUTHORIZATION}ResourceCheck": self.chance.choice((check, "authorizer.requestResource")),
            f"{_AUTHORIZATION}Decision": f"{check}.check('get')",
        }
        return Made(known.get(name, "null"))

    def _item(self, kind: Type, depth: int, scope: Scope) -> str:
        if self.environment.language.optionals and self.chance.random() < 0.05:
            chained = self._chained(kind, scope)  # one that may be dyn makes upstream panic
            return f"?{chained.text if chained is not None else f'optional.of({self._leaf(kind, scope)})'}"
        return self.make(kind, depth, scope).text

    def _leaf(self, kind: Type, scope: Scope) -> str:
        return self._literal(kind, 0, scope).text

    def _entry(self, key: str, value: Made) -> str:
        if self.environment.language.optionals and self.chance.random() < 0.05:
            return f"?{key}: optional.of({value.text})"
        return f"{key}: {value.text}"

    def _text(self, pool: Sequence[str]) -> str:
        text, roll = self.chance.choice(pool), self.chance.random()
        if roll < 0.1 and '"' not in text:
            return f'"{text}"'
        if roll < 0.13 and "\\" not in text:
            return f"r'{text}'"
        if roll < 0.15:
            return f"'''{text}'''"
        return f"'{text}'"

    # -- calls

    def _call(self, kind: Type, depth: int, scope: Scope) -> Made | None:
        calls = self._calls.get(kind)
        if calls is None:
            calls = []
            for name, overloads in self._by_name.items():
                fitting = [each for each in overloads if _matched(each.result, kind, {})]
                if fitting:
                    calls.append((name, fitting))
            self._calls[kind] = calls
        if not calls:
            return None
        # Functions of any type would crowd out the others.
        weights = [1 if any(_free(each.result) for each in fitting) else 3 for _, fitting in calls]
        name, overloads = self.chance.choices(calls, weights)[0]
        chosen = self.chance.choice(overloads)
        bound: dict[Type, Type] = {}
        _matched(chosen.result, kind, bound)
        for parameter in chosen.parameters:
            for free in sorted(_free(parameter), key=str):
                if free not in bound:
                    # Lists and maps are keys by their addresses, which no index finds.
                    # Lists and maps of an object are never zero values, others are.
                    plain = free.name == "K" or name == "optional.ofNonZeroValue"
                    bound[free] = self.chance.choice(_KEYS) if plain else self.some_type()
        wanted = [_bound(each, bound) for each in chosen.parameters]
        if name == "optional.ofNonZeroValue" and wanted[0].kind in ("list", "map"):
            return None  # those of an object are never zero values, others are
        below = max(depth - 1, 0)
        made = [self._argument(name, at, each, below, scope) for at, each in enumerate(wanted)]
        return self._written(chosen, made)

    def _argument(self, name: str, at: int, kind: Type, depth: int, scope: Scope) -> Made:
        pool = _ARGUMENTS.get(name)
        last = pool in (_PATTERNS, _ZONES, _ADDRESSES, _NETWORKS)
        if pool is not None and kind == types.STRING and (at > 0 or not last or name in ("ip", "cidr")):
            if self.chance.random() < 0.8:
                return Made(self._text(pool))
        if kind == types.STRING and name in ("isIP", "isCIDR", "ip.isCanonical") and pool is not None:
            return Made(self._text(pool))
        if name == "lists.range" and self.chance.random() < 0.9:
            return Made(self.chance.choice(("0", "1", "3", "5", "-1", "10")))
        return self.make(kind, depth, scope)

    def _written(self, chosen: Overload, made: Sequence[Made]) -> Made:
        name = chosen.name
        if name in ("_[_]", "_[?_]"):
            return Made(f"{made[0].target}{name[1:-2] if name == '_[_]' else '[?'}{made[1].text}]")
        if name == "@in" or (name.startswith("_") and name.endswith("_")):
            symbol = _OPERATORS.get(name, name.strip("_"))
            return Made(f"{made[0].target} {symbol} {made[1].target}", plain=False)
        if name.endswith("_"):
            return Made(f"{name[0]}{made[0].target}", plain=False)
        texts = [each.text for each in made]
        if self.chance.random() < 0.004:
            texts = texts[:-1] if self.chance.random() < 0.5 else [*texts, "1"]
        if chosen.method:
            return Made(f"{made[0].target}.{name}({', '.join(texts[1:])})")
        return Made(f"{name}({', '.join(texts)})")

    # -- what only the syntax knows

    def _logic(self, kind: Type, depth: int, scope: Scope) -> Made:
        symbol = self.chance.choice(("&&", "||"))
        count = self.chance.choice((2, 2, 3))
        parts = [self.make(types.BOOL, depth - 1, scope).target for _ in range(count)]
        return Made(f" {symbol} ".join(parts), plain=False)

    def _conditional(self, kind: Type, depth: int, scope: Scope) -> Made:
        test = self.make(types.BOOL, depth - 1, scope).target
        then, otherwise = (self.make(kind, depth - 1, scope).target for _ in range(2))
        return Made(f"{test} ? {then} : {otherwise}", plain=False)

    def _format(self, kind: Type, depth: int, scope: Scope) -> Made | None:
        if "format" not in self._by_name:
            return None
        chance = self.chance
        clauses = {
            "%s": (types.INT, types.STRING, types.DOUBLE, types.BOOL, types.DURATION, types.TIMESTAMP, types.BYTES),
            "%d": (types.INT, types.UINT, types.DOUBLE),
            "%f": (types.DOUBLE, types.DOUBLE, types.INT), "%e": (types.DOUBLE,), "%.2f": (types.DOUBLE,),
            "%.0f": (types.DOUBLE,), "%.3e": (types.DOUBLE,), "%b": (types.INT, types.BOOL, types.UINT),
            "%x": (types.INT, types.STRING, types.BYTES), "%X": (types.INT, types.STRING, types.UINT),
            "%o": (types.INT, types.UINT),
        }  # fmt: skip
        text, arguments = "", []
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            clause = chance.choice((*clauses, "%s", "%s", "%%"))
            text += clause + chance.choice(("", "-", " "))
            if clause == "%%":
                continue
            wanted = (
                self.some_type()
                if clause == "%s" and chance.random() < 0.5
                else chance.choice(clauses[clause])
            )
            made = self.make(wanted, depth - 1, scope).text
            arguments.append(made if chance.random() < 0.6 else f"dyn({made})")
        return Made(f"'{text}'.format([{', '.join(arguments)}])")

    def _optional(self, kind: Type, depth: int, scope: Scope) -> Made | None:
        if not self.environment.language.optionals:
            return None
        chance = self.chance
        if types.is_optional(kind):
            inner = kind.parameters[0]
            ways = [lambda: self._chained(inner, scope), lambda: self._opt_map(inner, depth, scope)]
            return chance.choice(ways)()
        if chance.random() < 0.6:
            return None
        chained = self._chained(kind, scope) or self._opt_map(kind, depth, scope)
        if chance.random() < 0.2:
            return Made(f"{chained.text}.value()")
        return Made(f"{chained.text}.orValue({self.make(kind, depth - 1, scope).text})")

    def _chained(self, kind: Type, scope: Scope) -> Made | None:
        """A selection of a variable's field in which one of the dots is optional."""
        fitting = [name for name, each in scope if each == kind and "." in name]
        if not fitting:
            return None
        parts = self.chance.choice(fitting).split(".")
        at = self.chance.randrange(1, len(parts))
        return Made(".".join((*parts[:at], f"?{parts[at]}", *parts[at + 1 :])))

    def _opt_map(self, kind: Type, depth: int, scope: Scope) -> Made:
        source, name = self.some_type(), self._name(scope)
        target = self.make(types.optional_of(source), max(depth - 1, 0), scope).target
        inner = (*scope, (name, source))
        if self.chance.random() < 0.7:
            return Made(f"{target}.optMap({name}, {self.make(kind, max(depth - 1, 0), inner).text})")
        wanted = types.optional_of(kind)
        return Made(f"{target}.optFlatMap({name}, {self.make(wanted, max(depth - 1, 0), inner).text})")

    def _name(self, scope: Scope) -> str:
        return self.chance.choice(
            ("x", "y", "z", "k", "v", "i", "self" if self.chance.random() < 0.03 else "w")
        )

    def _container(self, depth: int, scope: Scope) -> tuple[Made, Type, Type]:
        """Returns a list or map, and what its variables are: place or key, and item."""
        item = self.some_type(1)
        lists = [each for _, each in scope if each.kind in ("list", "map")]
        kind = self.chance.choice(lists) if lists and self.chance.random() < 0.6 else types.list_of(item)
        if self.chance.random() < 0.15:
            kind = types.map_of(types.STRING, item)
        made = self.make(kind, max(depth - 1, 0), scope)
        if kind.kind == "list":
            return made, types.INT, kind.parameters[0]
        return made, *kind.parameters

    def _macro(self, kind: Type, depth: int, scope: Scope) -> Made | None:
        chance, below = self.chance, depth - 1
        if kind.kind == "bool" and chance.random() < 0.25:
            fitting = [name for name, _ in scope if "." in name]
            return Made(f"has({chance.choice(fitting)})") if fitting else None
        if "bind" in self._macros and chance.random() < 0.2:
            source, name = self.some_type(), self._name(scope)
            value = self.make(source, below, scope).text
            return Made(f"cel.bind({name}, {value}, {self.make(kind, below, (*scope, (name, source))).text})")
        made, key, item = self._container(depth, scope)
        two = "transformList" in self._macros and chance.random() < 0.35
        one, other = self._name(scope), self._name(scope)
        if one == other and chance.random() < 0.9:
            other = f"{one}2"
        first = item if made and key == types.INT else key
        local: Scope = (*scope, (one, key), (other, item)) if two else (*scope, (one, first))
        names = f"{one}, {other}" if two else one
        if kind.kind == "bool":
            name = chance.choice(("all", "exists", "exists_one", "existsOne" if two else "exists_one"))
            return Made(f"{made.target}.{name}({names}, {self.make(types.BOOL, below, local).text})")
        if kind.kind == "list":
            return self._list_macro(kind.parameters[0], made, two, names, below, local, scope)
        if kind.kind == "map" and two:
            test = f"{self.make(types.BOOL, below, local).text}, " if chance.random() < 0.4 else ""
            if chance.random() < 0.5 and kind.parameters[0] == key:
                value = self.make(kind.parameters[1], below, local).text
                return Made(f"{made.target}.transformMap({names}, {test}{value})")
            entry = f"{{{self.make(kind.parameters[0], 0, local).text}: {self.make(kind.parameters[1], below, local).text}}}"
            return Made(f"{made.target}.transformMapEntry({names}, {test}{entry})")
        return None

    def _list_macro(
        self, kind: Type, made: Made, two: bool, names: str, depth: int, local: Scope, scope: Scope
    ) -> Made:
        chance = self.chance
        test = f"{self.make(types.BOOL, depth, local).text}, " if chance.random() < 0.4 else ""
        if two:
            return Made(f"{made.target}.transformList({names}, {test}{self.make(kind, depth, local).text})")
        roll = chance.random()
        source = self.make(types.list_of(kind), depth, scope)
        inner = (*scope, (names, kind))
        if roll < 0.3:
            return Made(f"{source.target}.filter({names}, {self.make(types.BOOL, depth, inner).text})")
        if roll < 0.45 and "sortBy" in self._macros:
            key = chance.choice(_SCALARS)
            return Made(f"{source.target}.sortBy({names}, {self.make(key, depth, inner).text})")
        return Made(f"{made.target}.map({names}, {test}{self.make(kind, depth, local).text})")
