"""Finds errors in node selectors that the API server lets pass, in the words of upstream's readers of them.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity and k8s.io/apimachinery/pkg/labels, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, key, listed, not_supported
from kubeskew.apimachinery.go_formats import parse_int
from kubeskew.apimachinery.objects import ObjectView

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def selector_fault(selector: ObjectView) -> str:
    """Error of reading a NodeSelector; empty if there is none."""
    terms = selector.get("nodeSelectorTerms") or ()
    return listed(
        [error for at, term in enumerate(terms) for error in _term(term, f"nodeSelectorTerms[{at}]")]
    )


def preference_fault(terms: Sequence[ObjectView]) -> str:
    """Error of reading preferred terms, of which those without weight are not looked at; empty if there is
    none."""
    weighty = [(at, term.get("preference") or {}) for at, term in enumerate(terms) if term.get("weight")]
    return listed([error for at, term in weighty for error in _term(term, f"[{at}]")])


def selector_text(selector: ObjectView) -> str:
    """Formats the selector as Go's generated String methods print it."""
    terms = [
        f"NodeSelectorTerm{{MatchExpressions:{_requirements(term.get('matchExpressions'))},"
        f"MatchFields:{_requirements(term.get('matchFields'))},}},"
        for term in selector.get("nodeSelectorTerms") or ()
    ]
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{''.join(terms)}}},}}"


def _requirements(requirements: Sequence[ObjectView] | None) -> str:
    shown = [
        f"NodeSelectorRequirement{{Key:{requirement.get('key') or ''},"
        f"Operator:{requirement.get('operator') or ''},"
        f"Values:[{' '.join(requirement.get('values') or ())}],}},"
        for requirement in requirements or ()
    ]
    return f"[]NodeSelectorRequirement{{{''.join(shown)}}}"


def _term(term: ObjectView, path: str) -> Iterator[FieldError]:
    for at, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _expression(expression, index(child(path, "matchExpressions"), at))
    for at, field in enumerate(term.get("matchFields") or ()):
        yield from _field(field, index(child(path, "matchFields"), at))


def _expression(each: ObjectView, path: str) -> Iterator[FieldError]:
    operator, name, values = each.get("operator") or "", each.get("key") or "", each.get("values") or []
    at = child(path, "values")
    if operator not in _OPERATORS:
        yield not_supported(child(path, "operator"), operator, _OPERATORS)
        return
    if errors := names.qualified_name(name):
        yield invalid(child(path, "key"), name, "; ".join(errors))
    if operator in {"In", "NotIn"} and not values:
        yield invalid(at, each.get("values"), "for 'in', 'notin' operators, values set can't be empty")
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield invalid(at, values, "values set must be empty for exists and does not exist")
    elif operator in {"Gt", "Lt"}:
        yield from _bound(values if values else each.get("values"), at)
    for position, value in enumerate(values):
        if errors := names.label_value(value):
            yield invalid(key(index(at, position), name), value, "; ".join(errors))


def _bound(values: Sequence[str] | None, path: str) -> Iterator[FieldError]:
    if len(values or ()) != 1:
        yield invalid(path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
    for position, value in enumerate(values or ()):
        try:
            parse_int(value)
        except ValueError:
            yield invalid(
                index(path, position), value, "for 'Gt', 'Lt' operators, the value must be an integer"
            )


def _field(each: ObjectView, path: str) -> Iterator[FieldError]:
    operator, values = each.get("operator") or "", each.get("values")
    if operator not in {"In", "NotIn"}:
        yield not_supported(child(path, "operator"), operator, ("In", "NotIn"))
    elif len(values or ()) != 1:
        yield invalid(child(path, "values"), values, "must have one element")
