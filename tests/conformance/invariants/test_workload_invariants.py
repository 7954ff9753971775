"""I04 to I09, of pods, workloads and quotas: on logs that break them, and on the nearest that do not."""

from datetime import timedelta

import pytest
from history import (
    ALL,
    CLAIMS,
    DELETING,
    LEASES,
    MANAGER,
    RUNNING,
    SCHEDULER,
    History,
    allocation,
    at,
    bind,
    call,
    owned_by,
)

from kubeskew.conformance.evidence.nodes import ContainerEvent
from kubeskew.conformance.invariants.invariant import Tolerance


def test_a_pod_that_fits_a_node_is_bound():
    """I04 reports a pending pod for which the scheduler's filters find a node."""
    message = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    log = History(*ALL).write("pods", "p", spec={}, status={"conditions": [message]})
    assert log.broken(feasible={"Pod-p": "n1"}) == [
        "I04: Pod default/p fits node n1 and is not bound: 0/1 nodes are available"
    ]
    assert log.broken(feasible={"Pod-p": "n1"}, unready="informers: not ready")[0].endswith(
        "is not bound: 0/1 nodes are available; the scheduler is not ready: informers: not ready"
    )
    assert log.broken() == []


def test_what_was_bound_is_admitted():
    """I05 reports a bound pod that its kubelet refuses, unless the node changed in between."""
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}
    log = bind(History())
    log.write("pods", "p", spec={"nodeName": "n1"}, status=refused, by="kubelet/n1 1.36")
    assert [text[:45] for text in log.broken()] == ["I05: Pod default/p (written by kubelet/n1 1.3"]
    log = bind(History()).write("nodes", "n1", status={"allocatable": {"cpu": "1"}})
    log.write("pods", "p", spec={"nodeName": "n1"}, status=refused, by="kubelet/n1 1.36")
    assert log.broken() == []


def test_a_pod_that_loses_its_claim_is_reported_with_the_former_one_of_its_name():
    """I06 reports a reservation that is taken from a pod, and when the former pod of its name went."""
    log = History(*ALL).write("pods", "p", metadata={"uid": "former"})
    log.delete("pods", "p", metadata={"uid": "former"})
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.write("pods", "p", spec={"nodeName": "n1"})
    log.write(CLAIMS, "a", by=MANAGER, status={})
    taken = f"I06: ResourceClaim default/a (written by {MANAGER} at revision 9) is not reserved any more"
    assert log.broken() == [
        f"{taken} for Pod default/p, which uses it; a former Pod of its name went 3.0 s before"
    ]


def test_a_pod_that_ran_is_refused_once():
    """I06 alone reports a pod that had run and is refused; how its containers ended belongs to it."""
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


@pytest.mark.parametrize("ended", ["while it runs", "before the event", "before the restart"])
def test_a_pod_that_ran_is_refused_and_has_the_phase_of_its_containers(ended):
    """I06 reports a pod that ran when its kubelet started and refused it, by the event that says so."""
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    log = bind(History(*ALL)).write("pods", "p", spec=spec, status=RUNNING)
    done = {"spec": spec, "status": {"phase": "Succeeded"}, "by": "kubelet/n1 1.36"}
    if ended == "before the restart":
        log.write("pods", "p", **done)
    log.component("kubelet/n1")
    if ended == "before the event":
        log.write("pods", "p", **done)
    about = {"kind": "Pod", "name": "p", "uid": "Pod-p"}
    log.write(
        *("events", "p.1"),
        by="kubelet/n1 1.36",
        involvedObject=about,
        source={"component": "kubelet"},
        reason="OutOfcpu",
        message="no cpu",
    )
    stopped = ContainerEvent(at(log.now), "n1", "Pod-p", "c", "id", "stopped")
    found = [text for text in log.broken(containers=[stopped]) if text.startswith("I06")]
    assert ["refused by its kubelet: OutOfcpu: no cpu" in text for text in found] == (
        [True] if ended != "before the restart" else []
    )


def test_a_running_container_is_not_stopped_by_itself():
    """I06 reports a container that a kubelet stopped, unless its pod is deleted."""
    stopped = ContainerEvent(at(5), "n1", "Pod-p", "c", "id", "stopped")
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    assert [text[:50] for text in log.broken(containers=[stopped])] == [
        "I06: container c of Pod default/p was stopped on n"
    ]
    log.write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING, metadata=DELETING)
    assert [text for text in log.broken(containers=[stopped]) if text.startswith("I06")] == []


