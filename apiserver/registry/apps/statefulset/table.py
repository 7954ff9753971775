"""Makes the cells that `kubectl get` shows of StatefulSet objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    containers,
)
from kubeskew.apiserver.registry.tables.workloads import ready_replicas


def stateful_set(subject: Subject) -> Cells:
    return {"Ready": ready_replicas(subject), **containers(subject.at("spec", "template"))}
