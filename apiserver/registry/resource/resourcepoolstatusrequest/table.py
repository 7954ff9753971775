"""Makes the cells that `kubectl get` shows of ResourcePoolStatusRequest objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject, ago


def resource_pool_status_request(subject: Subject) -> Cells:
    state, pools = _request_state(subject), subject.items("status", "pools")
    known = subject.at("status") is not None and state != "Failed"

    def total(name: str) -> str:
        return str(sum(pool.get(name) or 0 for pool in pools)) if known else "-"

    count = subject.number("status", "poolCount")
    partial = state == "Complete" and count > len(pools)
    complete = subject.condition("Complete") or {}
    return {
        "Driver": subject.text("spec", "driver"),
        "Total": total("totalDevices"),
        "Available": total("availableDevices"),
        "Allocated": total("allocatedDevices"),
        "Unavailable": total("unavailableDevices"),
        "Errors": str(sum(bool(pool.get("validationError")) for pool in pools)) if known else "-",
        "Pools": count,
        "Status": f"Complete ({len(pools)}/{count} pools)" if partial else state,
        "Completed": ago(complete.get("lastTransitionTime"), subject.now, NONE),
    }


def _request_state(subject: Subject) -> str:
    for condition in subject.items("status", "conditions"):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Pending"
