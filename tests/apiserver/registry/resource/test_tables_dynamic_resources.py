"""Rows of resource.k8s.io and scheduling.k8s.io in all their versions: an object in, cells out."""

from typing import Any

import pytest
from table_rows import TWO_HOURS_AGO, row

GROUP = "resource.k8s.io"
ALLOCATED = {"allocation": {}}
RESERVED = {"allocation": {}, "reservedFor": [{"name": "p"}]}
DELETED = {"metadata": {"deletionTimestamp": TWO_HOURS_AGO}}
POOLS = [
    {"totalDevices": 4, "availableDevices": 1, "allocatedDevices": 2, "unavailableDevices": 1},
    {"totalDevices": 2, "availableDevices": 2, "validationError": "bad"},
]


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        ({}, "pending"),
        ({"status": ALLOCATED}, "allocated"),
        ({"status": RESERVED}, "allocated,reserved"),
        (DELETED, "deleted"),
        ({**DELETED, "status": ALLOCATED}, "deleted,allocated"),
        ({**DELETED, "status": RESERVED}, "deleted,allocated,reserved"),
    ],
)
def test_states_of_claims(claim: dict, state: str):
    """The state of a claim joins deleted, allocated and reserved, as far as they hold, or is pending."""
    for version in ("v1", "v1beta1", "v1beta2"):
        assert row(f"{GROUP}/{version} ResourceClaim", claim) == {"Name": "x", "State": state, "Age": "5m"}


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        ({"status": ALLOCATED}, "allocated"),
        ({"status": {**ALLOCATED, "deallocationRequested": True}}, "allocated,deallocating"),
        ({**DELETED, "status": ALLOCATED}, "deleted,allocated,deallocating"),
        ({**DELETED, "status": RESERVED}, "deleted,allocated,reserved"),
    ],
)
def test_classic_claims(claim: dict, state: str):
    """Until 1.30 claims had classes, and were deallocated by their drivers."""
    spec = {"resourceClassName": "c", "allocationMode": "Immediate"}
    assert row(f"{GROUP}/v1alpha2 ResourceClaim", {**claim, "spec": spec}, minor=30) == {
        "Name": "x", "ResourceClassName": "c", "AllocationMode": "Immediate", "State": state, "Age": "5m",
    }  # fmt: skip


CASES: list[tuple[int, str, dict[str, Any], dict[str, Any]]] = [
    (36, f"{GROUP}/v1 DeviceClass", {}, {"Name": "x", "Age": "5m"}),
    (36, f"{GROUP}/v1 ResourceClaimTemplate", {}, {"Name": "x", "Age": "5m"}),
    (
        36,
        f"{GROUP}/v1 ResourceSlice",
        {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
        {"Name": "x", "Node": "n", "Driver": "d", "Pool": "p", "Age": "5m"},
    ),
    (36, f"{GROUP}/v1 ResourceSlice", {"spec": {"allNodes": True}}, {"Node": ""}),
    (
        30,
        f"{GROUP}/v1alpha2 ResourceSlice",
        {"nodeName": "n", "driverName": "d"},
        {"Name": "x", "NodeName": "n", "DriverName": "d", "Age": "5m"},
    ),
    (
        30,
        f"{GROUP}/v1alpha2 ResourceClaimTemplate",
        {"spec": {"spec": {"resourceClassName": "c", "allocationMode": "Immediate"}}},
        {"ResourceClassName": "c", "AllocationMode": "Immediate"},
    ),
    (30, f"{GROUP}/v1alpha2 ResourceClass", {"driverName": "d"}, {"DriverName": "d"}),
    (30, f"{GROUP}/v1alpha2 PodSchedulingContext", {"spec": {"selectedNode": "n"}}, {"SelectedNode": "n"}),
    (26, f"{GROUP}/v1alpha1 PodScheduling", {"spec": {"selectedNode": "n"}}, {"SelectedNode": "n"}),
    (
        30,
        f"{GROUP}/v1alpha2 ResourceClaimParameters",
        {"generatedFrom": {"apiGroup": "g.io", "kind": "K", "name": "n"}},
        {"GeneratedFrom": "K.g.io n"},
    ),
    (30, f"{GROUP}/v1alpha2 ResourceClassParameters", {}, {"GeneratedFrom": ""}),
    (
        36,
        f"{GROUP}/v1beta2 DeviceTaintRule",
        {"spec": {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": TWO_HOURS_AGO}}},
        {"Key": "k", "Value": "v", "Effect": "NoExecute", "TimeAdded": "121m"},
    ),
    (36, f"{GROUP}/v1beta2 DeviceTaintRule", {}, {"TimeAdded": ""}),
    (
        36,
        f"{GROUP}/v1alpha3 ResourcePoolStatusRequest",
        {"spec": {"driver": "d"}},
        {"Driver": "d", "Total": "-", "Available": "-", "Allocated": "-", "Unavailable": "-", "Errors": "-",
         "Pools": 0, "Status": "Pending", "Completed": "<none>"},
    ),
    (
        36,
        f"{GROUP}/v1alpha3 ResourcePoolStatusRequest",
        {"status": {"poolCount": 3, "pools": POOLS,
                    "conditions": [condition("Complete", lastTransitionTime=TWO_HOURS_AGO)]}},
        {"Total": "6", "Available": "3", "Allocated": "2", "Unavailable": "1", "Errors": "1", "Pools": 3,
         "Status": "Complete (2/3 pools)", "Completed": "121m"},
    ),
    (
        36,
        f"{GROUP}/v1alpha3 ResourcePoolStatusRequest",
        {"status": {"poolCount": 2, "pools": POOLS, "conditions": [condition("Failed")]}},
        {"Total": "-", "Errors": "-", "Pools": 2, "Status": "Failed"},
    ),
    (
        36,
        "scheduling.k8s.io/v1 PriorityClass",
        {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"},
        {"Value": 7, "Global-Default": True, "PreemptionPolicy": "Never"},
    ),
    (36, "scheduling.k8s.io/v1 PriorityClass", {}, {"Global-Default": False, "PreemptionPolicy": ""}),
    (36, "scheduling.k8s.io/v1alpha2 Workload", {}, {"Name": "x", "Age": "5m"}),
    (
        36,
        "scheduling.k8s.io/v1alpha2 PodGroup",
        {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}},
                  "podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
         "status": {"conditions": [condition("PodGroupScheduled")]}},
        {"Policy": "Gang", "Workload": "w", "Status": "Scheduled"},
    ),
    (
        37,
        "scheduling.k8s.io/v1alpha3 PodGroup",
        {"spec": {"workloadRef": {"workloadName": "w"}},
         "status": {"conditions": [condition("PodGroupInitiallyScheduled", "False")]}},
        {"Policy": "Basic", "Workload": "w", "Status": "Unschedulable"},
    ),
    (
        37,
        "scheduling.k8s.io/v1alpha3 PodGroup",
        {"status": {"conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")]}},
        {"Workload": "<none>", "Status": "PreemptionByScheduler"},
    ),
    (
        37,
        "scheduling.k8s.io/v1alpha3 CompositePodGroup",
        {"spec": {"workloadRef": {"workloadName": "w"}}},
        {"Name": "x", "Policy": "Basic", "Workload": "w", "Age": "5m"},
    ),
    (37, "lifecycle.k8s.io/v1alpha1 EvictionRequest", {}, {"Name": "x", "Age": "5m"}),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "of", "obj", "cells"), CASES)
def test_cells(minor: int, of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj, minor)
    assert {name: printed[name] for name in cells} == cells
