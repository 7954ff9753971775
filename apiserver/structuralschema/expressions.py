"""Evaluates x-kubernetes-validations: transition rules, messages, ratcheting and the budget.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, 1.36.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel.values import NONE, Optional
from kubeskew.apimachinery.field import OMITTED, ErrorType, FieldError, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.rule_programs import (
    BUDGET,
    CALL_LIMIT,
    OLD_SELF,
    SELF,
    RuleNode,
    RuleProgram,
)
from kubeskew.apiserver.structuralschema.validation_errors import child, key, shown
from kubeskew.apiserver.structuralschema.values import NOTHING, item_finder, same

_LONGEST_MESSAGE: Final = 5 * 1024
_NO_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_NO_TYPE: Final = "rule compiler initialization error: failed to convert to declType for CEL validation rules"
_TYPE_META: Final = frozenset({"apiVersion", "kind"})


class CorrelatedValue(NamedTuple):
    new: Any
    old: Any
    props: Object

    def unchanged(self) -> bool:
        return same(self.new, self.old, self.props)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Finds the old value of a value, its own or the nearest around it (upstream's CorrelatedObject)."""

    own: CorrelatedValue | None = None
    enclosing: CorrelatedValue | None = None

    def unchanged(self) -> bool:
        nearest = self.own or self.enclosing
        return nearest is not None and nearest.unchanged()

    def field(self, name: str) -> "Correlation":
        if self.own is None:
            return self
        if self.enclosing is None and name in _TYPE_META:
            return Correlation()
        new, old, props = self.own
        if not isinstance(old, dict) or not isinstance(new, dict):
            return Correlation(None, self.own)
        extra = props.get("additionalProperties")
        below: Object | None = (props.get("properties") or {}).get(name)
        if below is None and isinstance(extra, dict):
            below = extra
        found = CorrelatedValue(new.get(name), old.get(name), below) if below is not None else None
        return Correlation(found, self.own)

    def item(self, new: Any, old: Any) -> "Correlation":
        """`old` is NOTHING for an item without an old value."""
        if self.own is None:
            return self
        items: Object | None = self.own.props.get("items")
        if old is NOTHING or not isinstance(items, dict):
            return Correlation(None, self.own)
        return Correlation(CorrelatedValue(new, old, items), self.own)


class _Stop(Exception):  # noqa: N818 - no error: the budget is spent, and no more rules run
    pass


class _Run:
    """The rules of one object share a budget; `forgiven` are errors that ratcheting forgives."""

    def __init__(self, shows_scalars: bool, optional: bool) -> None:
        self.errors: list[FieldError] = []
        self.forgiven: list[FieldError] = []
        self.budget = BUDGET
        self._shows_scalars = shows_scalars
        self._optional = optional  # rules with optionalOldSelf run without an old value

    def walk(self, node: RuleNode, value: Any, old: Any, path: str, correlation: Correlation) -> None:
        """Evaluates the rules at a node and below it; raises _Stop when the budget is spent."""
        if value is None:
            return
        if node.rules:
            self._here(node, value, old, path, correlation)
        if isinstance(value, list):
            self._items(node, value, old, path, correlation)
        elif isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            if node.additional is not None:
                for name, item in value.items():
                    self.walk(
                        node.additional, item, before.get(name), key(path, name), correlation.field(name)
                    )
            for name, below in node.properties.items():
                if name in value:
                    self.walk(
                        below, value[name], before.get(name), child(path, name), correlation.field(name)
                    )

    def _items(self, node: RuleNode, value: list[Any], old: Any, path: str, correlation: Correlation) -> None:
        if node.items is None:
            return
        find = item_finder(node.props)(old)
        for position, item in enumerate(value):
            before = NOTHING if find is None else find(item)
            earlier = None if before is NOTHING else before
            self.walk(node.items, item, earlier, index(path, position), correlation.item(item, before))

    def _here(self, node: RuleNode, value: Any, old: Any, path: str, correlation: Correlation) -> None:
        at, kind = shown(path), node.type
        if self.budget <= 0:
            self._stop(at, kind, _NO_BUDGET)
        bindings = {SELF: _seen_by_rules(value, node.declared)}
        if old is not None and any(rule.uses_old for rule in node.rules):
            bindings[OLD_SELF] = _seen_by_rules(old, node.declared)
        for rule in node.rules:
            if rule.error:
                self._invalid(at, kind, f"rule compile error: {rule.error}")
            elif self._applies(rule, old) and not self._holds(rule, _bound(rule, bindings), at, kind):
                self._fail(rule, bindings, path, self._seen(node, value), correlation)

    def _applies(self, rule: RuleProgram, old: Any) -> bool:
        if rule.program is None:
            return False
        return not rule.uses_old or old is not None or (rule.optional_old and self._optional)

    def _holds(self, rule: RuleProgram, bindings: Mapping[str, Any], at: str, seen: Any) -> bool:
        """True also if the evaluation failed: that has been reported."""
        value, cost, error = _evaluate(rule.program, bindings)
        if cost > self.budget:
            self._stop(at, seen, _NO_BUDGET)
        self.budget -= cost
        if error is None:
            return value is True
        text = str(error)
        if text.startswith("no such overload"):
            self._invalid(
                at,
                seen,
                f"'{text}': call arguments did not match a supported operator, function or macro signature "
                f"for rule: {rule.text}",
            )
        elif text.startswith("operation cancelled: actual cost limit exceeded"):
            self._stop(
                at,
                seen,
                f"'{text}': no further validation rules will be run due to call cost exceeds limit for rule: "
                f"{rule.text}",
            )
        else:
            self._invalid(at, seen, f"{text} evaluating rule: {rule.text}")
        return True

    def _fail(
        self, rule: RuleProgram, bindings: Mapping[str, Any], path: str, seen: Any, correlation: Correlation
    ) -> None:
        at = shown(child(path, rule.field_path) if rule.field_path else path)
        forgiven = not rule.uses_old and correlation.unchanged()
        detail = None
        if rule.message is not None:
            detail, fatal = self._message(rule, bindings)
            if fatal:
                if not forgiven:
                    self._invalid(at, seen, fatal)
                raise _Stop
        if detail is None:
            detail = (rule.rule.get("message") or "").strip() or f"failed rule: {rule.text}"
        collected = self.forgiven if forgiven else self.errors
        collected.append(_error(rule.rule.get("reason"), at, seen, detail))

    def _message(self, rule: RuleProgram, bindings: Mapping[str, Any]) -> tuple[str | None, str]:
        """None if the message cannot be used; the second text says why evaluation ends here, if it does.

        To a message, oldSelf is never optional, no matter what it is to the rule.
        """
        value, cost, error = _evaluate(rule.message, bindings)
        if cost > self.budget:
            return None, (
                "messageExpression evaluation failed due to running out of cost budget, "
                "no further validation rules will be run"
            )
        if error is not None and str(error).startswith("operation cancelled: actual cost limit exceeded"):
            expression = rule.rule["messageExpression"]
            return None, (
                "no further validation rules will be run due to call cost exceeds limit for "
                f'messageExpression: "{expression}"'
            )
        self.budget -= cost
        text = value.strip() if isinstance(value, str) else ""
        usable = text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text
        return (text if usable else None), ""

    def _seen(self, node: RuleNode, value: Any) -> Any:
        if not self._shows_scalars:
            return node.type
        return OMITTED if isinstance(value, dict | list) else value

    def _invalid(self, at: str, seen: Any, detail: str) -> None:
        self.errors.append(FieldError(ErrorType.INVALID, at, seen, detail))

    def _stop(self, at: str, seen: Any, detail: str) -> None:
        self._invalid(at, seen, detail)
        raise _Stop