@pytest.mark.parametrize(("deadline", "wrong"), [(None, True), (4, False), (9, True)])
def test_a_pod_is_stopped_at_its_deadline(deadline, wrong):
    """I06 reports containers that stop before the pod's own deadline, and none that stop at it."""
    stopped = ContainerEvent(at(5), "n1", "Pod-p", "c", "id", "stopped")
    spec = {"containers": [{"name": "c"}]}
    began = {**RUNNING, "startTime": at(0)}
    log = History().write("pods", "p", spec=spec, status=began)
    log.write("pods", "p", spec={**spec, "activeDeadlineSeconds": deadline}, status=began)
    for _ in range(8):  # the kubelet reports it only when all have ended
        log.write("configmaps", "time-passes")
    log.write("pods", "p", spec=spec, status={"phase": "Failed", "reason": "DeadlineExceeded"})
    assert any(text.startswith("I06") for text in log.broken(containers=[stopped])) == wrong


def run(second, what="started"):
    return ContainerEvent(at(second), "n1", "Pod-p", "c", "id", what)


@pytest.mark.parametrize(("skew", "wrong"), [(0, True), (2, True), (4, False)])
@pytest.mark.parametrize(
    "calls",
    [
        [call("a", second=1), call("a", "NodeUnprepareResources", 2)],
        [call("a", second=1), call("a", "NodeUnprepareResources", 8)],
        [call("a", second=2, uid="former")],
    ],
)
def test_clocks_that_differ_say_nothing_of_when_a_claim_was_prepared(calls, skew, wrong):
    """I06 reports a claim that was not prepared only if that is more than clocks may differ away."""
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    found = log.broken(
        at_rest=False,
        calls=calls,
        containers=[run(5)],
        tolerance=Tolerance(timedelta(seconds=skew)),
    )
    assert any(text.startswith("I06: container c") for text in found) == wrong


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
    """I06 reports a container that began, or went on, while a claim of its pod was not prepared."""
    log = History().write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING)
    log.write(CLAIMS, "a", status=allocation("gpu-0", reserved=["p"]))
    log.write("pods", "p", spec={"containers": [{"name": "c"}]}, status=RUNNING, metadata=DELETING)
    found = log.broken(at_rest=False, calls=calls, containers=[run(5), run(8, "stopped")])
    breaches = [text for text in found if text.startswith("I06")]
    begin = f"I06: container c of Pod default/p, on node n1 since {at(5)}, "
    assert [text.removeprefix(begin).partition(" ResourceClaim")[0] for text in breaches] == [wrong][
        : bool(wrong)
    ]


def test_a_pod_that_has_ended_stays_so():
    """I06 reports a pod that had succeeded and is failed later."""
    log = History().write("pods", "p", status={"phase": "Succeeded"})
    log.write("pods", "p", status={"phase": "Failed"}, by="kubelet/n1 1.36")
    assert [text[:3] for text in log.broken()] == ["I06"]


def test_nobody_takes_a_claim_from_a_pod_that_uses_it():
    """I06 reports a component that ends a reservation of a pod with a node, unless the pod has ended."""
    for phase, broken in (("Running", ["I06"]), ("Succeeded", [])):
        log = History().write("pods", "p", spec={"nodeName": "n1"}, status={"phase": phase})
        log.write(CLAIMS, "c", status=allocation("d", reserved=["p"]))
        log.write(CLAIMS, "c", status=allocation("d"), by="kube-scheduler 1.36")
        assert [text[:3] for text in log.broken(at_rest=False)] == broken


def test_one_claim_is_made_for_each_that_a_pod_names():
    """I08 reports a second claim of the same name in the pod's spec."""
    for entry, broken in (("a", ["I08"]), ("b", [])):
        log = History().write("pods", "p")
        for name, each in (("c1", "a"), ("c2", entry)):
            annotations = {"resource.kubernetes.io/pod-claim-name": each}
            log.write(CLAIMS, name, metadata={**owned_by("Pod", "p"), "annotations": annotations}, by=MANAGER)
        assert [text[:3] for text in log.broken(at_rest=False)] == broken


def test_a_cron_job_knows_its_jobs():
    """I08 reports an active job that its cron job does not count."""
    for active, broken in (([], ["I08"]), ([{"name": "j", "uid": "Job-j"}], [])):
        log = History("controller-manager").write("cronjobs.batch", "t", status={"active": active})
        log.write("jobs.batch", "j", metadata=owned_by("CronJob", "t"), by=MANAGER)
        assert [text[:3] for text in log.broken()] == broken


def test_times_of_machines_whose_clocks_differ_show_no_order():
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
    """I06 reports a pod that the controller of an unchanged stateful set deletes."""
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
    """I07 reports a pod beyond the replicas, and waits for a controller that has not seen fewer yet."""
    for seen, broken in ((2, 1), (1, 0)):
        log = History().write("replicasets.apps", "r", metadata={"generation": 1}, spec={"replicas": 2})
        status = {"observedGeneration": seen}
        log.write("replicasets.apps", "r", metadata={"generation": 2}, spec={"replicas": 1}, status=status)
        for name in "ab":
            log.write("pods", name, metadata=owned_by("ReplicaSet", "r"))
        assert len(log.broken()) == broken


