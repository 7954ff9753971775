"""Makes the cells that `kubectl get` shows of APIService objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def api_service(subject: Subject) -> Cells:
    service = subject.at("spec", "service")
    available = subject.condition("Available") or {"status": "Unknown"}
    state = available.get("status", "")
    if state != "True" and available.get("reason"):
        state = f"{state} ({available['reason']})"
    local = service is None
    return {
        "Service": "Local" if local else f"{service.get('namespace', '')}/{service.get('name', '')}",
        "Available": state,
    }
