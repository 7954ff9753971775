"""Batches of random expressions: rules of a definition and its objects, policies, and device classes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expressions import Expressions, Scope

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.declarations import Declared
from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.devices import device_environment
from kubeskew.apimachinery.cel.environments import Environment
from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.cel.types import Type

BUDGET = 10_000_000  # for all rules of an object
CALL_LIMIT = 1_000_000
_FACTORS = (10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)  # most items of a list
_BURNS = 10
_BURN_TEXT, _FINE_TEXT = 10_000, 1000  # characters of the literals that fuel is searched for
_SCALARS = (
    types.BOOL, types.BOOL, types.BOOL, types.INT, types.INT, types.UINT, types.DOUBLE, types.STRING,
    types.STRING, types.BYTES, types.DURATION, types.TIMESTAMP,
)  # fmt: skip
ROOTS: Sequence[Type] = (
    *_SCALARS,
    *_SCALARS,
    types.list_of(types.INT),
    types.list_of(types.STRING),
    types.list_of(types.DOUBLE),
    types.map_of(types.STRING, types.INT),
    types.map_of(types.STRING, types.STRING),
    types.list_of(types.list_of(types.INT)),
    types.DYN,
)
_VALUES: Mapping[str, Sequence[Any]] = {
    "s": ("abc", "", "ü😀", "a,b,c", "2026-01-02T03:04:05Z", "10.0.0.1", "1Gi", "1.2.3", "x" * 30, "https://a.example:8/b?c=d"),
    "t": ("text", "10.0.0.0/8", "1h", "-7", "true", "[", "dns1123Label", "UTC", "Hello World"),
    "e": ("one", "two"),
    "i": (0, 1, -1, 5, 2**31, 2**63 - 1, -(2**63), 100),
    "j": (3, 2, 1000000, -12),
    "d": (1.5, 0, -2.25, 1e21, 3, 1e-7, 123456.789),
    "b": (True, False),
    "at": ("2026-01-02T03:04:05Z", "2026-06-30T23:59:59.5+02:00", "0001-01-01T00:00:00Z"),
    "day": ("2026-01-02", "2024-02-29"),
    "span": ("1h", "1.5s", "-3m", "2562047h", "0s"),
    "raw": ("YWJj", "AAEC", "/w8="),
    "ios": (1, "50%", "a", -3),
    "nul": (None, "a", "b"),
    "ls": ([], ["a"], ["a", "b", "a"], ["", "ü", "abc", "x", "y"]),
    "li": ([], [1], [3, 1, 2], [-1, 9223372036854775807]),
    "ld": ([], [1.5], [0, 2.5, -1]),
    "lo": ([], [{"name": "a", "v": 1}], [{"name": "a", "v": 1}, {"name": "b"}, {"name": "c", "v": -5}]),
    "lt": ([], ["2026-01-02T03:04:05Z", "2025-01-02T03:04:05Z"]),
    "ms": ({}, {"a": "b"}, {"b": "ü"}),
    "mi": ({}, {"a": 1}, {"y": -3}),
    "ml": ({}, {"a": ["x", "y"]}),
    "o": ({}, {"a": 1}, {"a": -4, "in": True, "x-y": "", "n": {"s": "deep"}}, {"n": {}}),
}  # fmt: skip


def _optional(
    made: dict[str, Any], chance: random.Random, choices: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    for key, values in choices.items():
        if chance.random() < 0.6:
            made[key] = chance.choice(values)
    return made


def item_schema(chance: random.Random) -> dict[str, Any]:
    """Returns the schema of what rules see: each kind of value, with limits at random."""

    def text(**more: Any) -> dict[str, Any]:
        return _optional({"type": "string", **more}, chance, {"maxLength": (30, 64, 256)})

    def many(items: dict[str, Any], **more: Any) -> dict[str, Any]:
        return _optional({"type": "array", "items": items, **more}, chance, {"maxItems": (5, 8, 20)})

    def mapped(values: dict[str, Any]) -> dict[str, Any]:
        made = {"type": "object", "additionalProperties": values}
        return _optional(made, chance, {"maxProperties": (3, 6, 10)})

    integer = {"type": "integer"}
    element = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 10}, "v": integer},
        "required": ["name"],
    }
    nested = {"type": "object", "properties": {"s": text()}}
    properties: dict[str, Any] = {
        "s": text(), "t": text(), "e": {"type": "string", "enum": ["one", "two"]}, "i": integer,
        "j": {"type": "integer", "format": "int32"}, "d": {"type": "number"}, "b": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
        "span": {"type": "string", "format": "duration"}, "raw": text(format="byte"),
        "ios": {"x-kubernetes-int-or-string": True}, "nul": text(nullable=True),
        "ls": many(text()), "li": many(integer, **{"x-kubernetes-list-type": "set"}),
        "ld": many({"type": "number"}),
        "lo": many(element, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        "lt": many({"type": "string", "format": "date-time"}),
        "ms": mapped(text()), "mi": mapped(integer), "ml": mapped(many(text())),
        "o": {
            "type": "object",
            "properties": {"a": integer, "x-y": text(), "in": {"type": "boolean"}, "n": nested},
        },
    }  # fmt: skip
    return {"type": "object", "properties": properties}


def fuel_schema() -> dict[str, Any]:
    """Returns the properties of the texts that burn what a request leaves of the budget."""
    limits = {"fuel": 9990, "fine": 90_000, "rest": 20_000}
    return {name: {"type": "string", "maxLength": most} for name, most in limits.items()}


def burning() -> list[dict[str, Any]]:
    """Returns the rules that cost as much as an object's fuel says, and always hold."""
    search = {"fuel": "y" * _BURN_TEXT, "fine": "y" * _FINE_TEXT, "rest": "y"}
    rules = [{"rule": f"!self.fuel.contains('{search['fuel']}')", "message": "fuel"} for _ in range(_BURNS)]
    return [
        *rules,
        *({"rule": f"!self.{name}.contains('{search[name]}')", "message": name} for name in ("fine", "rest")),
    ]


