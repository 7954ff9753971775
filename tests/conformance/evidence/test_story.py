"""The story of an object, reported from its log, and what its writes changed."""

import pytest

from kubeskew.conformance.evidence.changes import changes, patch
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.evidence.nodes import DriverCall, NodeRecords
from kubeskew.conformance.evidence.story import CLAIMS, story

SCHEDULER, MANAGER, KUBELET = "kube-scheduler 1.36", "kube-controller-manager 1.36", "kubelet/n1 1.36"
CLASSES = "deviceclasses.resource.k8s.io"
KINDS = {
    "pods": "Pod",
    "replicasets.apps": "ReplicaSet",
    CLAIMS: "ResourceClaim",
    "nodes": "Node",
    CLASSES: "DeviceClass",
    "events": "Event",
}


class Log(list):
    """A log that is written by hand; revisions count up, and seconds with them."""

    def add(self, resource, name, by, verb="update", owner="", **parts):
        namespace = "" if resource in {"nodes", CLASSES} else "default"
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"{KINDS[resource]}-{name}",
            **parts.pop("metadata", {}),
        }
        if owner:
            kind, _, owner_name = owner.partition("/")
            metadata["ownerReferences"] = [
                {"kind": kind, "name": owner_name, "uid": f"{kind}-{owner_name}", "controller": True}
            ]
        value = {"kind": KINDS[resource], "metadata": metadata, **parts}
        self.append(
            Write(
                len(self) + 1,
                f"2026-01-01T00:00:{len(self):02}.000000Z",
                verb,
                resource,
                namespace,
                name,
                by,
                value,
            )
        )
        return self

    def component(self, name, what, detail=""):
        time = f"2026-01-01T00:00:{len(self):02}.000000Z"
        self.append(ComponentChange(len(self), time, name, what, "1.36", "", detail))
        return self

    def lines(self, resource="pods", name="p", records=None):
        found = story(self, records or NodeRecords(), resource, "default", name)
        return [sentence.text + (f" ← {sentence.because}" if sentence.because else "") for sentence in found]


WAITING = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}]}


def test_a_pods_life_is_reported_with_its_causes():
    """Creation is reported with the owner's write, binding with what the pod waited for, the end with why."""
    log = (
        Log()
        .add("replicasets.apps", "rs", "kubectl 1.36")
        .add("pods", "p", MANAGER, "create", owner="ReplicaSet/rs")
    )
    log.add("pods", "p", SCHEDULER, status=WAITING).add("nodes", "n1", KUBELET, "create")
    log.add("pods", "p", SCHEDULER, spec={"nodeName": "n1"}).component("kubelet/n1", "stopped")
    log.component("kubelet/n2", "stopped")
    log.add("pods", "p", KUBELET, spec={"nodeName": "n1"}, status={"phase": "Failed", "reason": "OutOfcpu"})
    owner = "ReplicaSet rs was written by kubectl 1.36 at revision 1"
    assert log.lines() == [
        f"{MANAGER} created Pod p for ReplicaSet rs. ← {owner}",
        f"{SCHEDULER} found no place for Pod p: 0/1 nodes are available.",
        f"{SCHEDULER} bound Pod p to node n1. ← Node n1 was created by {KUBELET} at revision 4",
        "kubelet/n1 1.36 stopped.",
        f"{KUBELET} reported Pod p Failed (OutOfcpu).",
    ]


BOUND = {"spec": {"nodeName": "n1"}}
READY = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}
LATER = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:05:00Z"}]}


def waiting_log():
    """Returns a log of a node and another pod, both there before a pod with a claim finds no place."""
    spec = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    log = Log().add("nodes", "n1", KUBELET, "create", status=READY).add("pods", "other", KUBELET, **BOUND)
    log.add("pods", "p", "kubectl 1.36", "create", spec=spec)
    return log.add("pods", "p", SCHEDULER, spec=spec, status=WAITING)


def bound(log):
    """Returns the last sentence once the pod is bound."""
    return log.add("pods", "p", SCHEDULER, **BOUND).lines()[-1]


def test_a_pods_binding_is_reported_with_what_came_after_it_had_found_no_place():
    """The cause is the newest write that plugins look at; what was there before, what reports the same again
    and what runs on elsewhere is none."""
    log = waiting_log().add(CLASSES, "gpu", "kubectl 1.36", "create")
    log.add("nodes", "n1", KUBELET, status=LATER)
    log.add("pods", "other", KUBELET, **BOUND, status={"podIP": "1"})
    cause = "DeviceClass gpu was created by kubectl 1.36 at revision 5"
    assert bound(log) == f"{SCHEDULER} bound Pod p to node n1. ← {cause}"


def test_a_pod_that_has_gone_makes_room():
    """A waiting pod is tried again when another one is removed, or its claim given back."""
    gone = waiting_log().add("pods", "other", KUBELET, "delete", **BOUND)
    assert bound(gone).endswith(f"← Pod other was removed by {KUBELET} at revision 5")
    given = {"allocation": {"devices": {"results": []}}}
    freed = Log().add(CLAIMS, "others", SCHEDULER, status=given)
    freed.add("pods", "p", "kubectl 1.36", "create").add("pods", "p", SCHEDULER, status=WAITING)
    freed.add(CLAIMS, "others", MANAGER, status={})
    assert bound(freed).endswith(f"← ResourceClaim others was written by {MANAGER} at revision 4")


def test_what_comes_once_the_scheduler_has_decided_is_no_cause():
    """A write behind the reservation of its claim, which comes before the binding, gives a pod no place."""
    log = waiting_log().add("nodes", "n2", KUBELET, "create")
    log.add(CLAIMS, "c", SCHEDULER, status={"reservedFor": [{"resource": "pods", "name": "p"}]})
    log.add("nodes", "n3", KUBELET, "create")
    assert bound(log).endswith(f"← Node n2 was created by {KUBELET} at revision 5")


