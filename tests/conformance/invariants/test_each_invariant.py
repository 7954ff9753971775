"""Each invariant on a log that breaks it, and on the nearest one that does not."""

from datetime import timedelta

import pytest
from history import CLAIMS, COLLECTOR, LEASES, SLICES, History, allocation, at, owned_by

from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall
from kubeskew.conformance.invariants.invariant import ComponentFailure
from kubeskew.conformance.invariants.tolerance import Tolerance

SCHEDULER, MANAGER = "kube-scheduler 1.36", "kube-controller-manager 1.36"
ALL = ("apiserver", "controller-manager", "scheduler", "kubelet/n1")
RUNNING = {"phase": "Running"}


def partitions(*names, limit="8Gi", each="5Gi"):
    """Returns the spec of a slice whose devices share a counter."""
    counters = [{"name": "gpu", "counters": {"memory": {"value": limit}}}]
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": each}}}]
    devices = [{"name": name, "consumesCounters": consumes} for name in names]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "pool": pool, "nodeName": "n1", "sharedCounters": counters, "devices": devices}


def test_a_device_is_allocated_to_one_claim_at_a_time():
    """I01 tells of a device that a second claim gets, and not of one that the first gave back before."""
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


def call(name, call="NodePrepareResources", second=0, error="", uid=""):
    device = {"pool": "p", "device": "gpu-0", "requests": ["r"], "cdiIDs": []}
    devices = [] if "Unprepare" in call else [device]
    uid = uid or f"ResourceClaim-{name}"
    return DriverCall(at(second), "n1", "d", call, "default", name, uid, error, devices)


def test_a_device_is_prepared_for_one_claim_at_a_time():
    """I01 tells of a device that a node prepares for a claim while another one's is still prepared."""
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
    """I02 tells of reservations for pods that are gone or finished, where the controller manager runs."""
    log = History(*ALL).write("pods", "p", status={"phase": "Succeeded"})
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p", "q"]))
    assert log.broken() == [
        "I02: ResourceClaim default/a is reserved for Pod p, which is finished",
        "I02: ResourceClaim default/a is reserved for Pod q, which is gone",
    ]
    assert log.broken(at_rest=False) == []
    log.component("controller-manager", "killed")
    assert log.broken() == []


def test_an_unused_claim_is_deallocated():
    """I02 tells of a claim that was used, is used by nobody, and has its devices still."""
    log = History(*ALL).write("pods", "p").write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.write(CLAIMS, "a", status=allocation("gpu-0"))
    assert log.broken() == ["I02: ResourceClaim default/a is still allocated although nobody uses it"]


def test_devices_that_no_pod_uses_are_not_prepared():
    """I02 tells of a claim that a node holds prepared although no pod there uses it."""
    log = History(*ALL).write("nodes", "n1").write(CLAIMS, "a", status=allocation("gpu-0"))
    found = log.broken(calls=[call("a")])
    assert [text[:60] for text in found] == ["I02: node n1 holds the devices of ResourceClaim default/a pr"]
    assert log.broken(calls=[call("a"), call("a", "NodeUnprepareResources")]) == []


def test_slices_of_nodes_that_are_gone_go():
    """I02 tells of a slice of a node that does not exist."""
    log = History(*ALL).write(SLICES, "s", spec=partitions())
    assert log.broken() == ["I02: ResourceSlice s is of node n1, which is gone"]


DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


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
    """I03 tells of objects whose deletion nothing holds up, and leaves out others' finalizers."""
    log = (
        History(*ALL).write("nodes", "n1").write(resource, "x", metadata={**DELETING, **metadata}, spec=spec)
    )
    assert log.broken() == ([f"I03: {message}"] if message else [])


def test_a_pod_on_a_node_whose_kubelet_is_down_may_stay():
    """I03 waits for a kubelet that does not run."""
    log = History(*ALL).write("nodes", "n1").write("pods", "x", metadata=DELETING, spec={"nodeName": "n1"})
    log.component("kubelet/n1", "killed")
    assert log.broken() == []


