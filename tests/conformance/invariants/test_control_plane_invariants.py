"""I10 to I22 and I24, of servers and components: on logs that break them, and on the nearest that do not."""

import re

import pytest
from history import ALL, CLAIMS, COLLECTOR, LEASES, MANAGER, SCHEDULER, History, at, bind, owned_by

from kubeskew.conformance.invariants.invariant import ComponentFailure


def test_every_stored_object_can_be_read_by_the_servers_that_run():
    """I10 reports an object in a version that the running API server does not know."""
    log = History(*ALL, version="1.33").write(CLAIMS, "a", api_version="resource.k8s.io/v1", spec={})
    message = 'no kind "ResourceClaim" is registered for version "resource.k8s.io/v1"'
    assert log.broken() == [f"I10: an API server 1.33 cannot read ResourceClaim default/a: {message}"]


def test_components_start_and_stay():
    """I11 reports a component that does not start, I14 one that ended by itself."""
    failures = [
        ComponentFailure("kubelet/n1", "checkpoint is corrupted", at_start=True),
        ComponentFailure("scheduler", "exit status 1", at_start=False),
    ]
    assert History().broken(failures=failures) == [
        "I11: kubelet/n1 does not start: checkpoint is corrupted",
        "I14: scheduler ended by itself: exit status 1",
    ]


def test_an_older_server_loses_no_field():
    """I12 reports a field that the server that stored an update does not know, and that is gone."""
    log = History().write("pods", "p", spec={"schedulingGates": [{"name": "g"}]})
    log.write("pods", "p", spec={}, server="1.25+kep3063")
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "lost spec.schedulingGates, which API server 1.25+kep3063 does not know"
    ]
    log = History().write("pods", "p", spec={"schedulingGates": [{"name": "g"}]}).write("pods", "p", spec={})
    assert log.broken() == []


def test_what_was_seen_is_not_unseen():
    """I13 reports an observed generation that goes back."""
    log = History()
    for generation in (2, 1):
        log.write("replicasets.apps", "r", spec={"replicas": 0}, status={"observedGeneration": generation})
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "takes status.observedGeneration back from 2 to 1"
    ]


def test_controllers_come_to_rest():
    """I15 reports an object that controllers write to and fro, and not one that somebody changes."""
    for by, broken in ((MANAGER, 1), ("kubectl 1.36", 0)):
        log = History()
        for number in range(12):
            log.write("configmaps", "c", data={"k": str(number % 2)}, by=by)
        assert len([text for text in log.broken() if text.startswith("I15")]) >= broken
        assert bool(log.broken()) == bool(broken)


def test_what_tallies_others_may_return_as_they_come_and_go():
    """I15 reports nothing of a quota that goes up and down with the pods that it counts."""
    log = History()
    for number in range(12):
        log.write("pods", f"p{number}", by=MANAGER)
        log.write("resourcequotas", "q", status={"used": {"pods": "1"}}, by=MANAGER)
        log.delete("pods", f"p{number}", by=MANAGER)
        log.write("resourcequotas", "q", status={"used": {"pods": "0"}}, by=MANAGER)
    assert [text for text in log.broken() if text.startswith("I15")] == []


def test_the_collector_spares_what_has_an_owner():
    """I16 reports an object that the garbage collector deletes although its owner is there."""
    log = History().write("replicasets.apps", "r", spec={"replicas": 1})
    log.write("pods", "p", metadata=owned_by("ReplicaSet", "r"))
    log.delete("pods", "p", user=COLLECTOR, metadata=owned_by("ReplicaSet", "r"))
    assert [text.partition(") ")[2] for text in log.broken()] == [
        "was collected although its owner ReplicaSet default/r is there"
    ]
    log = History().write("pods", "p", metadata=owned_by("ReplicaSet", "r"))
    assert log.delete("pods", "p", user=COLLECTOR).broken() == []


SETS = "system:serviceaccount:kube-system:statefulset-controller"


def history_of_a_far_pod(owner="web", namespace="elsewhere"):
    """Returns the log of a stateful set and of a pod, in any namespace, that names it."""
    log = History().write("statefulsets.apps", "web", spec={"replicas": 1})
    metadata = owned_by("StatefulSet", owner) if owner else {}
    return log.write("pods", "web-0", namespace=namespace, metadata=metadata)


def judged(log, metadata=None):
    """Returns what I24 says of the pod's change, or deletion without `metadata`, by the sets' controller."""
    if metadata is None:
        log.delete("pods", "web-0", user=SETS, **pod_of(log))
    else:
        log.write("pods", "web-0", by=MANAGER, user=SETS, **{**pod_of(log), "metadata": metadata})
    return [text.partition(") ")[2] for text in log.broken(at_rest=False) if text.startswith("I24")]


def pod_of(log):
    metadata = log.log[1].value["metadata"]
    return {"namespace": metadata["namespace"], "metadata": metadata}


