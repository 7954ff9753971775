"""Random CEL expressions along the functions and variables of an environment, sound and nearly so."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

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
_OPAQUE = (
    *(types.object_type(f"kubernetes.{name}", {}) for name in ("Quantity", "Semver", "URL", "NamedFormat")),
    types.opaque("net.IP"),
    types.opaque("net.CIDR"),
)
_POOLS: Mapping[str, Sequence[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_PATTERNS = _POOLS["patterns"]
_QUANTITIES = _POOLS["quantities"]
_VERSIONS = _POOLS["versions"]
_URLS = _POOLS["urls"]
_ADDRESSES = _POOLS["addresses"]
_NETWORKS = _POOLS["networks"]
_DURATIONS = _POOLS["durations"]
_TIMES = _POOLS["times"]
_ZONES = _POOLS["zones"]
_FORMATS = _POOLS["formats"]
_TEXTS = _POOLS["texts"]
_SELECTORS = _POOLS["selectors"]
_VERBS = _POOLS["verbs"]
# What a text that a function gets is likely to be: by the function's name and the place among its parameters.
_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "matches": _PATTERNS, "find": _PATTERNS, "findAll": _PATTERNS,
    "quantity": _QUANTITIES, "isQuantity": _QUANTITIES, "semver": _VERSIONS, "isSemver": _VERSIONS,
    "url": _URLS, "isURL": _URLS, "ip": _ADDRESSES, "isIP": _ADDRESSES, "ip.isCanonical": _ADDRESSES,
    "cidr": _NETWORKS, "isCIDR": _NETWORKS, "containsIP": _ADDRESSES, "containsCIDR": _NETWORKS,
    "duration": _DURATIONS, "timestamp": _TIMES, "format.named": _FORMATS,
    "fieldSelector": _SELECTORS, "labelSelector": _SELECTORS, "check": _VERBS,
    "path": ("/healthz", "/", "", "/x"), "group": ("", "apps", "other"),
    "resource": ("pods", "deployments", ""),
    **dict.fromkeys(
        (
            "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours",
            "getMinutes", "getSeconds", "getMilliseconds",
        ),
        _ZONES,
    ),
}  # fmt: skip
_INTEGERS = _POOLS["integers"]
_UNSIGNED = _POOLS["unsigned"]
_DOUBLES = _POOLS["doubles"]
_BYTES = _POOLS["bytes"]
_WRONG = _POOLS["wrong"]
_LITERALS: Mapping[str, Sequence[str]] = {
    "bool": ("true", "false"),
    "int": _INTEGERS,
    "uint": _UNSIGNED,
    "double": _DOUBLES,
    "bytes": _BYTES,
    "null": ("null",),
}
_MADE_BY: Mapping[str, tuple[str, Sequence[str]]] = {
    "kubernetes.Quantity": ("quantity", _QUANTITIES[:12]),
    "kubernetes.Semver": ("semver", _VERSIONS[:6]),
    "kubernetes.URL": ("url", _URLS[:4]),
    "net.IP": ("ip", _ADDRESSES[:9]),
    "net.CIDR": ("cidr", _NETWORKS[:4]),
}
_TOKEN = re.compile(r"""[A-Za-z_][A-Za-z0-9_]*|\d+\w*|'[^']*'|"[^"]*"|&&|\|\||[=!<>]=|\S|\s+""")
_TOKENS = _POOLS["tokens"]


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
            case "duration":
                return Made(f"duration({self._text(_DURATIONS[:8])})")
            case "timestamp":
                return Made(f"timestamp({self._text(_TIMES[:6])})")
            case "string":
                return Made(self._text(_TEXTS))
            case "list":
                count = chance.choice((0, 1, 2, 2, 3))
                items = [self._item(kind.parameters[0], below, scope) for _ in range(count)]
                return Made(f"[{', '.join(items)}]")
            case "map":
                rows = []
                for _ in range(chance.choice((0, 1, 1, 1))):  # of several, Go's order is chance
                    key = self.make(kind.parameters[0], 0, scope).text
                    rows.append(self._entry(key, self.make(kind.parameters[1], below, scope)))
                return Made(f"{{{', '.join(rows)}}}")
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
        if kind.kind in _LITERALS:
            text = chance.choice(_LITERALS[kind.kind])
            return Made(text, plain=not text.startswith("-"))
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
        likely = kind == types.STRING and (at > 0 or not last or name in ("ip", "cidr"))
        if pool is not None and likely and self.chance.random() < 0.8:
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
            "%s": (
                types.INT, types.STRING, types.DOUBLE, types.BOOL, types.DURATION, types.TIMESTAMP,
                types.BYTES,
            ),
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
            left, right = kind.parameters
            entry = f"{{{self.make(left, 0, local).text}: {self.make(right, below, local).text}}}"
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