def test_a_pod_that_fits_a_node_is_bound():
    """I04 tells of a pending pod for which the scheduler's filters find a node."""
    message = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    log = History(*ALL).write("pods", "p", spec={}, status={"conditions": [message]})
    assert log.broken(feasible={"Pod-p": "n1"}) == [
        "I04: Pod default/p fits node n1 and is not bound: 0/1 nodes are available"
    ]
    assert log.broken() == []


def bind(log, **node):
    log.write("nodes", "n1", **node)
    log.write("pods", "p", spec={}).write("pods", "p", spec={"nodeName": "n1"}, by=SCHEDULER)
    return log


def test_what_was_bound_is_admitted():
    """I05 tells of a bound pod that its kubelet refuses, unless the node changed in between."""
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}
    log = bind(History())
    log.write("pods", "p", spec={"nodeName": "n1"}, status=refused, by="kubelet/n1 1.36")
    assert [text[:45] for text in log.broken()] == ["I05: Pod default/p (written by kubelet/n1 1.3"]
    log = bind(History()).write("nodes", "n1", status={"allocatable": {"cpu": "1"}})
    log.write("pods", "p", spec={"nodeName": "n1"}, status=refused, by="kubelet/n1 1.36")
    assert log.broken() == []


def test_a_pod_that_ran_is_refused_once():
    """I06 alone tells of a pod that had run and is refused; how its containers ended belongs to it."""
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    log = bind(History()).write("pods", "p", spec=spec, status=RUNNING)
    log.write("pods", "p", spec=spec, status=refused, by="kubelet/n1 1.36")
    events = [("stopped", 1), ("started", 2), ("stopped", 3)]
    containers = [ContainerEvent(at(second), "n1", "Pod-p", "c", "id", what) for what, second in events]
    why = "(written by kubelet/n1 1.36 at revision 5) ran and was failed by its kubelet: OutOfcpu: no cpu"
    failed = f"I06: Pod default/p {why}"
    assert log.broken(containers=containers[2:]) == [failed]
    assert log.broken(containers=containers) == [
        failed,
        f"I06: container c of Pod default/p was stopped on node n1 at {at(1)}; nothing asked for it",
    ]


def test_a_running_container_is_not_stopped_by_itself():
    """I06 tells of a container that a kubelet stopped, unless its pod is deleted."""
    stopped = ContainerEvent(at(5), "n1", "Pod-p", "c", "id", "stopped")
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    assert [text[:50] for text in log.broken(containers=[stopped])] == [
        "I06: container c of Pod default/p was stopped on n"
    ]
    log.write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING, metadata=DELETING)
    assert [text for text in log.broken(containers=[stopped]) if text.startswith("I06")] == []


def run(second, what="started"):
    return ContainerEvent(at(second), "n1", "Pod-p", "c", "id", what)


@pytest.mark.parametrize(
    ("calls", "wrong"),
    [
        ([call("a", second=1), call("a", "NodeUnprepareResources", 9)], ""),
        ([call("a", second=1), call("a", "NodeUnprepareResources", 4, error="busy")], ""),
        ([], ""),  # nothing is known of the driver's calls
        ([call("a", second=1), call("a", "NodeUnprepareResources", 6)], "ran when driver d unprepared"),
        (
            [call("a", second=1), call("a", "NodeUnprepareResources", 2)],
            "was started when driver d had unprepared",
        ),
        ([call("a", second=1, uid="former")], "was started when driver d had prepared a former"),
    ],
)
def test_a_container_has_its_claims_prepared_while_it_runs(calls, wrong):
    """I06 tells of a container that began, or went on, while a claim of its pod was not prepared."""
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING, metadata=DELETING)
    found = log.broken(at_rest=False, calls=calls, containers=[run(5), run(8, "stopped")])
    told = [text for text in found if text.startswith("I06")]
    begin = f"I06: container c of Pod default/p, on node n1 since {at(5)}, "
    assert [text.removeprefix(begin).partition(" ResourceClaim")[0] for text in told] == [wrong][
        : bool(wrong)
    ]


def test_a_pod_that_has_ended_stays_so():
    """I06 tells of a pod that had succeeded and is failed later."""
    log = History().write("pods", "p", status={"phase": "Succeeded"})
    log.write("pods", "p", status={"phase": "Failed"}, by="kubelet/n1 1.36")
    assert [text[:3] for text in log.broken()] == ["I06"]


