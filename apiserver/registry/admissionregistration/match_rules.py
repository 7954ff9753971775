"""Holds the rules of what webhooks and policies match: operations, resources, selectors, conditions.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go, 1.36.
"""

from collections.abc import Callable, Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.selectors import selector_errors

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MAX_CONDITIONS = 64

# What is wrong with an expression that must give one of some types: (expression, path) -> errors.
ExpressionCheck = Callable[[str, str], Iterator[FieldError]]


def one_of(value: str | None, known: Sequence[str], path: str) -> Iterator[FieldError]:
    """Checks that a value is given, and one of some names."""
    if value is None:
        yield required(path)
    elif value not in known:
        yield not_supported(path, value, tuple(known))


def operation_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    """Checks a RuleWithOperations."""
    operations = rule.get("operations") or []
    at = child(path, "operations")
    if not operations:
        yield required(at)
    if len(operations) > 1 and "*" in operations:
        yield invalid(at, operations, "if '*' is present, must not specify other operations")
    for position, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(index(at, position), operation, OPERATIONS)
    yield from _rule_errors(rule, path)


def _rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    yield from _wildcard_errors(rule.get("apiGroups") or [], child(path, "apiGroups"), "API groups")
    versions = rule.get("apiVersions") or []
    yield from _wildcard_errors(versions, child(path, "apiVersions"), "API versions")
    for position, version in enumerate(versions):
        if not version:
            yield required(index(child(path, "apiVersions"), position))
    yield from resources_errors(rule.get("resources") or [], child(path, "resources"))
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield not_supported(child(path, "scope"), scope, _SCOPES)


def _wildcard_errors(values: list[str], path: str, what: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, values, f"if '*' is present, must not specify other {what}")


def resources_errors(resources: list[str], path: str) -> Iterator[FieldError]:
    """Checks resources with subresources: what a wildcard covers may not be named beside it, or after it."""
    if not resources:
        yield required(path)
    whole: set[str] = set()  # x of x/*
    everywhere: set[str] = set()  # y of */y
    plain = False
    for position, given in enumerate(resources):
        at = index(path, position)
        if not given:
            yield required(at)
            continue
        resource, slash, sub = given.partition("/")
        if not slash:
            plain = given != "*"
            continue
        if resource in whole:
            yield invalid(at, given, f"if '{resource}/*' is present, must not specify {given}")
        if sub in everywhere:
            yield invalid(at, given, f"if '*/{sub}' is present, must not specify {given}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, text)


def match_resources_errors(match: Object, path: str) -> Iterator[FieldError]:
    """Checks the MatchResources of a policy or a binding."""
    yield from one_of(match.get("matchPolicy"), MATCH_POLICIES, child(path, "matchPolicy"))
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name) is None:
            yield required(child(path, name))
        else:
            yield from selector_errors(match[name], child(path, name))
    for name in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match.get(name) or []):
            yield from _named_rule_errors(rule, index(child(path, name), position))


def _named_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, name in enumerate(rule.get("resourceNames") or []):
        at = index(child(path, "resourceNames"), position)
        yield from (invalid(at, name, text) for text in names.path_segment(name))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
    yield from operation_rule_errors(rule, path)


def conditions_errors(conditions: list[Object], path: str, check: ExpressionCheck) -> Iterator[FieldError]:
    """Checks matchConditions."""
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        at = index(path, position)
        expression, name = (condition.get("expression") or "").strip(), condition.get("name") or ""
        if not expression:
            yield required(child(at, "expression"))
        else:
            yield from check(expression, child(at, "expression"))
        if not name:
            yield required(child(at, "name"))
            continue
        yield from (invalid(child(at, "name"), name, text) for text in names.qualified_name(name))
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
