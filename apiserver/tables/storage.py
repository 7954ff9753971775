"""The rows of volumes, claims, classes and drivers, and of the migration of what is stored.

Source: pkg/printers/internalversion/printers.go. Releases up to 1.36 mark every default class.
"""

from types import MappingProxyType
from typing import Any

from kubeskew.apimachinery.errors import GroupKind, GroupResource
from kubeskew.apiserver.tables.subjects import (
    NONE,
    UNSET,
    Cells,
    CellTable,
    Subject,
    at,
    joined,
    quantity,
    shortened,
)

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def persistent_volume(subject: Subject) -> Cells:
    claim = subject.at("spec", "claimRef")
    return {
        **_volume(subject),
        "Capacity": quantity(subject.at("spec", "capacity", "storage")),
        "Access Modes": _modes(subject.items("spec", "accessModes")),
        "Reclaim Policy": subject.text("spec", "persistentVolumeReclaimPolicy"),
        "Claim": "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        "Reason": subject.text("status", "reason"),
    }


def persistent_volume_claim(subject: Subject) -> Cells:
    volume = subject.text("spec", "volumeName")
    return {
        **_volume(subject),
        "Volume": volume,
        "Capacity": quantity(subject.at("status", "capacity", "storage")) if volume else "",
        "Access Modes": _modes(subject.items("status", "accessModes")) if volume else "",
    }


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


def volume_attributes_class(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}


def volume_attachment(subject: Subject) -> Cells:
    return {
        "Attacher": subject.text("spec", "attacher"),
        "PV": subject.text("spec", "source", "persistentVolumeName"),
        "Node": subject.text("spec", "nodeName"),
        "Attached": bool(subject.at("status", "attached")),
    }


def csi_node(subject: Subject) -> Cells:
    return {"Drivers": subject.count("spec", "drivers")}


def csi_driver(subject: Subject) -> Cells:
    attach, tokens = subject.at("spec", "attachRequired"), subject.at("spec", "tokenRequests")
    audiences = joined([one.get("audience", "") for one in tokens or ()])
    return {
        "AttachRequired": True if attach is None else attach,
        "PodInfoOnMount": bool(subject.at("spec", "podInfoOnMount")),
        "StorageCapacity": bool(subject.at("spec", "storageCapacity")),
        "TokenRequests": UNSET if tokens is None else audiences,
        "RequiresRepublish": bool(subject.at("spec", "requiresRepublish")),
        "Modes": joined(subject.items("spec", "volumeLifecycleModes"), NONE),
    }


def csi_storage_capacity(subject: Subject) -> Cells:
    capacity = subject.at("capacity")
    return {
        "StorageClassName": subject.text("storageClassName"),
        "Capacity": UNSET if capacity is None else quantity(capacity),
    }


def storage_version(subject: Subject) -> Cells:
    stored = [
        f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}"
        for one in subject.items("status", "storageVersions")
    ]
    return {
        "CommonEncodingVersion": subject.text("status", "commonEncodingVersion", default=UNSET),
        "StorageVersions": shortened(stored) or UNSET,
    }


def storage_version_migration(subject: Subject) -> Cells:
    resource = subject.at("spec", "resource") or {}
    states = [
        one["type"]
        for one in subject.items("status", "conditions")
        if one.get("status") == "True" and one.get("type") in ("Running", "Failed", "Succeeded")
    ]
    return {
        "Resource": str(GroupResource(resource.get("group", ""), resource.get("resource", ""))),
        "Status": states[-1] if states else "Unknown",
    }


def _volume(subject: Subject) -> Cells:
    """The cells that volumes and claims have in common."""
    annotations = subject.at("metadata", "annotations")
    return {
        "Status": "Terminating" if subject.deleted else subject.text("status", "phase"),
        "StorageClass": str(_first(at(annotations, _CLASS), subject.at("spec", "storageClassName"), "")),
        "VolumeAttributesClass": subject.text("spec", "volumeAttributesClassName", default=UNSET),
        "VolumeMode": subject.text("spec", "volumeMode", default=UNSET),
    }


def _first(*values: Any) -> Any:
    """The first value that is there, be it empty."""
    return next(value for value in values if value is not None)


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("", "PersistentVolume"): persistent_volume,
        GroupKind("", "PersistentVolumeClaim"): persistent_volume_claim,
        GroupKind("internal.apiserver.k8s.io", "StorageVersion"): storage_version,
        GroupKind("storage.k8s.io", "CSIDriver"): csi_driver,
        GroupKind("storage.k8s.io", "CSINode"): csi_node,
        GroupKind("storage.k8s.io", "CSIStorageCapacity"): csi_storage_capacity,
        GroupKind("storage.k8s.io", "StorageClass"): storage_class,
        GroupKind("storage.k8s.io", "VolumeAttachment"): volume_attachment,
        GroupKind("storage.k8s.io", "VolumeAttributesClass"): volume_attributes_class,
        GroupKind("storagemigration.k8s.io", "StorageVersionMigration"): storage_version_migration,
    }
)
