"""Makes the cells that `kubectl get` shows of StorageVersionMigration objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def storage_version_migration(subject: Subject) -> Cells:
    resource = subject.at("spec", "resource") or {}
    states = [
        condition["type"]
        for condition in subject.items("status", "conditions")
        if condition.get("status") == "True" and condition.get("type") in ("Running", "Failed", "Succeeded")
    ]
    return {
        "Resource": str(GroupResource(resource.get("group", ""), resource.get("resource", ""))),
        "Status": states[-1] if states else "Unknown",
    }
