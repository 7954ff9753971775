"""Rules of label selectors and of the templates they must match.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation, 1.36.
"""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from apimachinery.validation import names


def is_empty(selector: Object | None) -> bool:
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    """A metav1.LabelSelector."""
    labels = selector.get("matchLabels") or {}
    at = child(path, "matchLabels")
    for name in sorted(labels):
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
        yield from (invalid(at, labels[name], text) for text in names.label_value(labels[name]))
    for position, expression in enumerate(selector.get("matchExpressions") or []):
        yield from _expression(expression, index(child(path, "matchExpressions"), position))


def _expression(expression: Object, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(child(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden(
                child(path, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    else:
        yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    name = expression.get("key") or ""
    yield from (invalid(child(path, "key"), name, text) for text in names.qualified_name(name))
    for position, value in enumerate(values):
        at = index(child(path, "values"), position)
        yield from (invalid(at, value, text) for text in names.label_value(value))


def node_selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    """A core NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or []
    at = child(path, "nodeSelectorTerms")
    if not terms:
        yield required(at, "must have at least one node selector term")
    for position, term in enumerate(terms):
        yield from node_term_errors(term, index(at, position))


def node_term_errors(term: Object, path: str) -> Iterator[FieldError]:
    for position, expression in enumerate(term.get("matchExpressions") or []):
        yield from _node_expression(expression, index(child(path, "matchExpressions"), position))
    for position, expression in enumerate(term.get("matchFields") or []):
        at = index(child(path, "matchFields"), position)
        if expression.get("operator") not in {"In", "NotIn"}:
            yield invalid(
                child(at, "operator"), expression.get("operator") or "", "not a valid selector operator"
            )
        elif len(expression.get("values") or []) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(child(at, "values"), text)
        if expression.get("key") != "metadata.name":
            yield invalid(child(at, "key"), expression.get("key") or "", "not a valid field selector key")


def _node_expression(expression: Object, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(child(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden(
                child(path, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield required(
                child(path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    name = expression.get("key") or ""
    yield from (invalid(child(path, "key"), name, text) for text in names.qualified_name(name))


def toleration_errors(tolerations: list[Object], path: str) -> Iterator[FieldError]:
    """Tolerations of pods."""
    for position, toleration in enumerate(tolerations):
        at = index(path, position)
        name, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if name:
            yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        elif operator != "Exists":
            yield invalid(
                child(at, "operator"),
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(
                child(at, "effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        if operator in {"", "Equal"}:
            texts = names.label_value(value)
            if texts:
                yield invalid(child(at, "operator"), value, ";".join(texts))
        elif operator == "Exists":
            if value:
                yield invalid(
                    child(at, "operator"), toleration, "value must be empty when `operator` is 'Exists'"
                )
        else:
            yield not_supported(child(at, "operator"), operator, ("Equal", "Exists"))
        if effect and effect not in TAINT_EFFECTS:
            yield not_supported(child(at, "effect"), effect, TAINT_EFFECTS)


TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
