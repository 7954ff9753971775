"""Makes the cells that `kubectl get` shows of Ingress objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.balancers import load_balancers
from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    joined,
)

_MOST_HOSTS = 3


def ingress(subject: Subject) -> Cells:
    return {
        "Class": subject.text("spec", "ingressClassName", default=NONE),
        "Hosts": _hosts(subject.items("spec", "rules")),
        "Address": joined(load_balancers(subject)),
        "Ports": "80, 443" if subject.count("spec", "tls") else "80",
    }


def _hosts(rules: list[Object]) -> str:
    """Returns the first hosts. More rules are counted only if they come after the last host shown."""
    named = [(position, rule["host"]) for position, rule in enumerate(rules) if rule.get("host")]
    if not named:
        return "*"
    shown = named[:_MOST_HOSTS]
    text = ",".join(host for _, host in shown)
    if len(shown) == _MOST_HOSTS and len(rules) > shown[-1][0] + 1:
        return f"{text} + {len(rules) - _MOST_HOSTS} more..."
    return text