def fuel(cost: int) -> dict[str, str] | None:
    """Returns the texts with which burning costs so much; None if that cannot be."""
    # A rule costs, beside the search, 2 for its selection and 1 for the negation.
    left = cost - 3 * (_BURNS + 2)
    if left < 0:
        return None
    fuels = min(left // (_BURNS * 1000), 999)
    left -= fuels * _BURNS * 1000
    fines = min(left // 100, 9000)
    left -= fines * 100
    if left > 2000:
        return None
    return {"fuel": "x" * fuels * 10, "fine": "x" * fines * 10, "rest": "x" * left * 10}


def paths(prefix: str, declared: Declared, depth: int = 3) -> list[tuple[str, Type]]:
    """Returns all selections from a variable, with their types."""
    found = [(prefix, declared.type)]
    if not depth:
        return found
    for name, each in declared.fields.items():
        found += paths(f"{prefix}.{name}", each, depth - 1)
    if declared.element is not None and declared.type.kind == "map":
        found += paths(f"{prefix}.a", declared.element, depth - 1)
    elif declared.element is not None:
        found += paths(f"{prefix}[0]", declared.element, depth - 1)
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """Expressions of one object, by the path of each as causes name it."""

    path: str
    body: dict[str, Any]
    expressions: Mapping[str, str]


def policy(minor: int, seed: int, count: int) -> Listed:
    """Returns a policy whose validations, variables, conditions and annotations are expressions at random."""
    variables: dict[str, Any] = {
        "object": types.DYN, "oldObject": types.DYN, "namespaceObject": types.DYN, "params": types.DYN,
    }  # fmt: skip
    texts = types.list_of(types.STRING)
    user = types.object_type("kubernetes.UserInfo", {"username": types.STRING, "groups": texts})
    request = types.object_type(
        "kubernetes.AdmissionRequest", {"name": types.STRING, "userInfo": user, "dryRun": types.BOOL}
    )
    environment = cel.environment(Release(minor), stored=False, variables={**variables, "request": request})
    scope: Scope = (
        *variables.items(), ("request.name", types.STRING), ("request.userInfo.username", types.STRING),
        ("request.userInfo.groups", texts), ("request.dryRun", types.BOOL),
        ("object.spec.replicas", types.DYN),
        ("object.metadata.name", types.DYN), ("object.metadata.labels", types.DYN),
        ("namespaceObject.metadata.name", types.DYN),
    )  # fmt: skip
    made = Expressions(environment, scope, authorizer=True)
    chance = random.Random(f"policy-{seed}")
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}
            ]
        },
        "validations": [], "variables": [], "matchConditions": [], "auditAnnotations": [],
    }  # fmt: skip
    found: dict[str, str] = {}
    ways = {
        "validations": "expression",
        "variables": "expression",
        "matchConditions": "expression",
        "auditAnnotations": "valueExpression",
    }
    most = {"validations": count, "variables": 20, "matchConditions": 64, "auditAnnotations": 20}
    for number in range(count):
        place = chance.choice([*ways])
        if len(spec[place]) >= most[place]:
            place = "validations"
        roots = {"variables": ROOTS, "auditAnnotations": (types.STRING,)}.get(place, (types.BOOL,))
        text = made.expression(f"policy-{seed}-{number}", roots)[0]
        named = {"matchConditions": {"name": f"c{number}"}, "variables": {"name": f"v{number}"}}
        named["auditAnnotations"] = {"key": f"a{number}"}
        row = {**named.get(place, {}), ways[place]: text}
        at = f"spec.{place}[{len(spec[place])}]"
        found[f"{at}.{ways[place]}"] = text
        if place == "validations" and chance.random() < 0.3:
            row["messageExpression"] = made.expression(f"message-{seed}-{number}", (types.STRING,))[0]
            found[f"{at}.messageExpression"] = row["messageExpression"]
        spec[place].append(row)
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"policy-{seed}"},
        "spec": spec,
    }
    return Listed("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", body, found)


