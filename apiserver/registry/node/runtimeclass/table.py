"""Makes the cells that `kubectl get` shows of RuntimeClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def runtime_class(subject: Subject) -> Cells:
    return {"Handler": subject.text("handler")}
