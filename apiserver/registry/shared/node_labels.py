"""Warns about labels of nodes that have newer names.

Source: k8s.io/kubernetes/pkg/api/node/util.go and pkg/api/storage/util.go, 1.36; the text for a
matchExpression of a label selector is from memory.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.objects import Object

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


def term_warnings(term: Object, path: str, *, values: bool) -> Iterator[str]:
    """Warns of a term's labels; `values`: also of values that no label can have, which a preferred term may
    hold.
    """
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        at, name = index(child(path, "matchExpressions"), position), expression.get("key") or ""
        if name in DEPRECATED:
            yield f"{at}.key: {name} is {DEPRECATED[name]}"
        for number, value in enumerate((expression.get("values") or ()) if values else ()):
            where = index(child(at, "values"), number)
            yield from (f"{where}: {value} is invalid, {text}" for text in names.label_value(value))


def selector_warnings(selector: Object | None, path: str) -> Iterator[str]:
    """Warns of a label selector for nodes."""
    for position, expression in enumerate((selector or {}).get("matchExpressions") or []):
        name = expression.get("key") or ""
        if name in DEPRECATED:
            at = child(index(child(path, "matchExpressions"), position), "key")
            yield f"{at}: {name} is {DEPRECATED[name]}"
    for name in sorted((selector or {}).get("matchLabels") or {}):
        if name in DEPRECATED:
            yield f"{child(child(path, 'matchLabels'), name)}: {DEPRECATED[name]}"


def topology_warnings(topologies: list[Object], path: str) -> Iterator[str]:
    """Warns of the topologies that a storage class allows."""
    for position, term in enumerate(topologies):
        for number, expression in enumerate(term.get("matchLabelExpressions") or []):
            text = DEPRECATED.get(expression.get("key") or "")
            if text:
                at = index(child(index(path, position), "matchLabelExpressions"), number)
                yield f"{child(at, 'key')}: {text}"