def selectors(minor: int, seed: int, count: int) -> Listed:
    """Returns a device class whose selectors are expressions at random.

    Some of them are repeated as often as their limit allows, or once more.
    """
    features = DeviceFeatures(minor=minor, list_attributes=False, consumable_capacity=minor >= 36)
    environment = device_environment(features)
    domain = ("dra.example.com", "other.example.com")
    quantity = types.object_type("kubernetes.Quantity", {})
    attribute = types.ANY
    scope: list[tuple[str, Type]] = [("device.driver", types.STRING)]
    for each in domain:
        scope += [(f"device.attributes['{each}'].{name}", types.DYN) for name in ("a", "version", "count")]
        scope += [(f"device.capacity['{each}'].{name}", quantity) for name in ("memory", "cores")]
        scope += [(f"device.attributes['{each}']", types.map_of(types.STRING, attribute))]
    made = Expressions(environment, scope)
    chance = random.Random(f"selectors-{seed}")
    listed, found = [], {}
    for number in range(min(count, 32)):
        text = made.expression(f"selectors-{seed}-{number}", (types.BOOL,))[0]
        if chance.random() < 0.5 and minor >= 35:
            text = _repeated(text, environment, chance)
        found[f"spec.selectors[{number}].cel.expression"] = text
        listed.append({"cel": {"expression": text}})
    body = {
        "apiVersion": "resource.k8s.io/v1" if minor >= 34 else "resource.k8s.io/v1beta1",
        "kind": "DeviceClass",
        "metadata": {"name": f"class-{seed}"},
        "spec": {"selectors": listed},
    }
    return Listed(f"/apis/{body['apiVersion']}/deviceclasses", body, found)


