"""Labels of nodes that were renamed. Source: pkg/api/node/util.go, 1.36."""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import child, index
from apimachinery.validation import names

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
    """`values`: tell of values that no label can have, which a preferred term may hold."""
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        at, name = index(child(path, "matchExpressions"), position), expression.get("key") or ""
        if name in DEPRECATED:
            yield f"{at}.key: {name} is {DEPRECATED[name]}"
        for number, value in enumerate((expression.get("values") or ()) if values else ()):
            where = index(child(at, "values"), number)
            yield from (f"{where}: {value} is invalid, {text}" for text in names.label_value(value))
