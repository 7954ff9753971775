"""Makes the cells that `kubectl get` shows of Deployment objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    containers,
)
from kubeskew.apiserver.registry.tables.workloads import ready_replicas


def deployment(subject: Subject) -> Cells:
    try:
        text = str(LabelSelector.from_object(subject.at("spec", "selector")))
    except SelectorError:
        text = "<invalid>"
    return {
        "Ready": ready_replicas(subject),
        "Up-to-date": subject.number("status", "updatedReplicas"),
        "Available": subject.number("status", "availableReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": text,
    }
