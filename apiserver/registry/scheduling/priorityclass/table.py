"""Makes the cells that `kubectl get` shows of PriorityClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def priority_class(subject: Subject) -> Cells:
    return {
        "Value": subject.number("value"),
        "Global-Default": bool(subject.at("globalDefault")),
        "PreemptionPolicy": subject.text("preemptionPolicy"),
    }
