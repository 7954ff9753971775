"""I01 to I03, of devices, claims and deletions: on logs that break them, and on the nearest that do not."""

import pytest
from history import ALL, CLAIMS, DELETING, SCHEDULER, SLICES, History, allocation, call


def partitions(*names, limit="8Gi", each="5Gi"):
    """Returns the spec of a slice whose devices share a counter."""
    counters = [{"name": "gpu", "counters": {"memory": {"value": limit}}}]
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": each}}}]
    devices = [{"name": name, "consumesCounters": consumes} for name in names]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "pool": pool, "nodeName": "n1", "sharedCounters": counters, "devices": devices}


def test_a_device_is_allocated_to_one_claim_at_a_time():
    """I01 reports a device that a second claim gets, and not one that the first gave back before."""
    log = (
        History()
        .write(CLAIMS, "a", status=allocation("gpu-0"))
        .write(CLAIMS, "b", status=allocation("gpu-0"), by=SCHEDULER)
    )
    message = (
        f"I01: device d/p/gpu-0 is allocated to ResourceClaim default/b (written by {SCHEDULER} at revision "
        "2), and still to ResourceClaim default/a"
    )
    assert log.broken() == [message]
    log = History().write(CLAIMS, "a", status=allocation("gpu-0")).write(CLAIMS, "a", status={})
    assert log.write(CLAIMS, "b", status=allocation("gpu-0")).broken() == []


def test_administrators_and_shares_may_have_a_device_that_others_have():
    """I01 leaves out administrators' access and shares of a device that are within its capacity."""
    log = History().write(CLAIMS, "a", status=allocation("gpu-0"))
    assert log.write(CLAIMS, "b", status=allocation("gpu-0", adminAccess=True)).broken() == []


@pytest.mark.parametrize(("each", "broken"), [("4Gi", 0), ("5Gi", 1)])
def test_shares_of_a_device_are_within_its_capacity(each, broken):
    """I01 adds up what claims consume of a device that allows several allocations."""
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    spec = {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [device],
    }
    log = History().write(SLICES, "s", spec=spec)
    for name in "ab":
        share = {"shareID": name, "consumedCapacity": {"memory": each}}
        log.write(CLAIMS, name, status=allocation("gpu-0", **share))
    assert len(log.broken()) == broken


@pytest.mark.parametrize(("each", "broken"), [("4Gi", 0), ("5Gi", 1)])
def test_partitions_consume_no_more_of_a_counter_than_there_is(each, broken):
    """I01 adds up the counters of the partitions that are allocated."""
    log = History().write(SLICES, "s", spec=partitions("part-0", "part-1", each=each))
    log.write(CLAIMS, "a", status=allocation("part-0")).write(CLAIMS, "b", status=allocation("part-1"))
    found = log.broken()
    assert len(found) == broken
    assert all(text.startswith("I01: 10Gi of counter gpu/memory of pool d/p are consumed") for text in found)


def test_counters_of_semantic_resources_are_not_overdrawn():
    """I01 adds up the counters of KEP-4381's draft that are allocated of one resource."""
    resource = {"id": "card", "attributes": [{"name": "RAM", "counter": {"count": 10}}]}
    log = History().write(
        "noderesourceslices.resource.k8s.io", "s", nodeName="n1", driverName="d", resources=[resource]
    )
    for name in "ab":
        counter = {"resourceID": "card", "name": "RAM", "count": 6}
        handle = {
            "driverName": "d",
            "semanticData": {"nodeName": "n1", "allocations": [{"counter": counter}]},
        }
        log.write(CLAIMS, name, status={"allocation": {"resourceHandles": [handle]}})
    assert [text[:54] for text in log.broken()] == ["I01: 12 of d n1 card RAM are allocated, which has 10: "]


def test_a_device_is_prepared_for_one_claim_at_a_time():
    """I01 reports a device that a node prepares for a claim while another one's is still prepared."""
    log = (
        History()
        .write(CLAIMS, "a", status=allocation("gpu-0"))
        .delete(CLAIMS, "a", status=allocation("gpu-0"))
    )
    log.write(CLAIMS, "b", status=allocation("gpu-0"))
    found = log.broken(calls=[call("a", second=1), call("b", second=4)])
    assert len(found) == 1
    assert found[0].startswith("I01: device d/p/gpu-0 is prepared on node n1 for ResourceClaim default/a")
    unprepared = call("a", "NodeUnprepareResources", 3)
    assert log.broken(calls=[call("a", second=1), unprepared, call("b", second=4)]) == []


