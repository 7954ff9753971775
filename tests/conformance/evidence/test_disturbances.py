"""Finding how a pod was disturbed: from the pod, the log's writes, and what nodes recorded."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from kubeskew.conformance.evidence.disturbances import ClusterSnapshot, PodSnapshot, disturbances, ending
from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, NodeRecords, PreparedClaim

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"namespace": "ns", "name": "a", "uid": "pod-uid"},
    "spec": {
        "nodeName": "n",
        "containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}],
        "resourceClaims": [{"name": "d", "resourceClaimName": "mine"}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:01Z",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "PodReadyToStartContainers", "status": "True"},
        ],
        "containerStatuses": [
            {"name": "c", "containerID": "containerd://1", "restartCount": 0, "state": RUNNING, "ready": True}
        ],
    },
}
NODE: dict[str, Any] = {
    "metadata": {"name": "n", "uid": "node-uid"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "capacity": {"example.com/gpu": "2", "memory": "1"},
        "allocatable": {"example.com/gpu": "2", "memory": "1"},
    },
}
RESULT = {"request": "r", "driver": "d", "pool": "n", "device": "gpu-0", "tolerations": []}
CLAIM: dict[str, Any] = {
    "metadata": {"namespace": "ns", "name": "mine", "uid": "claim-uid"},
    "status": {
        "allocation": {"devices": {"results": [RESULT]}},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "pod-uid"}],
    },
}
DEVICE = {"pool": "n", "device": "gpu-0", "requests": ["r"], "cdiIDs": ["d/claim=1"], "shareID": ""}
PREPARED = PreparedClaim("n", "d", "ns", "mine", "claim-uid", [DEVICE])
RESOURCES = {"pods": POD, "nodes": NODE, "resourceclaims.resource.k8s.io": CLAIM}
UNPREPARED = "kubelet/n called NodeUnprepareResources of driver d for claim ns/mine after revision 7"
CREATED_AT, NOTED_AT = 5, 10


def time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def changed(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with a value at a path; None takes the field away."""
    made = copy.deepcopy(obj)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = made
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


def write(revision: int, resource: str, value: dict[str, Any], by: str, verb: str = "update") -> Write:
    metadata = value["metadata"]
    place = (metadata.get("namespace", ""), metadata["name"])
    return Write(revision, time(revision), verb, resource, *place, by, value)


class World:
    """A pod as it was noted, and what is seen of it later."""

    def __init__(self) -> None:
        self.noted = PodSnapshot(POD, NODE, [PREPARED], NOTED_AT, NodeRecords())
        self.pod, self.node = POD, NODE
        self.prepared = {"n": [PREPARED]}
        self.log: list[Write] = [
            write(CREATED_AT + index, resource, value, "kubectl", "create")
            for index, (resource, value) in enumerate(RESOURCES.items())
        ]
        self.records = NodeRecords()

    def change(self, resource: str, path: str, value: Any, by: str) -> None:
        now = changed({"pods": self.pod, "nodes": self.node}.get(resource, CLAIM), path, value)
        self.log.append(write(self.log[-1].revision + 10, resource, now, by))
        self.pod = now if resource == "pods" else self.pod
        self.node = now if resource == "nodes" else self.node

    def seen(self) -> ClusterSnapshot:
        return ClusterSnapshot({"n": self.node}, self.prepared, self.log, self.records)

    def found(self) -> list[str]:
        """Returns what is found; nodes had recorded until then what is of an earlier time."""
        then = time(NOTED_AT)
        records = NodeRecords(
            [each for each in self.records.calls if each.time < then],
            [each for each in self.records.containers if each.time < then],
        )
        return disturbances(replace(self.noted, records=records), self.pod, self.seen())