def test_nobody_takes_a_claim_from_a_pod_that_uses_it():
    """I06 tells of a component that ends a reservation of a pod with a node, unless the pod has ended."""
    for phase, broken in (("Running", ["I06"]), ("Succeeded", [])):
        log = History().write("pods", "p", spec={"nodeName": "n1"}, status={"phase": phase})
        log.write(CLAIMS, "c", status=allocation("d", reserved=["p"]))
        log.write(CLAIMS, "c", status=allocation("d"), by="kube-scheduler 1.36")
        assert [text[:3] for text in log.broken(at_rest=False)] == broken


def test_one_claim_is_made_for_each_that_a_pod_names():
    """I08 tells of a second claim of the same name in the pod's spec."""
    for entry, broken in (("a", ["I08"]), ("b", [])):
        log = History().write("pods", "p")
        for name, each in (("c1", "a"), ("c2", entry)):
            annotations = {"resource.kubernetes.io/pod-claim-name": each}
            log.write(CLAIMS, name, metadata={**owned_by("Pod", "p"), "annotations": annotations}, by=MANAGER)
        assert [text[:3] for text in log.broken(at_rest=False)] == broken


def test_a_cron_job_knows_its_jobs():
    """I08 tells of an active job that its cron job does not count."""
    for active, broken in (([], ["I08"]), ([{"name": "j", "uid": "Job-j"}], [])):
        log = History("controller-manager").write("cronjobs.batch", "t", status={"active": active})
        log.write("jobs.batch", "j", metadata=owned_by("CronJob", "t"), by=MANAGER)
        assert [text[:3] for text in log.broken()] == broken


def test_times_of_machines_whose_clocks_differ_tell_no_order():
    """I06 and I19 take no order from times that are closer than the clocks of a run differ."""
    tolerance = Tolerance(clock_skew=timedelta(seconds=3))
    early = ContainerEvent(at(0), "n1", "Pod-p", "c", "id", "stopped")
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    log.write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING, metadata=DELETING)
    assert [text[:3] for text in log.broken(at_rest=False, containers=[early])] == ["I06"]
    assert log.broken(at_rest=False, containers=[early], tolerance=tolerance) == []

    log = History()
    for holder, renewed in (("a", 3), ("b", 4)):
        spec = {"holderIdentity": holder, "renewTime": at(renewed), "leaseDurationSeconds": 1}
        log.write(LEASES, "l", by=SCHEDULER, metadata={"namespace": "kube-system"}, spec=spec)
    assert [text[:3] for text in log.broken()] == ["I19"]
    assert log.broken(tolerance=tolerance) == []


def test_a_workload_replaces_no_running_pod_unless_it_changes():
    """I06 tells of a pod that the controller of an unchanged stateful set deletes."""
    for generation, broken in ((1, 1), (2, 0)):
        log = History().write("nodes", "n1")
        log.write("statefulsets.apps", "s", metadata={"generation": 1}, spec={"replicas": 1})
        pod = {"spec": {"nodeName": "n1"}, "status": RUNNING}
        log.write("pods", "s-0", metadata=owned_by("StatefulSet", "s"), **pod)
        log.write("statefulsets.apps", "s", metadata={"generation": generation}, spec={"replicas": 1})
        user = "system:serviceaccount:kube-system:statefulset-controller"
        metadata = {**owned_by("StatefulSet", "s"), **DELETING}
        log.write("pods", "s-0", metadata=metadata, **pod, by=MANAGER, user=user)
        assert len(log.broken()) == broken


def test_a_replica_set_has_not_more_pods_than_asked_for():
    """I07 tells of a pod beyond the replicas, and waits for a controller that has not seen fewer yet."""
    for seen, broken in ((2, 1), (1, 0)):
        log = History().write("replicasets.apps", "r", metadata={"generation": 1}, spec={"replicas": 2})
        status = {"observedGeneration": seen}
        log.write("replicasets.apps", "r", metadata={"generation": 2}, spec={"replicas": 1}, status=status)
        for name in "ab":
            log.write("pods", name, metadata=owned_by("ReplicaSet", "r"))
        assert len(log.broken()) == broken


