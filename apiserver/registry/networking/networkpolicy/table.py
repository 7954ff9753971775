"""Makes the cells that `kubectl get` shows of NetworkPolicy objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    selector,
)


def network_policy(subject: Subject) -> Cells:
    return {"Pod-Selector": selector(subject.at("spec", "podSelector") or {})}