def test_it_is_reported_for_how_long_a_pod_was_there_that_another_one_repeats():
    """I07 says when the last pod was made that was wanted: expectations may have run out meanwhile."""
    for second, age in ((3, "0 s before"), (400, "397 s before")):
        log = History().write("replicasets.apps", "r", spec={"replicas": 1})
        for name, made in (("a", 3), ("b", second)):
            log.now = made - 1
            log.write("pods", name, metadata={**owned_by("ReplicaSet", "r"), "creationTimestamp": at(made)})
        assert [text.rpartition(" was made ")[2] for text in log.broken(at_rest=False)] == [age]


def test_a_job_releases_a_pod_when_its_status_has_it():
    """I08 reports a pod that succeeded and loses its Job's finalizer before the status has it as uncounted,
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
    """I07 reports a pod that is made for a job that is complete."""
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    log = History().write("jobs.batch", "j", spec={"parallelism": 1}, status=done)
    log.write("pods", "p", metadata=owned_by("Job", "j"), by=MANAGER)
    assert [text[:24] for text in log.broken()] == ["I07: Pod default/p (writ"]


def test_a_daemon_has_one_pod_on_a_node():
    """I07 reports a second pod of a daemon set for a node."""
    log = History().write("daemonsets.apps", "d", spec={})
    for name in "ab":
        log.write("pods", name, metadata=owned_by("DaemonSet", "d"), spec={"nodeName": "n1"})
    assert [text.partition(", ")[0].rpartition(" is ")[2] for text in log.broken()] == [
        "pod 2 of DaemonSet default/d for node n1"
    ]


def test_workloads_have_the_pods_that_they_ask_for():
    """I07 and I08 report at rest a replica set with too few pods and a wrong count."""
    log = History(*ALL).write("replicasets.apps", "r", spec={"replicas": 2}, status={"replicas": 2})
    log.write("pods", "a", metadata=owned_by("ReplicaSet", "r"), spec={"nodeName": "n1"})
    assert log.broken() == [
        "I07: ReplicaSet default/r has 1 pods, and asks for 2",
        "I08: ReplicaSet default/r counts 2 pods, and has 1",
    ]


def test_a_job_counts_each_pod_once():
    """I08 reports a job that counts more pods than succeeded."""
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


def test_the_last_charge_of_a_wrong_quota_is_reported():
    """I09 names the last charge, and what was created behind it, until the controller counts again."""
    limits = {"spec": {"hard": {"pods": "5"}}}

    def used(log, by, count):
        return log.write("resourcequotas", "q", **limits, status={"used": {"pods": count}}, by=by)

    log = used(used(History(*ALL), MANAGER, "0"), "kube-apiserver 1.36", "2")
    gated = {"spec": {"containers": [{"name": "c"}], "schedulingGates": [{"name": "g"}]}}
    log.write("pods", "p", **gated)
    log.write("configmaps", "later")

    wrong = "I09: ResourceQuota default/q says that 2 of pods is used; it is 1"
    charged = "kube-apiserver 1.36 charged it last, at revision 6, before Pod default/p was created"
    assert log.broken() == [f"{wrong}: {charged}"]
    assert used(log, MANAGER, "3").broken() == [
        "I09: ResourceQuota default/q says that 3 of pods is used; it is 1"
    ]


def test_a_quota_counts_devices_by_class_and_by_extended_resource():
    """I09 measures claims by what classes and pods are there, as the quota controller does."""
    names = {"requests.example.com/gpu": "5", "gpu.deviceclass.resource.k8s.io/devices": "5"}
    claim = {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                    }
                ]
            }
        }
    }

    def quota(used):
        log = History(*ALL).write(
            "deviceclasses.resource.k8s.io", "gpu", spec={"extendedResourceName": "example.com/gpu"}
        )
        log.write("resourcequotas", "q", spec={"hard": names}, status={"hard": names, "used": used})
        return log.write(CLAIMS, "c", **claim)

    right = dict.fromkeys(names, "2")
    assert quota(right).broken() == []
    assert quota({**right, "requests.example.com/gpu": "1"}).broken() == [
        "I09: ResourceQuota default/q says that 1 of requests.example.com/gpu is used; it is 2"
    ]


def test_admission_charges_no_more_than_a_quota_allows():
    """I09 reports a charge of the API server beyond the quota's limit."""
    log = History().write("resourcequotas", "q", spec={"hard": {"pods": "1"}}, status={"used": {"pods": "1"}})
    status = {"used": {"pods": "2"}}
    log.write("resourcequotas", "q", spec={"hard": {"pods": "1"}}, status=status, by="kube-apiserver")
    assert [text.partition(") ")[2] for text in log.broken()] == ["admits 2 of pods, and allows 1"]
