"""Makes the cells that `kubectl get` shows of IPAddress objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    kind_name,
)


def ip_address(subject: Subject) -> Cells:
    reference = subject.at("spec", "parentRef")
    if reference is None:
        return {"ParentRef": NONE}
    parts = [
        kind_name(reference.get("resource", ""), reference.get("group", "")).lower(),
        reference.get("namespace", ""),
        reference.get("name", ""),
    ]
    return {"ParentRef": "/".join(part for part in parts if part)}
