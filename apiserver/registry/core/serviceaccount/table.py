"""Makes the cells that `kubectl get` shows of ServiceAccount objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def service_account(subject: Subject) -> Cells:
    return {"Secrets": subject.count("secrets")}
