"""Label selectors and selectors of nodes follow these rules; old labels of nodes are warned of.

Sources: k8s.io/apimachinery pkg/apis/meta/v1/validation and pkg/apis/core/validation,
k8s.io/kubernetes/pkg/api/node/util.go and pkg/api/storage/util.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, Named, child, forbidden, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import have_impossible_values

NO_OPERATOR = "not a valid selector operator"
DEPRECATED = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def takes_all(selector: Object | None) -> bool:
    """An empty selector takes everything, a missing one nothing."""
    return selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))


def shown(selector: Object | None) -> Object | None:
    """Errors print a metav1.LabelSelector as a struct, whose map is sorted."""
    if selector is None:
        return None
    labels = {"matchLabels": dict(sorted((selector.get("matchLabels") or {}).items()))}
    whole = {**labels, "matchExpressions": selector.get("matchExpressions")}
    return {name: value for name, value in whole.items() if value}


def selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    """`selector` is a metav1.LabelSelector."""
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
        yield invalid(child(path, "operator"), Named(operator), NO_OPERATOR)
    name = expression.get("key") or ""
    yield from (invalid(child(path, "key"), name, text) for text in names.qualified_name(name))
    for position, value in enumerate(values):
        at = index(child(path, "values"), position)
        yield from (invalid(at, value, text) for text in names.label_value(value))


def node_selector_errors(selector: Object, path: str, *, any_value: bool = False) -> Iterator[FieldError]:
    """`selector` is a core NodeSelector that is required; `any_value` is as for its terms."""
    terms = selector.get("nodeSelectorTerms") or []
    at = child(path, "nodeSelectorTerms")
    if not terms:
        yield required(at, "must have at least one node selector term")
    for position, term in enumerate(terms):
        yield from node_term_errors(term, index(at, position), any_value=any_value)


def has_impossible_values(selector: Object) -> bool:
    terms = selector.get("nodeSelectorTerms") or ()
    return any(have_impossible_values(term.get("matchExpressions") or ()) for term in terms)


def node_term_errors(term: Object, path: str, *, any_value: bool = False) -> Iterator[FieldError]:
    """`any_value`: values that no label can have are let through, as in preferred terms."""
    for position, expression in enumerate(term.get("matchExpressions") or []):
        at = index(child(path, "matchExpressions"), position)
        yield from _node_expression(expression, at, any_value=any_value)
    for position, expression in enumerate(term.get("matchFields") or []):
        yield from _node_field(expression, index(child(path, "matchFields"), position))


def _node_field(expression: Object, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if operator not in {"In", "NotIn"}:
        yield invalid(child(path, "operator"), Named(operator), NO_OPERATOR)
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(child(path, "values"), text)
    if expression.get("key") != "metadata.name":
        yield invalid(child(path, "key"), expression.get("key") or "", "not a valid field selector key")
        return
    for position, value in enumerate(values):
        at = index(child(path, "values"), position)
        yield from (invalid(at, value, text) for text in names.dns1123_subdomain(value))


def _node_expression(expression: Object, path: str, *, any_value: bool) -> Iterator[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    at = child(path, "values")
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(at, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(child(path, "operator"), Named(operator), NO_OPERATOR)
    name = expression.get("key") or ""
    yield from (invalid(child(path, "key"), name, text) for text in names.qualified_name(name))
    if any_value:
        return
    for position, value in enumerate(values):
        yield from (invalid(index(at, position), value, text) for text in names.label_value(value))


def term_warnings(term: Object, path: str, *, values: bool) -> Iterator[str]:
    """`values`: values that no label can have are warned of too, which a preferred term may hold."""
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        at, name = index(child(path, "matchExpressions"), position), expression.get("key") or ""
        if name in DEPRECATED:
            yield f"{at}.key: {name} is {DEPRECATED[name]}"
        for number, value in enumerate((expression.get("values") or ()) if values else ()):
            where = index(child(at, "values"), number)
            yield from (f"{where}: {value} is invalid, {text}" for text in names.label_value(value))


def selector_warnings(selector: Object | None, path: str) -> Iterator[str]:
    """`selector` is a label selector for nodes."""
    for position, expression in enumerate((selector or {}).get("matchExpressions") or []):
        name = expression.get("key") or ""
        if name in DEPRECATED:
            at = child(index(child(path, "matchExpressions"), position), "key")
            yield f"{at}: {name} is {DEPRECATED[name]}"
    for name in sorted((selector or {}).get("matchLabels") or {}):
        if name in DEPRECATED:
            yield f"{child(child(path, 'matchLabels'), name)}: {DEPRECATED[name]}"


def topology_warnings(topologies: list[Object], path: str) -> Iterator[str]:
    for position, term in enumerate(topologies):
        for number, expression in enumerate(term.get("matchLabelExpressions") or []):
            text = DEPRECATED.get(expression.get("key") or "")
            if text:
                at = index(child(index(path, position), "matchLabelExpressions"), number)
                yield f"{child(at, 'key')}: {text}"