def _evaluate(
    program: "cel.Program | None", bindings: Mapping[str, Any]
) -> "tuple[Any, int, cel.EvaluationError | None]":
    if program is None:
        return None, 0, None
    try:
        return (*program.evaluate(bindings, limit=CALL_LIMIT), None)
    except cel.EvaluationError as failure:
        return None, failure.cost, failure


def _seen_by_rules(value: Any, declared: "cel.Declared") -> Any:
    try:
        return cel.to_value(value, declared)
    except cel.EvaluationError as error:
        failure = error

        def fail() -> tuple[Any, int]:
            raise failure

        return cel.Lazy(fail)


def _bound(rule: RuleProgram, bindings: Mapping[str, Any]) -> Mapping[str, Any]:
    if not rule.optional_old:
        return bindings
    old = Optional(bindings[OLD_SELF], present=True) if OLD_SELF in bindings else NONE
    return {**bindings, OLD_SELF: old}


def _error(reason: str | None, at: str, seen: Any, detail: str) -> FieldError:
    match reason:
        case "FieldValueForbidden":
            return FieldError(ErrorType.FORBIDDEN, at, OMITTED, detail)
        case "FieldValueRequired":
            return FieldError(ErrorType.REQUIRED, at, OMITTED, detail)
        case "FieldValueDuplicate":
            return FieldError(ErrorType.DUPLICATE, at, seen)
    return FieldError(ErrorType.INVALID, at, seen, detail)


def validate_rules(
    obj: Object, old: Object | None, structural: Structural, forgiven: list[FieldError] | None = None
) -> list[FieldError]:
    """`old` is None for a new resource.

    Errors that do not count, but of which the writer is warned, are added to `forgiven`.
    """
    ratchets = structural.features.ratcheting
    run = _Run(structural.features.shows_scalars, ratchets)
    correlation = (
        Correlation(CorrelatedValue(obj, old, structural.props))
        if ratchets and old is not None
        else Correlation()
    )
    if structural.rule_tree is not None:
        with suppress(_Stop):
            run.walk(structural.rule_tree, obj, old, "", correlation)
    if forgiven is not None:
        forgiven += run.forgiven
    return run.errors


def validate_default(value: Any, node: Structural, path: str) -> list[FieldError]:
    """A default counts as its own old value."""
    run = _Run(node.features.shows_scalars, node.features.ratcheting)
    if node.nested_rule_tree is None:
        return [invalid(path, node.type, _NO_TYPE)] if node.validations else []
    with suppress(_Stop):
        run.walk(node.nested_rule_tree, value, value, path, Correlation())
    return run.errors
