"""Makes the cells that `kubectl get` shows of Secret objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def secret(subject: Subject) -> Cells:
    return {"Type": subject.text("type"), "Data": subject.count("data")}