def test_a_binding_of_which_the_log_does_not_show_the_cause_has_none():
    """A write from before the pod found no place is not why it finds one."""
    assert bound(waiting_log()) == f"{SCHEDULER} bound Pod p to node n1."


def test_a_pods_claims_are_part_of_its_story():
    """A pod's story shows what happens to its claims: allocation, reservation, preparation, release."""
    spec = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    device = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
    given = {
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": "p"}],
    }
    log = (
        Log().add("pods", "p", "kubectl 1.36", "create", spec=spec).add(CLAIMS, "c", "kubectl 1.36", "create")
    )
    log.add(CLAIMS, "c", SCHEDULER, status=given).add("pods", "p", KUBELET, "delete", spec=spec)
    log.add(CLAIMS, "c", MANAGER, status={})
    call = DriverCall(
        "2026-01-01T00:00:02.500000Z", "n1", "d", "NodePrepareResources", "default", "c", "ResourceClaim-c"
    )
    last = f"Pod p was last written by {KUBELET} at revision 4"
    assert log.lines(records=NodeRecords([call]))[2:] == [
        f"{SCHEDULER} allocated ResourceClaim c the devices d/p/gpu-0. ← p asked for it",
        f"{SCHEDULER} reserved ResourceClaim c for p.",
        "driver d on node n1 prepared the devices of ResourceClaim c.",
        f"{KUBELET} removed Pod p.",
        f"{MANAGER} deallocated ResourceClaim c, which had d/p/gpu-0. ← nobody had it reserved any more",
        f"{MANAGER} dropped the reservation of ResourceClaim c for p. ← {last}",
    ]


def test_what_components_said_of_an_object_is_reported():
    """Events about the object are part of its story, those about others are not."""
    log = Log().add("pods", "p", "kubectl 1.36", "create")
    for name in ("p", "other"):
        about = {"kind": "Pod", "namespace": "default", "name": name}
        log.add(
            "events",
            f"e-{name}",
            KUBELET,
            "create",
            involvedObject=about,
            reason="Pulled",
            message="an image",
        )
    assert log.lines()[1:] == [f"{KUBELET} said Pulled: an image"]


def test_a_kubelet_that_does_not_start_is_reported_with_its_words():
    """A pod's story says why the kubelet of its node failed."""
    log = Log().add("pods", "p", SCHEDULER, "create", **BOUND)
    log.component("kubelet/n1", "failed", "checkpoint is corrupted")
    assert log.lines()[1:] == ["kubelet/n1 1.36 failed: checkpoint is corrupted."]


def test_each_of_several_api_servers_is_in_a_story():
    """A story reports the one of several API servers that was killed, and not of other nodes and drivers."""
    log = Log().add("pods", "p", SCHEDULER, "create", **BOUND).component("apiserver-2", "killed")
    log.component("kubelet/n2", "killed").component("driver/d", "killed")
    assert log.lines()[1:] == ["apiserver-2 1.36 killed."]


def test_a_deletion_is_reported_with_who_asked_for_it():
    """A story shows in two sentences who asked for a deletion and what removed the object."""
    marked = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    log = Log().add("pods", "p", "kubectl 1.36", "create").add("pods", "p", "kubectl 1.36", metadata=marked)
    log.add("pods", "p", KUBELET, "delete", metadata=marked)
    since = "it was to be deleted, and nothing held it since"
    assert log.lines()[1:] == [
        "kubectl 1.36 asked for Pod p to be deleted.",
        f"{KUBELET} removed Pod p. ← {since} kubectl 1.36 wrote it at revision 2",
    ]


def test_who_wrote_last_before_a_compaction_is_not_said_to_have_created_the_object():
    """The first write that a compacted log has of an object may be any."""
    log = Log().add("pods", "p", KUBELET).add("pods", "p", "kubectl 1.36", metadata={"labels": {"a": "b"}})
    assert log.lines() == [
        f"{KUBELET} wrote Pod p; the log of what it was before is compacted.",
        "kubectl 1.36 changed Pod p: + metadata.labels: {a: b}.",
    ]


@pytest.mark.parametrize(
    ("before", "after", "texts", "operations"),
    [
        ({"a": 1}, {"a": 2}, ["spec.a: 1 → 2"], [{"op": "replace", "path": "/spec/a", "value": 2}]),
        ({}, {"a": {"b": 1}}, ["+ spec.a: {b: 1}"], [{"op": "add", "path": "/spec/a", "value": {"b": 1}}]),
        ({"a": [1]}, {}, ["- spec.a: [1]"], [{"op": "remove", "path": "/spec/a"}]),
        (
            {"l": [{"type": "A", "s": 1}, {"type": "B", "s": 1}]},
            {"l": [{"type": "B", "s": 2}, {"type": "A", "s": 1}]},
            ["spec.l.B.s: 1 → 2"],
            None,
        ),
        ({"l": [1, 2]}, {"l": [2]}, ["spec.l: [1, 2] → [2]"], [{"op": "remove", "path": "/spec/l/0"}]),
        ({"t": "x" * 80}, {}, [f"- spec.t: {'x' * 59}…"], [{"op": "remove", "path": "/spec/t"}]),
    ],
)
def test_changes_name_fields_and_items(before, after, texts, operations):
    """Items of lists are named by their key, regardless of their order; the patch is RFC 6902's."""
    old, new = (
        {"metadata": {"name": "x", "resourceVersion": str(id(each))}, "spec": each}
        for each in (before, after)
    )
    assert [str(change) for change in changes(old, new)] == texts
    if operations is not None:
        assert patch(old, new) == operations
