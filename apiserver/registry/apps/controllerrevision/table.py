"""Makes the cells that `kubectl get` shows of ControllerRevision objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    kind_name,
)


def controller_revision(subject: Subject) -> Cells:
    owners = subject.items("metadata", "ownerReferences")
    owner = next((owner for owner in owners if owner.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{kind_name(owner.get('kind', ''), group).lower()}/{owner.get('name', '')}"
    return {"Controller": controller, "Revision": subject.number("revision")}
