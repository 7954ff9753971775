"""Holds the rules of the policies of jobs, of failure and of success. Source: pkg/apis/batch/validation,
1.36.
"""

import json
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    OMITTED,
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job.indexes import IndexesError, count, intervals
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.repeats import repeats

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_CODES = 255
_MAX_PATTERNS = 20
_MAX_INDEXES = 64 * 1024


def _one_of(value: str, allowed: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if not value:
        shown = " ".join(json.dumps(name) for name in allowed)
        yield required(path, f"valid values: [{shown}]")
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def failure_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Checks podFailurePolicy at `path`."""
    rules, at = spec["podFailurePolicy"].get("rules") or [], child(path, "rules")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    inside = (spec.get("template") or {}).get("spec") or {}
    known = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in inside.get(field) or ()
    }
    for position, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, index(at, position), known)


def _failure_rule(spec: Object, rule: Object, path: str, known: set[str | None]) -> Iterator[FieldError]:
    action, at = rule.get("action") or "", child(path, "action")
    if action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            yield invalid(at, action, "requires the backoffLimitPerIndex to be set")
    else:
        yield from _one_of(action, _ACTIONS, at)
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _codes(codes, child(path, "onExitCodes"), known)
    if patterns:
        yield from _patterns(patterns, child(path, "onPodConditions"))
    if codes is not None and patterns:
        yield invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _patterns(patterns: list[Object], path: str) -> Iterator[FieldError]:
    if len(patterns) > _MAX_PATTERNS:
        yield too_many(path, len(patterns), _MAX_PATTERNS)
    for position, pattern in enumerate(patterns):
        at, kind = index(path, position), pattern.get("type") or ""
        yield from (invalid(child(at, "type"), kind, text) for text in names.qualified_name(kind))
        yield from _one_of(pattern.get("status") or "", _STATUSES, child(at, "status"))


def _codes(codes: Object, path: str, known: set[str | None]) -> Iterator[FieldError]:
    operator, container = codes.get("operator") or "", codes.get("containerName")
    yield from _one_of(operator, _OPERATORS, child(path, "operator"))
    if container is not None and container not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(child(path, "containerName"), container, text)
    values, at = codes.get("values") or [], child(path, "values")
    if not values:
        yield invalid(at, codes.get("values"), "at least one value is required")
    elif len(values) > _MAX_CODES:
        yield too_many(at, len(values), _MAX_CODES)
    repeated = repeats(values)
    for position, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(index(at, position), value, "must not be 0 for the In operator")
        if position in repeated:
            yield duplicate(index(at, position), value)
    if values != sorted(values):
        yield invalid(at, values, "must be ordered")


def success_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Checks successPolicy at `path`; the job is indexed."""
    rules, at = spec["successPolicy"].get("rules") or [], child(path, "rules")
    if not rules:
        yield required(at, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    for position, rule in enumerate(rules):
        yield from _success_rule(rule, spec.get("completions") or 0, index(at, position))


def _success_rule(rule: Object, completions: int, path: str) -> Iterator[FieldError]:
    number, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if number is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        at = child(path, "succeededIndexes")
        if len(indexes) > _MAX_INDEXES:
            yield too_long(at, _MAX_INDEXES)
        try:
            total = count(intervals(indexes, completions))
        except IndexesError as error:
            yield invalid(at, indexes, f"error parsing succeededIndexes: {error}")
    if number is None:
        return
    at = child(path, "succeededCount")
    if number < 0:
        yield invalid(at, number, NOT_NEGATIVE)
    if number > completions:
        limit = f"{completions} (the number of specified completions)"
        yield invalid(at, number, f"must be less than or equal to {limit}")
    if indexes is not None and number > total:
        limit = f"{total} (the number of indexes in the specified succeededIndexes field)"
        yield invalid(at, number, f"must be less than or equal to {limit}")