def test_it_is_told_for_how_long_a_pod_was_there_that_another_one_repeats():
    """I07 tells when the last pod was made that was wanted: expectations may have run out meanwhile."""
    for second, told in ((3, "0 s before"), (400, "397 s before")):
        log = History().write("replicasets.apps", "r", spec={"replicas": 1})
        for name, made in (("a", 3), ("b", second)):
            log.now = made - 1
            log.write("pods", name, metadata={**owned_by("ReplicaSet", "r"), "creationTimestamp": at(made)})
        assert [text.rpartition(" was made ")[2] for text in log.broken(at_rest=False)] == [told]


def test_a_job_releases_a_pod_when_its_status_has_it():
    """I08 tells of a pod that succeeded and loses its Job's finalizer before the status has it as uncounted,
    unless the Job has ended."""
    held = {**owned_by("Job", "j"), "finalizers": ["batch.kubernetes.io/job-tracking"]}
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    for status, broken in (({}, 1), ({"uncountedTerminatedPods": {"succeeded": ["Pod-p"]}}, 0), (done, 0)):
        log = History().write("pods", "p", metadata=held, status={"phase": "Succeeded"})
        log.write("jobs.batch", "j", status=status)
        log.write("pods", "p", metadata=owned_by("Job", "j"), status={"phase": "Succeeded"}, by=MANAGER)
        found = log.broken(at_rest=False)
        assert [text.partition(", ")[2] for text in found] == [
            "whose status does not have it as uncounted"
        ] * broken


def test_a_finished_job_gets_no_pod():
    """I07 tells of a pod that is made for a job that is complete."""
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    log = History().write("jobs.batch", "j", spec={"parallelism": 1}, status=done)
    log.write("pods", "p", metadata=owned_by("Job", "j"), by=MANAGER)
    assert [text[:24] for text in log.broken()] == ["I07: Pod default/p (writ"]


def test_a_daemon_has_one_pod_on_a_node():
    """I07 tells of a second pod of a daemon set for a node."""
    log = History().write("daemonsets.apps", "d", spec={})
    for name in "ab":
        log.write("pods", name, metadata=owned_by("DaemonSet", "d"), spec={"nodeName": "n1"})
    assert [text.partition(", ")[0].rpartition(" is ")[2] for text in log.broken()] == [
        "pod 2 of DaemonSet default/d for node n1"
    ]


def test_workloads_have_the_pods_that_they_ask_for():
    """I07 and I08 tell at rest of a replica set with too few pods and a wrong count."""
    log = History(*ALL).write("replicasets.apps", "r", spec={"replicas": 2}, status={"replicas": 2})
    log.write("pods", "a", metadata=owned_by("ReplicaSet", "r"), spec={"nodeName": "n1"})
    assert log.broken() == [
        "I07: ReplicaSet default/r has 1 pods, and asks for 2",
        "I08: ReplicaSet default/r counts 2 pods, and has 1",
    ]


def test_a_job_counts_each_pod_once():
    """I08 tells of a job that counts more pods than succeeded."""
    log = History().write("pods", "p", metadata=owned_by("Job", "j"), status={"phase": "Succeeded"})
    log.write("jobs.batch", "j", status={"succeeded": 1})
    assert log.broken() == []
    log.write("jobs.batch", "j", status={"succeeded": 2})
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "counts 2 pods that succeeded, of 1",
        "counts 2 finished pods, of 1 that there were",
    ]


def test_a_quota_says_what_is_used():
    """I09 recomputes at rest what a quota says is used."""
    quota = {"spec": {"hard": {"pods": "5"}}, "status": {"hard": {"pods": "5"}, "used": {"pods": "2"}}}
    log = History(*ALL).write("resourcequotas", "q", **quota)
    log.write("pods", "p", spec={"containers": [{"name": "c"}], "schedulingGates": [{"name": "g"}]})
    assert log.broken() == ["I09: ResourceQuota default/q says that 2 of pods is used; it is 1"]


