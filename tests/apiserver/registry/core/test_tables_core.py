"""Rows of the core group's kinds: an object in, cells out."""

from typing import Any

import pytest
from table_rows import TWO_HOURS_AGO, resource, row

LATER = "2026-07-01T11:59:48.250000Z"
TEMPLATE = {
    "metadata": {"labels": {"b": "2", "a": "1"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j"}]},
}
NODE_INFO = {
    "kubeletVersion": "v1.36.0", "osImage": "OS", "kernelVersion": "6.1", "containerRuntimeVersion": "cri://2",
}  # fmt: skip
NODE = {
    "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge",
                            "node-role.kubernetes.io/": ""}},
    "spec": {"unschedulable": True},
    "status": {
        "nodeInfo": NODE_INFO,
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [
            {"type": "Hostname", "address": "n"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "10.0.0.2"},
        ],
    },
}  # fmt: skip
CORE_EVENT = {
    "type": "Warning", "reason": "Failed", "message": " no luck\n", "count": 3,
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
    "source": {"component": "kubelet", "host": "n"},
    "firstTimestamp": TWO_HOURS_AGO, "lastTimestamp": "2026-07-01T11:58:30Z",
}  # fmt: skip
NEW_EVENT = {
    "type": "Normal", "reason": "Scheduled", "note": "done", "regarding": {"kind": "Pod"},
    "reportingController": "scheduler", "eventTime": "2026-07-01T11:59:00.000000Z",
}  # fmt: skip
QUOTA = {
    "status": {
        "hard": {"pods": "10", "limits.cpu": "2", "requests.cpu": "1500m"},
        "used": {"pods": "3", "limits.cpu": "500m"},
    }
}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("v1 Namespace", {"status": {"phase": "Active"}}, {"Name": "x", "Status": "Active", "Age": "5m"}),
    ("v1 ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, {"Data": 2, "Age": "5m"}),
    ("v1 Secret", {"type": "Opaque"}, {"Type": "Opaque", "Data": 0}),
    (
        "v1 PodTemplate",
        {"template": TEMPLATE},
        {"Containers": "c,d", "Images": "i:1,j", "Pod Labels": "a=1,b=2"},
    ),
    (
        "v1 ReplicationController",
        {"spec": {"replicas": 2, "template": TEMPLATE, "selector": {"a": "1"}}, "status": {"replicas": 1}},
        {"Desired": 2, "Current": 1, "Ready": 0, "Containers": "c,d", "Selector": "a=1"},
    ),
    ("v1 ReplicationController", {}, {"Desired": 0, "Containers": "", "Selector": "<none>"}),
    (
        "v1 Node",
        NODE,
        {
            "Status": "Ready,SchedulingDisabled", "Roles": "edge,worker", "Version": "v1.36.0",
            "Internal-IP": "10.0.0.1", "External-IP": "<none>", "OS-Image": "OS", "Kernel-Version": "6.1",
            "Container-Runtime": "cri://2",
        },
    ),
    ("v1 Node", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {"Status": "NotReady"}),
    ("v1 Node", {}, {"Status": "Unknown", "Roles": "<none>", "Version": "", "OS-Image": "<unknown>"}),
    (
        "v1 Event",
        CORE_EVENT,
        {
            "Last Seen": "90s", "Type": "Warning", "Reason": "Failed", "Object": "pod/p",
            "Subobject": "spec.containers{c}", "Source": "kubelet, n", "Message": "no luck",
            "First Seen": "121m", "Count": 3, "Name": "x",
        },
    ),
    (
        "v1 Event",
        {**CORE_EVENT, "series": {"count": 9, "lastObservedTime": LATER}},
        {"Last Seen": "11s", "Count": 9},
    ),
    (
        "events.k8s.io/v1 Event",
        NEW_EVENT,
        {"Last Seen": "60s", "First Seen": "60s", "Object": "pod", "Source": "scheduler", "Message": "done",
         "Count": 1},
    ),
    ("v1 Event", {}, {"Last Seen": "<unknown>", "First Seen": "<unknown>", "Object": "", "Count": 1}),
    (
        "v1 ResourceQuota",
        QUOTA,
        {"Request": "pods: 3/10, requests.cpu: 0/1500m", "Limit": "limits.cpu: 500m/2"},
    ),
    ("v1 ResourceQuota", {}, {"Request": "", "Limit": ""}),
    (
        "v1 ComponentStatus",
        {"conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]},
        {"Status": "Healthy", "Message": "ok", "Error": ""},
    ),
    (
        "v1 ComponentStatus",
        {"conditions": [{"type": "Healthy", "status": "False", "error": "down"}]},
        {"Status": "Unhealthy", "Message": "", "Error": "down"},
    ),
    ("v1 ComponentStatus", {}, {"Status": "Unknown"}),
    ("v1 ServiceAccount", {"metadata": {"creationTimestamp": None}}, {"Name": "x", "Age": "<unknown>"}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "obj", "cells"), CASES)
def test_cells(of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj)
    assert {name: printed[name] for name in cells} == cells


def test_service_accounts_of_earlier_releases():
    """Until 1.34 they counted their secrets."""
    account = {"secrets": [{"name": "a"}, {"name": "b"}]}
    assert row("v1 ServiceAccount", account, minor=34) == {"Name": "x", "Secrets": 2, "Age": "5m"}
    assert row("v1 ServiceAccount", account, minor=35) == {"Name": "x", "Age": "5m"}


def test_an_event_is_not_changed():
    """Reading an event of the other group leaves it as it is."""
    event = {**NEW_EVENT}
    row("events.k8s.io/v1 Event", event)
    assert event == NEW_EVENT
    assert resource("events.k8s.io/v1", "Event").columns[0].name == "Last Seen"