def test_controllers_keep_to_their_namespace():
    """I24 reports a controller that adopts, disowns or deletes a pod for an owner in another namespace, and
    of one that deletes what nobody controls; it may be behind what was disowned meanwhile."""
    far = "StatefulSet default/web, which is in another namespace"
    owned = owned_by("StatefulSet", "web")
    assert judged(history_of_a_far_pod("")) == [
        "was deleted by the statefulset-controller though nobody controlled it"
    ]
    assert judged(history_of_a_far_pod()) == [f"was deleted by the statefulset-controller for {far}"]
    assert judged(history_of_a_far_pod(""), owned) == [f"was adopted for {far}"]
    assert judged(history_of_a_far_pod(), {"labels": {}}) == [f"was disowned for {far}"]
    assert judged(history_of_a_far_pod(), owned) == []
    assert judged(history_of_a_far_pod(namespace="default")) == []
    assert judged(history_of_a_far_pod("", namespace="default"), owned) == []
    disowned = history_of_a_far_pod(namespace="default")
    disowned.write("pods", "web-0", metadata={"labels": {}})
    assert judged(disowned) == []
    collected = history_of_a_far_pod().delete(
        "pods", "web-0", user=COLLECTOR, **pod_of(history_of_a_far_pod())
    )
    assert collected.broken(at_rest=False) == []


def test_no_component_is_refused():
    """I17 reports each thing that a component was refused."""
    refused = ['User "a" cannot list resource "pods"', 'User "a" cannot get path "/x"']
    assert History().broken(refusals={"scheduler": refused, "kubelet/n1": []}) == [
        f"I17: scheduler was refused: {each}" for each in refused
    ]


def test_a_former_pods_claim_is_not_used_for_the_next_one():
    """I18 reports a pod that takes a claim made for a pod of the same name before it."""
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
    """I19 reports a lease that another component takes before it ended, unless it was given back."""
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
    """I20 reports addresses, node ports and CIDRs that two objects hold."""
    found = History().write(resource, "a", **one).write(resource, "b", **other).broken()
    assert [message in text for text in found] == ([True] if message else [])


def test_preemption_is_for_a_pod_of_higher_priority():
    """I21 reports a victim for which no pod of a higher priority waits."""
    victim = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    }
    for priority, broken in ((1, 0), (0, 1)):
        log = History().write("pods", "high", spec={"priority": priority})
        log.write("pods", "low", spec={"nodeName": "n1", "priority": 0})
        log.write("pods", "low", spec={"nodeName": "n1", "priority": 0}, status=victim, by=SCHEDULER)
        assert len(log.broken()) == broken


def test_a_pod_that_waited_and_went_is_reported():
    """I21 says how long ago the pod of higher priority went that was on no node."""
    victim = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    }
    log = History().write("pods", "high", spec={"priority": 1}).delete("pods", "high", spec={"priority": 1})
    for name, spec in (("placed", {"priority": 2, "nodeName": "n2"}), ("low", {"priority": -1})):
        log.write("pods", name, spec=spec).delete("pods", name, spec=spec)
    log.write("pods", "victim", spec={"nodeName": "n1", "priority": 0})
    log.write("pods", "victim", spec={"nodeName": "n1", "priority": 0}, status=victim, by=SCHEDULER)
    [found] = log.broken()
    assert re.search(
        r"no pod of a higher priority waits; Pod \S+/high, which did, went \d+\.\d s before$", found
    )


def test_the_preemptor_gets_the_room():
    """I21 reports a nominated pod that is not bound although its victims are gone."""
    victim = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    }
    log = History(*ALL).write("pods", "high", spec={"priority": 1}, status={"nominatedNodeName": "n1"})
    log.write("pods", "low", spec={"nodeName": "n1"}, status=victim, by=SCHEDULER)
    log.delete("pods", "low", spec={"nodeName": "n1"}, status=victim)
    assert [text[:5] for text in log.broken()] == ["I21: "]


def test_the_scheduler_respects_taints():
    """I22 reports a pod that is bound to a node whose taint it does not tolerate; caches may lag."""
    taint = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    log = bind(History(), spec=taint)
    assert [text.partition(", which ")[2] for text in log.broken()] == [
        "has the taint gpu:NoSchedule, which it does not tolerate"
    ]
    late = History().write("nodes", "n1", spec={})
    assert bind(late, spec=taint).broken() == []


def test_a_taint_evicts():
    """I22 reports at rest a pod on a node with a NoExecute taint that it does not tolerate."""
    log = History(*ALL).write("pods", "p", spec={"nodeName": "n1"})
    log.write("nodes", "n1", spec={"taints": [{"key": "out", "effect": "NoExecute"}]})
    assert log.broken() == [
        "I22: Pod default/p runs on Node n1 and does not tolerate its taint out:NoExecute"
    ]