@pytest.mark.parametrize(
    ("resource", "path", "value", "found"),
    [
        ("pods", "status.containerStatuses.0.restartCount", 1, "c.restartCount was 0, is 1"),
        (
            "pods",
            "status.containerStatuses.0.containerID",
            "containerd://2",
            "c.containerID was containerd://1, is containerd://2",
        ),
        ("pods", "status.phase", "Failed", "phase was Running, is Failed"),
        ("pods", "metadata.deletionTimestamp", "x", "deletionTimestamp was nothing, is x"),
        ("pods", "status.startTime", "x", "startTime was 2026-01-01T00:00:01Z, is x"),
        (
            "pods",
            "status.conditions.0.status",
            "False",
            "condition Ready was True since 2026-01-01T00:00:01Z, is False since 2026-01-01T00:00:01Z",
        ),
        (
            "pods",
            "status.conditions.0.lastTransitionTime",
            "later",
            "condition Ready was True since 2026-01-01T00:00:01Z, is True since later",
        ),
        (
            "nodes",
            "status.conditions.0.lastTransitionTime",
            "later",
            "node n's condition Ready was True since 2026-01-01T00:00:00Z, is True since later",
        ),
        (
            "nodes",
            "status.allocatable.example.com/gpu".replace("example.com/gpu", "GPU"),
            "0",
            "node n's allocatable of example.com/gpu was 2, is 0",
        ),
        (
            "resourceclaims.resource.k8s.io",
            "status.allocation.devices.results.0.device",
            "gpu-1",
            'claim mine\'s devices was ["r/d/n/gpu-0"], is ["r/d/n/gpu-1"]',
        ),
        (
            "resourceclaims.resource.k8s.io",
            "status.reservedFor",
            [],
            "claim mine reserved for the pod was true, is false",
        ),
    ],
)
def test_a_change_shows_from_what_to_what_when_and_by_whom(resource: str, path: str, value: Any, found: str):
    """Of the pod, its claim and its node everything counts that has to stay."""
    world = World()
    if path.endswith("GPU"):
        resources = {**NODE["status"]["allocatable"], "example.com/gpu": value}
        path, value = path.removesuffix(".GPU"), resources
    world.change(resource, path, value, "kubelet/n 1.35")

    assert world.found() == [f"{found} (written by kubelet/n 1.35 at revision 17)"]


@pytest.mark.parametrize(
    ("resource", "path", "value"),
    [
        ("pods", "status.conditions.1", None),
        ("pods", "status.conditions.1.status", "True"),
        ("pods", "status.observedGeneration", 2),
        ("pods", "metadata.labels", {"b": "c"}),
        ("nodes", "status.allocatable.memory", "2"),
        ("nodes", "metadata.labels", {"b": "c"}),
        ("resourceclaims.resource.k8s.io", "status.allocation.devices.results.0.tolerations", None),
    ],
)
def test_other_changes_are_no_disturbance(resource: str, path: str, value: Any):
    """Conditions and fields that come and go with versions leave the pod alone."""
    world = World()
    world.change(resource, path, value, "kubelet/n 1.36")

    assert world.found() == []


def test_a_change_that_went_again_is_found_in_the_log():
    """The first write that brought it is named."""
    world = World()
    world.change("pods", "status.containerStatuses.0.ready", value=False, by="kubelet/n 1.36")
    world.change("pods", "status.containerStatuses.0.ready", value=True, by="kubelet/n 1.36")

    assert world.found() == [
        "c.ready was true, became false for a time (written by kubelet/n 1.36 at revision 17)"
    ]


def test_a_resource_may_be_missing_while_its_plugin_comes_back():
    """A device plugin that registers again with a kubelet disturbs nothing, if the number returns."""
    world = World()
    world.change("nodes", "status.capacity", {"example.com/gpu": "0"}, "kubelet/n 1.36")
    world.change("nodes", "status.capacity", NODE["status"]["capacity"], "kubelet/n 1.36")

    assert world.found() == []


def call(second: int, method: str, uid: str = "claim-uid", error: str = "") -> DriverCall:
    return DriverCall(time(second), "n", "d", method, "ns", "mine", uid, error)


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([call(11, "NodePrepareResources"), call(12, "NodePrepareResources")], []),
        ([call(9, "NodeUnprepareResources")], []),
        ([call(11, "NodeUnprepareResources", "other")], []),
        (
            [call(11, "NodeUnprepareResources"), call(12, "NodePrepareResources")],
            [UNPREPARED],
        ),
        (
            [call(11, "NodeUnprepareResources", error="no")],
            [f"{UNPREPARED}, which failed: no"],
        ),
    ],
)
def test_an_unprepare_disturbs_and_a_repeated_prepare_does_not(calls: list[DriverCall], found: list[str]):
    """The driver's own record decides, also where the claim is prepared again by now."""
    world = World()
    world.records = NodeRecords(calls)

    assert world.found() == found