def test_admission_charges_no_more_than_a_quota_allows():
    """I09 tells of a charge of the API server beyond the quota's limit."""
    log = History().write("resourcequotas", "q", spec={"hard": {"pods": "1"}}, status={"used": {"pods": "1"}})
    status = {"used": {"pods": "2"}}
    log.write("resourcequotas", "q", spec={"hard": {"pods": "1"}}, status=status, by="kube-apiserver")
    assert [text.partition(") ")[2] for text in log.broken()] == ["admits 2 of pods, and allows 1"]


def test_every_stored_object_can_be_read_by_the_servers_that_run():
    """I10 tells of an object in a version that the running API server does not know."""
    log = History(*ALL, version="1.33").write(CLAIMS, "a", api_version="resource.k8s.io/v1", spec={})
    message = 'no kind "ResourceClaim" is registered for version "resource.k8s.io/v1"'
    assert log.broken() == [f"I10: an API server 1.33 cannot read ResourceClaim default/a: {message}"]


def test_components_start_and_stay():
    """I11 tells of a component that does not start, I14 of one that ended by itself."""
    failures = [
        ComponentFailure("kubelet/n1", "checkpoint is corrupted", at_start=True),
        ComponentFailure("scheduler", "exit status 1", at_start=False),
    ]
    assert History().broken(failures=failures) == [
        "I11: kubelet/n1 does not start: checkpoint is corrupted",
        "I14: scheduler ended by itself: exit status 1",
    ]


def test_an_older_server_loses_no_field():
    """I12 tells of a field that the server that stored an update does not know, and that is gone."""
    log = History().write("pods", "p", spec={"schedulingGates": [{"name": "g"}]})
    log.write("pods", "p", spec={}, server="1.25+kep3063")
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "lost spec.schedulingGates, which API server 1.25+kep3063 does not know"
    ]
    log = History().write("pods", "p", spec={"schedulingGates": [{"name": "g"}]}).write("pods", "p", spec={})
    assert log.broken() == []


def test_what_was_seen_is_not_unseen():
    """I13 tells of an observed generation that goes back."""
    log = History()
    for generation in (2, 1):
        log.write("replicasets.apps", "r", spec={"replicas": 0}, status={"observedGeneration": generation})
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "takes status.observedGeneration back from 2 to 1"
    ]


def test_controllers_come_to_rest():
    """I15 tells of an object that controllers write to and fro, and not of one that somebody changes."""
    for by, broken in ((MANAGER, 1), ("kubectl 1.36", 0)):
        log = History()
        for number in range(12):
            log.write("configmaps", "c", data={"k": str(number % 2)}, by=by)
        assert len([text for text in log.broken() if text.startswith("I15")]) >= broken
        assert bool(log.broken()) == bool(broken)


def test_what_tallies_others_may_return_as_they_come_and_go():
    """I15 tells nothing of a quota that goes up and down with the pods that it counts."""
    log = History()
    for number in range(12):
        log.write("pods", f"p{number}", by=MANAGER)
        log.write("resourcequotas", "q", status={"used": {"pods": "1"}}, by=MANAGER)
        log.delete("pods", f"p{number}", by=MANAGER)
        log.write("resourcequotas", "q", status={"used": {"pods": "0"}}, by=MANAGER)
    assert [text for text in log.broken() if text.startswith("I15")] == []


def test_the_collector_spares_what_has_an_owner():
    """I16 tells of an object that the garbage collector deletes although its owner is there."""
    log = History().write("replicasets.apps", "r", spec={"replicas": 1})
    log.write("pods", "p", metadata=owned_by("ReplicaSet", "r"))
    log.delete("pods", "p", user=COLLECTOR, metadata=owned_by("ReplicaSet", "r"))
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "was collected although its owner ReplicaSet default/r is there"
    ]
    log = History().write("pods", "p", metadata=owned_by("ReplicaSet", "r"))
    assert log.delete("pods", "p", user=COLLECTOR).broken() == []


def test_no_component_is_refused():
    """I17 tells of each thing that a component was refused."""
    refused = ['User "a" cannot list resource "pods"', 'User "a" cannot get path "/x"']
    assert History().broken(refusals={"scheduler": refused, "kubelet/n1": []}) == [
        f"I17: scheduler was refused: {each}" for each in refused
    ]


