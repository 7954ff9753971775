"""Makes the cells that `kubectl get` shows of PodDisruptionBudget objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def pod_disruption_budget(subject: Subject) -> Cells:
    least, most = subject.at("spec", "minAvailable"), subject.at("spec", "maxUnavailable")
    return {
        "Min Available": "N/A" if least is None else str(least),
        "Max Unavailable": "N/A" if most is None else str(most),
        "Allowed Disruptions": subject.number("status", "disruptionsAllowed"),
    }
