"""Makes the cells that `kubectl get` shows of Namespace objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def namespace(subject: Subject) -> Cells:
    return {"Status": subject.text("status", "phase")}