def test_a_former_pods_claim_is_not_used_for_the_next_one():
    """I18 tells of a pod that takes a claim made for a pod of the same name before it."""
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "former", "controller": True}]}
    log = History().write(CLAIMS, "p-gpu", metadata=owner)
    log.write("pods", "p", status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]})
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "uses ResourceClaim default/p-gpu, which was made for another pod"
    ]


def lease(holder, second):
    return {"holderIdentity": holder, "renewTime": at(second), "leaseDurationSeconds": 15}


@pytest.mark.parametrize(
    ("held", "by", "broken"),
    [
        (lease("a", 1), SCHEDULER, 1),
        (lease("a", 1), "kubectl 1.36", 0),
        (lease("a", -30), SCHEDULER, 0),
        (lease("", 1), SCHEDULER, 0),
    ],
)
def test_a_lease_passes_on_when_it_has_ended(held, by, broken):
    """I19 tells of a lease that another component takes before it ended, unless it was given back."""
    log = History().write(LEASES, "kube-scheduler", namespace="kube-system", spec=held)
    log.write(LEASES, "kube-scheduler", by=by, namespace="kube-system", spec=lease("b", 2))
    assert len(log.broken()) == broken


@pytest.mark.parametrize(
    ("resource", "one", "other", "message"),
    [
        (
            "services",
            {"spec": {"clusterIP": "10.0.0.1"}},
            {"spec": {"clusterIP": "10.0.0.1"}},
            "got 10.0.0.1, which",
        ),
        (
            "pods",
            {"status": {"podIPs": [{"ip": "10.1.0.1"}]}},
            {"status": {"podIPs": [{"ip": "10.1.0.1"}]}},
            "got 10.1.0.1, which",
        ),
        (
            "nodes",
            {"spec": {"podCIDRs": ["10.2.0.0/24"]}},
            {"spec": {"podCIDRs": ["10.2.0.0/23"]}},
            "got CIDR 10.2.0.0/23, which overlaps",
        ),
        ("services", {"spec": {"clusterIP": "10.0.0.1"}}, {"spec": {"clusterIP": "10.0.0.2"}}, ""),
    ],
)
def test_no_address_is_held_twice(resource, one, other, message):
    """I20 tells of addresses, node ports and CIDRs that two objects hold."""
    found = History().write(resource, "a", **one).write(resource, "b", **other).broken()
    assert [message in text for text in found] == ([True] if message else [])


def test_preemption_is_for_a_pod_of_higher_priority():
    """I21 tells of a victim for which no pod of a higher priority waits."""
    victim = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    }
    for priority, broken in ((1, 0), (0, 1)):
        log = History().write("pods", "high", spec={"priority": priority})
        log.write("pods", "low", spec={"nodeName": "n1", "priority": 0})
        log.write("pods", "low", spec={"nodeName": "n1", "priority": 0}, status=victim, by=SCHEDULER)
        assert len(log.broken()) == broken


def test_the_preemptor_gets_the_room():
    """I21 tells of a nominated pod that is not bound although its victims are gone."""
    victim = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    }
    log = History(*ALL).write("pods", "high", spec={"priority": 1}, status={"nominatedNodeName": "n1"})
    log.write("pods", "low", spec={"nodeName": "n1"}, status=victim, by=SCHEDULER)
    log.delete("pods", "low", spec={"nodeName": "n1"}, status=victim)
    assert [text[:5] for text in log.broken()] == ["I21: "]


def test_the_scheduler_respects_taints():
    """I22 tells of a pod that is bound to a node whose taint it does not tolerate; caches may lag."""
    taint = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    log = bind(History(), spec=taint)
    assert [text.partition(", which ")[2] for text in log.broken()] == [
        "has the taint gpu:NoSchedule, which it does not tolerate"
    ]
    late = History().write("nodes", "n1", spec={})
    assert bind(late, spec=taint).broken() == []


def test_a_taint_evicts():
    """I22 tells at rest of a pod on a node with a NoExecute taint that it does not tolerate."""
    log = History(*ALL).write("pods", "p", spec={"nodeName": "n1"})
    log.write("nodes", "n1", spec={"taints": [{"key": "out", "effect": "NoExecute"}]})
    assert log.broken() == [
        "I22: Pod default/p runs on Node n1 and does not tolerate its taint out:NoExecute"
    ]
