"""Rows of what runs, scales and protects pods: an object in, cells out."""

from typing import Any

import pytest
from table_rows import TWO_HOURS_AGO, row

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}],
                     "nodeSelector": {"z": "1", "a": "2"}}}  # fmt: skip
SELECTOR = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}],
}
WRONG = {"matchExpressions": [{"key": "c", "operator": "Like"}]}
PODS = {"Containers": "c,d", "Images": "i,j"}
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}


def conditions(*kinds: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": "True"} for kind in kinds]}}


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "apps/v1 ReplicaSet",
        {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
         "status": {"replicas": 2, "readyReplicas": 1}},
        {"Desired": 3, "Current": 2, "Ready": 1, **PODS, "Selector": "a=1,b=2,c in (x,y)"},
    ),
    ("apps/v1 ReplicaSet", {"spec": {"selector": WRONG}}, {"Selector": "<error>"}),
    (
        "apps/v1 DaemonSet",
        {"spec": {"template": TEMPLATE, "selector": {}},
         "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
                    "updatedNumberScheduled": 2, "numberAvailable": 1}},
        {"Desired": 5, "Current": 4, "Ready": 3, "Up-to-date": 2, "Available": 1, "Node Selector": "a=2,z=1",
         **PODS, "Selector": "<none>"},
    ),
    (
        "apps/v1 Deployment",
        {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
         "status": {"readyReplicas": 1, "updatedReplicas": 2}},
        {"Ready": "1/3", "Up-to-date": 2, "Available": 0, **PODS, "Selector": "a=1,b=2,c in (x,y)"},
    ),
    ("apps/v1 Deployment", {"spec": {"selector": WRONG}}, {"Selector": "<invalid>"}),
    (
        "apps/v1 StatefulSet",
        {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 1}},
        {"Ready": "1/3", **PODS},
    ),
    (
        "apps/v1 ControllerRevision",
        {"metadata": {"ownerReferences": [{"kind": "No"}, OWNER]}, "revision": 4},
        {"Controller": "statefulset.apps/s", "Revision": 4},
    ),
    ("apps/v1 ControllerRevision", {}, {"Controller": "<none>", "Revision": 0}),
    ("batch/v1 Job", {}, {"Status": "Running", "Completions": "0/1", "Duration": "", "Selector": "<none>"}),
    ("batch/v1 Job", conditions("Suspended"), {"Status": "Suspended"}),
    ("batch/v1 Job", conditions("SuccessCriteriaMet", "FailureTarget"), {"Status": "FailureTarget"}),
    ("batch/v1 Job", conditions("SuccessCriteriaMet", "Complete"), {"Status": "Complete"}),
    ("batch/v1 Job", conditions("Failed"), {"Status": "Failed"}),
    (
        "batch/v1 Job",
        {**conditions("Suspended"), "metadata": {"deletionTimestamp": TWO_HOURS_AGO}},
        {"Status": "Terminating"},
    ),
    (
        "batch/v1 Job",
        {"spec": {"completions": 5, "parallelism": 2, "template": TEMPLATE},
         "status": {"succeeded": 2, "startTime": TWO_HOURS_AGO}},
        {"Completions": "2/5", "Duration": "121m", **PODS},
    ),
    (
        "batch/v1 Job",
        {"spec": {"parallelism": 2},
         "status": {"succeeded": 1, "startTime": TWO_HOURS_AGO, "completionTime": "2026-07-01T10:00:00Z"}},
        {"Completions": "1/1 of 2", "Duration": "60s"},
    ),
    (
        "batch/v1 CronJob",
        {"spec": {"schedule": "* * * * *", "suspend": False, "timeZone": "Etc/UTC",
                  "jobTemplate": {"spec": {"template": TEMPLATE}}},
         "status": {"active": [{}, {}], "lastScheduleTime": TWO_HOURS_AGO}},
        {"Schedule": "* * * * *", "Timezone": "Etc/UTC", "Suspend": "False", "Active": 2,
         "Last Schedule": "121m", **PODS, "Selector": "<none>"},
    ),
    ("batch/v1 CronJob", {}, {"Timezone": "<none>", "Suspend": "<unset>", "Last Schedule": "<none>"}),
    (
        "policy/v1 PodDisruptionBudget",
        {"spec": {"minAvailable": 0, "maxUnavailable": "30%"}, "status": {"disruptionsAllowed": 2}},
        {"Min Available": "0", "Max Unavailable": "30%", "Allowed Disruptions": 2},
    ),
    ("policy/v1 PodDisruptionBudget", {}, {"Min Available": "N/A", "Max Unavailable": "N/A"}),
    (
        "autoscaling/v1 HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5, "minReplicas": 2,
                  "targetCPUUtilizationPercentage": 80},
         "status": {"currentReplicas": 3, "currentCPUUtilizationPercentage": 12}},
        {"Reference": "Deployment/d", "Targets": "cpu: 12%/80%", "MinPods": "2", "MaxPods": 5, "Replicas": 3},
    ),
    ("autoscaling/v2 HorizontalPodAutoscaler", {}, {"Targets": "<none>", "MinPods": "<unset>"}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "obj", "cells"), CASES)
def test_cells(of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj)
    assert {name: printed[name] for name in cells} == cells


def metric(kind: str, target: dict, current: dict | None = None) -> tuple[dict, dict]:
    """A metric of a spec and of a status."""
    source = kind[0].lower() + kind[1:]
    status = {"type": kind} if current is None else {"type": kind, source: {"current": current}}
    return {"type": kind, source: {"name": "cpu", "target": target}}, status


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ([metric("External", {"averageValue": "1"}, {"averageValue": "500m"})], "500m/1 (avg)"),
        ([metric("External", {"averageValue": "1"})], "<unknown>/1 (avg)"),
        ([metric("External", {"value": "1"}, {"value": "2"})], "2/1"),
        ([metric("External", {"value": "1"})], "<unknown>/1"),
        ([metric("Object", {"averageValue": "1"}, {"value": "2"})], "<unknown>/1 (avg)"),
        ([metric("Object", {"value": "1"}, {"value": "2"})], "2/1"),
        ([metric("Pods", {"averageValue": "1k"}, {"averageValue": "20"})], "20/1k"),
        ([metric("Resource", {"averageValue": "1Gi"}, {"averageValue": "2Gi"})], "cpu: 2Gi/1Gi"),
        ([metric("Resource", {"averageUtilization": 80})], "cpu: <unknown>/80%"),
        ([metric("Resource", {}, {"averageUtilization": 7})], "cpu: 7%/<auto>"),
        ([metric("ContainerResource", {"averageUtilization": 1}, {"averageUtilization": 0})], "cpu: 0%/1%"),
        ([metric("Chair", {})], "<unknown type>"),
        ([metric("Pods", {"averageValue": str(n)}) for n in (1, 2)], "<unknown>/1, <unknown>/2"),
        (
            [metric("Pods", {"averageValue": str(n)}) for n in (1, 2, 3, 4)],
            "<unknown>/1, <unknown>/2 + 2 more...",
        ),
    ],
)
def test_targets_of_autoscalers(metrics: list, text: str):
    """Current and wanted value of the first two metrics."""
    obj = {
        "spec": {"metrics": [spec for spec, _ in metrics]},
        "status": {"currentMetrics": [status for _, status in metrics]},
    }
    assert row("autoscaling/v2 HorizontalPodAutoscaler", obj)["Targets"] == text