def test_claims_of_pods_that_are_gone_are_released():
    """I02 reports reservations for pods that are gone or finished, where the controller manager runs."""
    log = History(*ALL).write("pods", "p", status={"phase": "Succeeded"})
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p", "q"]))
    assert log.broken() == [
        "I02: ResourceClaim default/a is reserved for Pod p, which is finished",
        "I02: ResourceClaim default/a is reserved for Pod q, which is gone",
    ]
    assert log.broken(at_rest=False) == []
    log.component("controller-manager", "killed")
    assert log.broken() == []


def test_of_a_pod_that_is_gone_its_life_is_reported():
    """I02 says of a pod that the log has seen come and go how long it was there."""
    log = History(*ALL).write("pods", "p").write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.delete("pods", "p")
    assert log.broken() == [
        "I02: ResourceClaim default/a is reserved for Pod p, which is gone, 2.0 s after it was created"
    ]


def test_an_unused_claim_is_deallocated():
    """I02 reports a claim that was used, is used by nobody, and has its devices still."""
    log = History(*ALL).write("pods", "p").write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.write(CLAIMS, "a", status=allocation("gpu-0"))
    assert log.broken() == ["I02: ResourceClaim default/a is still allocated although nobody uses it"]


def test_devices_that_no_pod_uses_are_not_prepared():
    """I02 reports a claim that a node holds prepared although no pod there uses it."""
    log = History(*ALL).write("nodes", "n1").write(CLAIMS, "a", status=allocation("gpu-0"))
    found = log.broken(calls=[call("a")])
    assert [text[:60] for text in found] == ["I02: node n1 holds the devices of ResourceClaim default/a pr"]
    assert log.broken(calls=[call("a"), call("a", "NodeUnprepareResources")]) == []


def test_slices_of_nodes_that_are_gone_go():
    """I02 reports a slice of a node that does not exist."""
    log = History(*ALL).write(SLICES, "s", spec=partitions())
    assert log.broken() == ["I02: ResourceSlice s is of node n1, which is gone"]


@pytest.mark.parametrize(
    ("resource", "metadata", "spec", "message"),
    [
        ("pods", {}, {"nodeName": "n1"}, "Pod default/x is being deleted and stays: the kubelet of n1 runs"),
        ("pods", {}, {}, "Pod default/x is being deleted and stays: it has no node"),
        (
            "persistentvolumeclaims",
            {"finalizers": ["kubernetes.io/pvc-protection"]},
            {},
            "PersistentVolumeClaim default/x is being deleted and stays: no pod uses it",
        ),
        (
            CLAIMS,
            {"finalizers": ["resource.kubernetes.io/delete-protection"]},
            {},
            "ResourceClaim default/x is being deleted and stays: the claim is reserved for nobody",
        ),
        (
            "replicasets.apps",
            {"finalizers": ["foregroundDeletion"]},
            {"replicas": 0},
            "ReplicaSet default/x is being deleted and stays: nothing that it owns blocks it",
        ),
        ("persistentvolumeclaims", {"finalizers": ["example.com/mine"]}, {}, ""),
    ],
)
def test_what_is_deleted_goes_once_nothing_holds_it(resource, metadata, spec, message):
    """I03 reports objects whose deletion nothing holds up, and leaves out others' finalizers."""
    log = (
        History(*ALL).write("nodes", "n1").write(resource, "x", metadata={**DELETING, **metadata}, spec=spec)
    )
    assert log.broken() == ([f"I03: {message}"] if message else [])


def test_a_pod_on_a_node_whose_kubelet_is_down_may_stay():
    """I03 waits for a kubelet that does not run."""
    log = History(*ALL).write("nodes", "n1").write("pods", "x", metadata=DELETING, spec={"nodeName": "n1"})
    log.component("kubelet/n1", "killed")
    assert log.broken() == []
