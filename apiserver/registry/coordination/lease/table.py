"""Makes the cells that `kubectl get` shows of Lease objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def lease(subject: Subject) -> Cells:
    return {"Holder": subject.text("spec", "holderIdentity")}
