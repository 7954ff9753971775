"""Makes the cells that `kubectl get` shows of CSIDriver objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    UNSET,
    Cells,
    Subject,
    joined,
)


def csi_driver(subject: Subject) -> Cells:
    attach, tokens = subject.at("spec", "attachRequired"), subject.at("spec", "tokenRequests")
    audiences = joined([token.get("audience", "") for token in tokens or ()])
    return {
        "AttachRequired": True if attach is None else attach,
        "PodInfoOnMount": bool(subject.at("spec", "podInfoOnMount")),
        "StorageCapacity": bool(subject.at("spec", "storageCapacity")),
        "TokenRequests": UNSET if tokens is None else audiences,
        "RequiresRepublish": bool(subject.at("spec", "requiresRepublish")),
        "Modes": joined(subject.items("spec", "volumeLifecycleModes"), NONE),
    }
