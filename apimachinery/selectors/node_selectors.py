"""Matches nodes against node selectors and affinity terms.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, 1.36.
"""

from collections.abc import Iterable, Mapping

from kubeskew.apimachinery.go_numbers import parse_int
from kubeskew.apimachinery.names import label_value
from kubeskew.apimachinery.objects import ObjectView


def requirement_matches(requirement: ObjectView, values: Mapping[str, str]) -> bool:
    """Checks one `matchExpressions` or `matchFields` entry against labels or fields; an invalid one
    matches nothing."""
    operator, wanted = requirement.get("operator"), requirement.get("values") or []
    value = values.get(requirement["key"])
    match operator:
        case "In":
            return value in wanted if value is not None else False
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(wanted) == 1:
            return _ordered(operator, value, wanted[0])
    return False


def _ordered(operator: str, value: str, limit: str) -> bool:
    try:
        number, bound = parse_int(value), parse_int(limit)
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound


def term_matches(term: ObjectView, labels: Mapping[str, str], name: str) -> bool:
    """Checks a NodeSelectorTerm; an empty one matches no node, as one with a value that no label can have."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    matches = _all(expressions, labels) and _all(fields, {"metadata.name": name})
    return matches and not have_impossible_values(expressions)


def have_impossible_values(requirements: Iterable[ObjectView]) -> bool:
    """Returns whether `matchExpressions` ask for values that no label can have."""
    return any(label_value(value) for each in requirements for value in each.get("values") or ())


def _all(requirements: Iterable[ObjectView], values: Mapping[str, str]) -> bool:
    return all(requirement_matches(requirement, values) for requirement in requirements)


def selector_matches(selector: ObjectView, labels: Mapping[str, str], name: str) -> bool:
    """Checks a NodeSelector: any of its terms must match."""
    return any(term_matches(term, labels, name) for term in selector.get("nodeSelectorTerms") or ())