def _repeated(text: str, environment: Environment, chance: random.Random) -> str:
    """Returns a loop around an expression that costs about as much as a selector may."""

    def loop(times: int) -> str:
        return f"lists.range({times}).all(never, {text})"

    try:
        each = cel.compile(loop(1000), environment).estimate()[1] / 1000
    except cel.CompileError:
        return text
    times = int(CALL_LIMIT / each)
    for _ in range(4):  # the largest number within the limit
        times = int(times * CALL_LIMIT / max(cel.compile(loop(times), environment).estimate()[1], 1))
    while cel.compile(loop(times + 1), environment).estimate()[1] <= CALL_LIMIT:
        times += 1
    while times > 1 and cel.compile(loop(times), environment).estimate()[1] > CALL_LIMIT:
        times -= 1
    return loop(times + chance.choice((0, 1)))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a definition, and the expression that it is made of."""

    expression: str
    rule: Mapping[str, Any]
    compiles: bool
    most: int = 0  # our estimate


class RuleBatch:
    """The expressions of a batch as rules of one schema."""

    burning = _BURNS + 2  # rules that burn the budget

    def __init__(self, minor: int, seed: int, count: int) -> None:
        self.seed = seed
        self.name = f"things{seed}"
        chance = random.Random(f"batch-{seed}")
        self.schema = item_schema(chance)
        self.schema["properties"] |= fuel_schema()
        declared = cel.declare(self.schema)
        assert declared is not None
        self.declared = declared
        self._release = Release(minor)
        self._environments = {
            stored: cel.environment(self._release, stored=stored, variables={"self": declared})
            for stored in (False, True)
        }
        scope: Scope = [
            each for each in paths("self", declared) if each[0].partition(".")[2] not in fuel_schema()
        ]
        made = Expressions(self._environments[False], scope)
        self.rules = [self._rule(made, chance, number) for number in range(count)]
        self._chance = chance

    def _rule(self, made: Expressions, chance: random.Random, number: int) -> Rule:
        expression, kind = made.expression(f"rule-{self.seed}-{number}", ROOTS)
        line = expression.replace("\n", " ")
        rule: dict[str, Any] = {"rule": expression, "message": f"r{number}"}
        if kind != types.BOOL or chance.random() < 0.4:
            rule["rule"] = f"type({expression}) == null_type"
            if chance.random() < 0.8:
                rule["messageExpression"] = f"'r{number} %s'.format([{line}])"
        elif chance.random() < 0.3:
            rule["messageExpression"] = f"'r{number} ' + string({line})"
        try:
            program = cel.compile(rule["rule"], self._environments[False])
            if program.result != types.BOOL:
                return Rule(expression, rule, compiles=False)
            most = program.estimate(self.declared)[1]
        except cel.CompileError:
            return Rule(expression, rule, compiles=False)
        return Rule(expression, rule, compiles=True, most=most)

    def _definition(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        names = {
            "plural": self.name,
            "singular": self.name,
            "kind": f"Thing{self.seed}",
            "listKind": f"L{self.seed}",
        }
        root = {"type": "object", "properties": {"spec": spec}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.name}.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
        }

    def estimates(self, chosen: Sequence[Rule]) -> tuple[dict[str, Any], list[list[Rule]]]:
        """Returns a definition in which each rule exceeds its limit by a factor that shows its cost, as far
        as it compiles, and the rules by place."""
        places: list[list[Rule]] = [[] for _ in _FACTORS]
        for rule in chosen:
            wanted = next(
                (at for at, factor in enumerate(_FACTORS) if rule.most * factor > BUDGET * 9.5),
                len(_FACTORS) - 1,
            )
            places[wanted].append(rule)
        properties = {}
        for at, rules in enumerate(places):
            if rules:
                items = {**self.schema, "x-kubernetes-validations": [rule.rule for rule in rules]}
                properties[f"f{at}"] = {"type": "array", "maxItems": _FACTORS[at], "items": items}
        return self._definition({"type": "object", "properties": properties}), places

    def evaluated(self, rules: Sequence[Rule]) -> dict[str, Any]:
        """Returns a definition with rules of which all compile, behind those that burn the budget."""
        listed = [*burning(), *(rule.rule for rule in rules)]
        return self._definition({**self.schema, "x-kubernetes-validations": listed})

    def values(self, number: int) -> dict[str, Any]:
        """Returns an object's spec, without fuel."""
        chance = random.Random(f"values-{self.seed}-{number}")
        return {name: chance.choice(values) for name, values in _VALUES.items() if chance.random() < 0.93}

    def thing(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "example.com/v1",
            "kind": f"Thing{self.seed}",
            "metadata": {"name": "a"},
            "spec": spec,
        }

    def costs(self, rules: Sequence[Rule], spec: Mapping[str, Any]) -> list[int]:
        """Returns what each rule costs us for a spec, with its message if it fails."""
        bindings = {"self": cel.to_value(spec, self.declared)}
        return [self._cost(rule, bindings) for rule in rules]

    def _cost(self, rule: Rule, bindings: Mapping[str, Any]) -> int:
        value, cost = self._evaluated(rule.rule["rule"], bindings)
        if value is False and "messageExpression" in rule.rule:
            cost += self._evaluated(rule.rule["messageExpression"], bindings)[1]
        return cost

    def _evaluated(self, expression: str, bindings: Mapping[str, Any]) -> tuple[Any, int]:
        try:
            return cel.compile(expression, self._environments[True]).evaluate(bindings, limit=CALL_LIMIT)
        except cel.EvaluationError as error:
            return None, error.cost
