"""Affinity, topology spread constraints, tolerations and taints follow these rules.

Tolerations are those of pods and of runtime classes.

Source: pkg/apis/core/validation/validation.go (validateAffinity, validateTopologySpreadConstraints,
ValidateTolerations, validateNodeTaints), 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ErrorType,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.internal_values import taint as internal_taint
from kubeskew.apiserver.registry.shared.pod_options import PodOptions

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT_TEXT = "must be in the range 1-100"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"
_NO_SELECTOR = "must not be specified when labelSelector is not set"
_BOTH = "exists in both matchLabelKeys and labelSelector"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INTEGER = "^(0|-?[1-9][0-9]*)$"
_INTEGER_TEXT = "must be a valid decimal integer in canonical form"
_OPERATORS = ("Equal", "Exists")
_ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def affinity_errors(affinity: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if affinity.get("nodeAffinity") is not None:
        yield from _node(affinity["nodeAffinity"], child(path, "nodeAffinity"), options)
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name) is not None:
            yield from _pods(affinity[name], child(path, name))


def _node(node: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if node.get(_REQUIRED) is not None:
        at = child(path, _REQUIRED)
        any_value = options.any_affinity_values
        yield from selectors.node_selector_errors(node[_REQUIRED], at, any_value=any_value)
    for position, term in enumerate(node.get(_PREFERRED) or []):
        at = index(child(path, _PREFERRED), position)
        yield from _weight(term, at)
        preference = term.get("preference") or {}
        yield from selectors.node_term_errors(preference, child(at, "preference"), any_value=True)


def _weight(term: Object, path: str) -> Iterator[FieldError]:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(child(path, "weight"), weight, _WEIGHT_TEXT)


def _pods(affinity: Object, path: str) -> Iterator[FieldError]:
    for position, term in enumerate(affinity.get(_REQUIRED) or []):
        yield from _pod_term(term, index(child(path, _REQUIRED), position))
    for position, weighted in enumerate(affinity.get(_PREFERRED) or []):
        at = index(child(path, _PREFERRED), position)
        yield from _weight(weighted, at)
        yield from _pod_term(weighted.get("podAffinityTerm") or {}, child(at, "podAffinityTerm"))


def _pod_term(term: Object, path: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        if term.get(name) is not None:
            yield from selectors.selector_errors(term[name], child(path, name))
    for namespace in term.get("namespaces") or []:
        texts = names.dns1123_label(namespace)
        yield from (invalid(child(path, "namespace"), namespace, text) for text in texts)
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    if match or mismatch:
        yield from _label_keys(match, mismatch, term.get("labelSelector"), path)
    topology = term.get("topologyKey") or ""
    at = child(path, "topologyKey")
    if not topology:
        yield required(at, "can not be empty")
    yield from (invalid(at, topology, text) for text in names.qualified_name(topology))


def _label_keys(
    match: list[str], mismatch: list[str], selector: Object | None, path: str
) -> Iterator[FieldError]:
    """The selector must not already have what the label keys add."""
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(child(path, name), _NO_SELECTOR)
        elif keys:
            yield from _key_names(keys, child(path, name))
    if selector is not None:
        known = set(selector.get("matchLabels") or {})
        places = {name: position for position, name in enumerate(match)}
        for expression in selector.get("matchExpressions") or []:
            name = expression.get("key") or ""
            if name in places and name in known:
                yield invalid(index(path, places[name]), name, _BOTH)
            known.add(name)
    for position, name in enumerate(match):
        if name in mismatch:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(index(child(path, "matchLabelKeys"), position), name, text)


def _key_names(keys: list[str], path: str) -> Iterator[FieldError]:
    for position, name in enumerate(keys):
        yield from (invalid(index(path, position), name, text) for text in names.qualified_name(name))


# --- spread constraints ------------------------------------------------------------------------------------


def spread_errors(constraints: list[Object], path: str, options: PodOptions) -> Iterator[FieldError]:
    for position, constraint in enumerate(constraints):
        at = index(path, position)
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield invalid(child(at, "maxSkew"), skew, _POSITIVE)
        topology, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not topology:
            yield required(child(at, "topologyKey"), "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(child(at, "whenUnsatisfiable"), action, _ACTIONS)
        pair = (topology, action)
        if any(_pair(other) == pair for other in constraints[position + 1 :]):
            yield duplicate(child(at, "{topologyKey, whenUnsatisfiable}"), f"{{{topology}, {action}}}")
        yield from _domains(constraint.get("minDomains"), action, child(at, "minDomains"))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in _POLICIES:
                yield not_supported(child(at, name), policy, _POLICIES)
        yield from _spread_selector(constraint, at, options)


def _pair(constraint: Object) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _domains(least: int | None, action: str, path: str) -> Iterator[FieldError]:
    if least is None:
        return
    if least <= 0:
        yield invalid(path, least, _POSITIVE)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(path, least, text)


def _spread_selector(constraint: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    keys, selector = constraint.get("matchLabelKeys") or [], constraint.get("labelSelector")
    if keys and options.merged_spread:
        yield from _label_keys(keys, [], selector, path)
    elif keys:
        at = child(path, "matchLabelKeys")
        known = {expression.get("key") for expression in (selector or {}).get("matchExpressions") or []}
        known |= set((selector or {}).get("matchLabels") or {})
        if selector is None:
            yield forbidden(at, _NO_SELECTOR)
        for position, name in enumerate(keys):
            yield from (invalid(index(at, position), name, text) for text in names.qualified_name(name))
            if name in known:
                yield invalid(index(at, position), name, _BOTH)
    if selector is not None:
        yield from selectors.selector_errors(selector, child(path, "labelSelector"))


def toleration_errors(
    tolerations: list[Object], path: str, *, comparisons: bool = False
) -> Iterator[FieldError]:
    """`comparisons`: Lt and Gt are operators too (gate TaintTolerationComparisonOperators)."""
    for position, toleration in enumerate(tolerations):
        at = index(path, position)
        name, operator = toleration.get("key") or "", toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if name:
            yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        elif operator != "Exists":
            yield invalid(child(at, "operator"), operator, _ALL_KEYS)
        if effect != "NoExecute" and toleration.get("tolerationSeconds") is not None:
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(child(at, "effect"), effect, text)
        yield from _operator_errors(toleration, operator, at, comparisons=comparisons)
        if effect and effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)


def _operator_errors(
    toleration: Object, operator: str, path: str, *, comparisons: bool
) -> Iterator[FieldError]:
    value, at = toleration.get("value") or "", child(path, "operator")
    if operator in {"", "Equal"}:
        texts = names.label_value(value) if value else []
        if texts:
            yield invalid(at, value, ";".join(texts))
    elif operator == "Exists":
        if value:
            yield invalid(at, value, "value must be empty when `operator` is 'Exists'")
    elif operator not in {"Lt", "Gt"}:
        yield not_supported(at, operator, _OPERATORS)
    elif not comparisons:
        yield not_supported(at, operator, (*_OPERATORS, "Lt", "Gt"))
    else:
        yield from _number_errors(value, child(path, "value"))


def _number_errors(value: str, path: str) -> Iterator[FieldError]:
    if not re.fullmatch(_INTEGER, value):
        yield invalid(path, value, _INTEGER_TEXT)
    if not re.fullmatch("[+-]?[0-9]+", value):
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": invalid syntax')
    elif not -(2**63) <= int(value) < 2**63:
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": value out of range')


def taint_errors(taints: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        at = index(path, position)
        name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        texts = names.label_value(value)
        if texts:
            yield invalid(child(at, "value"), value, ";".join(texts))
        if not effect:
            yield required(child(at, "effect"))
        elif effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)
        if (name, effect) in seen:
            text = "taints must be unique by key and effect pair"
            yield FieldError(ErrorType.DUPLICATE, at, internal_taint(taint), text)
        seen.add((name, effect))
