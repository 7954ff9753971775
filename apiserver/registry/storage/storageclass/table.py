"""Makes the cells that `kubectl get` shows of StorageClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def storage_class(subject: Subject) -> Cells:
    annotations = subject.at("metadata", "annotations") or {}
    default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return {
        "Name": subject.text("metadata", "name") + (" (default)" if default else ""),
        "Provisioner": subject.text("provisioner"),
        "ReclaimPolicy": subject.text("reclaimPolicy", default="Delete"),
        "VolumeBindingMode": subject.text("volumeBindingMode", default="Immediate"),
        "AllowVolumeExpansion": bool(subject.at("allowVolumeExpansion")),
    }
