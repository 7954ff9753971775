"""Makes the cells that `kubectl get` shows of ConfigMap objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def config_map(subject: Subject) -> Cells:
    return {"Data": subject.count("data") + subject.count("binaryData")}
