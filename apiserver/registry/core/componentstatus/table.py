"""Makes the cells that `kubectl get` shows of ComponentStatus objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def component_status(subject: Subject) -> Cells:
    healthy = next(
        (condition for condition in subject.items("conditions") if condition.get("type") == "Healthy"), None
    )
    if healthy is None:
        return {"Status": "Unknown", "Message": "", "Error": ""}
    return {
        "Status": "Healthy" if healthy.get("status") == "True" else "Unhealthy",
        "Message": healthy.get("message", ""),
        "Error": healthy.get("error", ""),
    }