def test_what_the_node_holds_prepared_is_compared():
    """Claims that are lost, and other devices, are found; a kubelet that does not answer shows nothing."""
    world = World()
    world.prepared = {"n": []}
    assert world.found() == ["node n no longer holds the devices of claim ns/mine prepared by d"]

    world.prepared = {"n": [PreparedClaim("n", "d", "ns", "mine", "claim-uid", [{**DEVICE, "cdiIDs": []}])]}
    assert world.found() == ['CDI devices of claim ns/mine, prepared by d was ["d/claim=1"], is []']

    world.prepared = {}
    assert world.found() == []


def test_what_the_runtime_did_is_found():
    """A container that was stopped and begun again, with other devices, shows in the runtime's record."""

    def event(second: int, what: str, *devices: str) -> ContainerEvent:
        return ContainerEvent(time(second), "n", "pod-uid", "c", "containerd://1", what, devices)

    world = World()
    world.records = NodeRecords((), [event(6, "started", "x")])
    assert world.found() == []

    world.records = NodeRecords(
        (), [event(6, "started", "x"), event(11, "stopped", "x"), event(12, "started")]
    )
    assert world.found() == [
        "the runtime of n stopped container c after revision 7",
        "the runtime of n started container c after revision 7",
        'CDI devices in container c was ["x"], is []',
    ]


def test_the_end_of_a_pod_is_reported():
    """The authors of a deletion's request and of the deletion are named with their revisions."""
    world = World()
    world.change("pods", "metadata.deletionTimestamp", "x", "kube-controller-manager 1.35")
    world.log.append(write(30, "pods", world.pod, "kubelet/n 1.35", "delete"))

    assert ending(world.noted, world.seen()) == (
        "it is gone, to be deleted as kube-controller-manager 1.35 wrote at revision 17, "
        "deleted by kubelet/n 1.35 at revision 30"
    )


def test_another_node_of_the_name_is_not_the_same():
    """A node that was deleted and registered again is a disturbance."""
    world = World()
    world.log.append(write(20, "nodes", NODE, "kubectl", "delete"))
    world.node = changed(NODE, "metadata.uid", "new")

    assert world.found() == ["node n was node-uid, is new (written by kubectl at revision 20)"]


def test_a_node_whose_clock_is_wrong_disturbs_nothing():
    """Records that nodes had when the pod was noted are of before, regardless of what time they have."""
    started = ContainerEvent(time(99), "n", "pod-uid", "c", "containerd://1", "started")
    records = NodeRecords([call(99, "NodeUnprepareResources")], [started])
    world = World()
    world.records = records
    noted = replace(world.noted, records=records)

    assert disturbances(noted, world.pod, world.seen()) == []


def test_a_pod_that_starts_after_it_was_noted_is_not_disturbed():
    """A pod that was Pending is compared with how it was when it began to run; from then on all counts."""
    started = ContainerEvent(time(12), "n", "pod-uid", "c", "containerd://1", "started")
    world = World()
    waiting = changed(changed(POD, "status.phase", "Pending"), "status.containerStatuses", [])
    noted = replace(world.noted, pod=waiting)
    world.log.append(write(world.log[-1].revision + 10, "pods", POD, "kubelet/n 1.36"))
    world.records = NodeRecords((), [started])
    assert disturbances(noted, world.pod, world.seen()) == []

    world.change("pods", "status.containerStatuses.0.restartCount", 1, "kubelet/n 1.36")
    world.records = NodeRecords((), [started, replace(started, time=time(30))])
    found = disturbances(noted, world.pod, world.seen())
    assert [text.partition(" (")[0] for text in found] == [
        "c.restartCount was 0, is 1",
        "the runtime of n started container c after revision 27",
    ]
