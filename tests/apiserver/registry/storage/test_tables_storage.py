"""Rows of volumes, classes and drivers: an object in, cells out."""

from typing import Any

import pytest
from table_rows import TWO_HOURS_AGO, row

BETA_CLASS = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
MODES = ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany"]

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "v1 PersistentVolume",
        {"spec": {"capacity": {"storage": "1024Mi"}, "accessModes": MODES, "storageClassName": "s",
                  "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Block",
                  "claimRef": {"namespace": "n", "name": "c"}, "volumeAttributesClassName": "v"},
         "status": {"phase": "Bound", "reason": "R"}},
        {"Name": "x", "Capacity": "1Gi", "Access Modes": "RWO,ROX,RWX,RWOP", "Reclaim Policy": "Retain",
         "Status": "Bound", "Claim": "n/c", "StorageClass": "s", "VolumeAttributesClass": "v", "Reason": "R",
         "Age": "5m", "VolumeMode": "Block"},
    ),
    (
        "v1 PersistentVolume",
        {"metadata": {"deletionTimestamp": TWO_HOURS_AGO, **BETA_CLASS}, "spec": {"storageClassName": "s"}},
        {"Capacity": "0", "Claim": "", "Status": "Terminating", "StorageClass": "old",
         "VolumeMode": "<unset>", "VolumeAttributesClass": "<unset>"},
    ),
    (
        "v1 PersistentVolumeClaim",
        {"spec": {"volumeName": "v"},
         "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
        {"Status": "Bound", "Volume": "v", "Capacity": "1Gi", "Access Modes": "RWO", "StorageClass": ""},
    ),
    (
        "v1 PersistentVolumeClaim",
        {"spec": {"storageClassName": "s"},
         "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
        {"Status": "Pending", "Volume": "", "Capacity": "", "Access Modes": "", "StorageClass": "s"},
    ),
    (
        "storage.k8s.io/v1 StorageClass",
        {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
         "provisioner": "p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
         "allowVolumeExpansion": True},
        {"Name": "x (default)", "Provisioner": "p", "ReclaimPolicy": "Retain",
         "VolumeBindingMode": "WaitForFirstConsumer", "AllowVolumeExpansion": True},
    ),
    (
        "storage.k8s.io/v1 StorageClass",
        {},
        {"Name": "x", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate",
         "AllowVolumeExpansion": False},
    ),
    ("storage.k8s.io/v1 VolumeAttributesClass", {"driverName": "d"}, {"DriverName": "d"}),
    (
        "storage.k8s.io/v1 VolumeAttachment",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
         "status": {"attached": True}},
        {"Attacher": "a", "PV": "v", "Node": "n", "Attached": True},
    ),
    ("storage.k8s.io/v1 VolumeAttachment", {}, {"PV": "", "Attached": False}),
    ("storage.k8s.io/v1 CSINode", {"spec": {"drivers": [{}, {}]}}, {"Drivers": 2}),
    (
        "storage.k8s.io/v1 CSIDriver",
        {"spec": {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True,
                  "requiresRepublish": True, "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                  "volumeLifecycleModes": ["Persistent", "Ephemeral"]}},
        {"AttachRequired": False, "PodInfoOnMount": True, "StorageCapacity": True, "TokenRequests": "a,b",
         "RequiresRepublish": True, "Modes": "Persistent,Ephemeral"},
    ),
    (
        "storage.k8s.io/v1 CSIDriver",
        {},
        {"AttachRequired": True, "PodInfoOnMount": False, "StorageCapacity": False,
         "TokenRequests": "<unset>", "RequiresRepublish": False, "Modes": "<none>"},
    ),
    (
        "storage.k8s.io/v1 CSIStorageCapacity",  # its storage has the table of kinds without a printer
        {"metadata": {"name": "x", "creationTimestamp": "2026-01-02T03:04:05Z"}, "capacity": "2048Mi"},
        {"Name": "x", "Created At": "2026-01-02T03:04:05Z"},
    ),
    (
        "internal.apiserver.k8s.io/v1alpha1 StorageVersion",
        {"status": {"commonEncodingVersion": "v1",
                    "storageVersions": [{"apiServerID": i, "encodingVersion": "v1"} for i in "abcde"]}},
        {"CommonEncodingVersion": "v1", "StorageVersions": "a=v1,b=v1,c=v1 + 2 more..."},
    ),
    (
        "internal.apiserver.k8s.io/v1alpha1 StorageVersion",
        {},
        {"CommonEncodingVersion": "<unset>", "StorageVersions": "<unset>"},
    ),
    (
        "storagemigration.k8s.io/v1beta1 StorageVersionMigration",
        {"spec": {"resource": {"group": "apps", "resource": "deployments"}},
         "status": {"conditions": [{"type": "Running", "status": "True"},
                                   {"type": "Failed", "status": "False"},
                                   {"type": "Succeeded", "status": "True"}]}},
        {"Resource": "deployments.apps", "Status": "Succeeded"},
    ),
    ("storagemigration.k8s.io/v1beta1 StorageVersionMigration", {}, {"Status": "Unknown"}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "obj", "cells"), CASES)
def test_cells(of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj)
    assert {name: printed[name] for name in cells} == cells


@pytest.mark.parametrize("kind", ["PersistentVolume", "PersistentVolumeClaim"])
def test_1_28_knows_no_attributes_classes(kind: str):
    """A column that a release does not have is not printed."""
    assert "VolumeAttributesClass" not in row(f"v1 {kind}", {}, minor=28)
    assert "VolumeAttributesClass" in row(f"v1 {kind}", {}, minor=30)
