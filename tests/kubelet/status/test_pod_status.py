"""Small pure parts of a pod's status: phase, restarts, back-off, patches."""

from datetime import UTC, datetime, timedelta

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pod_spec import qos_class
from kubeskew.kubelet.pods.services import CrashBackoff
from kubeskew.kubelet.status.pod_status import pod_conditions, pod_phase, rejected_status, should_restart
from kubeskew.kubelet.status.status_manager import status_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = {"state": {"running": {}}, "lastState": {}, "started": True}
WAITING = {"state": {"waiting": {}}, "lastState": {}, "started": False}
DONE = {"state": {"terminated": {"exitCode": 0}}, "lastState": {}, "started": False}
FAILED = {"state": {"terminated": {"exitCode": 1}}, "lastState": {}, "started": False}
CRASHING = {**WAITING, "lastState": FAILED["state"]}


@pytest.mark.parametrize(
    ("policy", "inits", "regular", "ended", "phase"),
    [
        ("Always", [], [RUNNING], False, "Running"),
        ("Always", [], [RUNNING, WAITING], False, "Pending"),
        ("Always", [], [CRASHING], False, "Running"),
        ("Always", [], [DONE], False, "Running"),
        ("Never", [], [DONE], False, "Succeeded"),
        ("Never", [], [DONE, FAILED], False, "Failed"),
        ("Never", [], [RUNNING, FAILED], False, "Running"),
        ("OnFailure", [], [DONE], False, "Succeeded"),
        ("OnFailure", [], [FAILED], False, "Running"),
        ("Always", [], [DONE], True, "Succeeded"),
        ("Always", [], [FAILED, DONE], True, "Failed"),
        ("Always", [RUNNING], [WAITING], False, "Pending"),
        ("Never", [FAILED], [WAITING], False, "Failed"),
        ("Always", [CRASHING], [WAITING], False, "Pending"),
        ("Always", [DONE], [RUNNING], False, "Running"),
    ],
)
def test_the_phase_sums_up_the_containers(policy, inits, regular, ended, phase):
    """Upstream's getPhase, as a table."""
    spec = {
        "restartPolicy": policy,
        "initContainers": [{"name": str(i)} for i in range(len(inits))],
        "containers": [{"name": f"c{i}"} for i in range(len(regular))],
    }

    assert pod_phase({"spec": spec}, inits, regular, features_of(36), ended=ended) == phase


def features_of(minor, gates=None):
    return KubeletFeatures.of(FeatureGates(Version(minor), gates or {}))


@pytest.mark.parametrize(
    ("minor", "policy", "init", "container", "states", "phase"),
    [
        (36, "Never", {}, {"restartPolicy": "Always"}, (DONE, DONE), "Running"),
        (36, "Never", {}, {"restartPolicy": "OnFailure"}, (DONE, CRASHING), "Running"),
        (36, "Never", {}, {"restartPolicy": "OnFailure"}, (DONE, DONE), "Succeeded"),
        (36, "Always", {}, {"restartPolicy": "Never"}, (DONE, FAILED), "Failed"),
        (33, "Never", {}, {"restartPolicy": "Always"}, (DONE, DONE), "Succeeded"),
        (36, "Never", {"restartPolicy": "OnFailure"}, {}, (FAILED, WAITING), "Pending"),
        (36, "Always", {"restartPolicy": "Never"}, {}, (FAILED, WAITING), "Failed"),
        (33, "Always", {"restartPolicy": "Never"}, {}, (FAILED, WAITING), "Pending"),
    ],
)
def test_containers_have_policies_of_their_own(minor, policy, init, container, states, phase):
    """With ContainerRestartRules a container that runs again keeps its pod from ending, whatever the pod's
    policy is."""
    spec = {"restartPolicy": policy, "initContainers": [{"name": "i", **init}]}
    spec["containers"] = [{"name": "c", **container}]
    found = pod_phase({"spec": spec}, [states[0]], [states[1]], features_of(minor), ended=False)
    assert found == phase


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    ("minor", "policy", "container", "code", "restart"),
    [
        (36, "Always", {}, 0, True),
        (36, "OnFailure", {}, 0, False),
        (36, "OnFailure", {}, 1, True),
        (36, "Never", {}, 1, False),
        (36, "Never", {"restartPolicy": "Always"}, 0, True),
        (36, "Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 42, True),
        (36, "Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 1, False),
        (33, "Never", {"restartPolicy": "Always"}, 0, False),
    ],
)
def test_what_is_restarted(minor, policy, container, code, restart):
    """The pod's policy, since 1.35 also the container's own and its rules."""
    version = Version(minor)
    features = KubeletFeatures.of(FeatureGates(version))

    assert should_restart({"spec": {"restartPolicy": policy}}, container, code, features) == restart


class FixedClock:
    """A clock that is set by hand."""

    at = NOW

    def now(self):
        return self.at


def test_back_off_doubles_up_to_its_limit_and_expires():
    """10 s, 20 s, … 300 s from the end of the last run; forgotten after ten good minutes."""
    clock = FixedClock()
    backoff = CrashBackoff(clock)
    waits = []
    for _ in range(7):
        until = backoff.waits_until("k", clock.at)
        waits.append((until - clock.at).total_seconds() if until else 0)
        clock.at = until or clock.at
        backoff.restarted("k", clock.at)
    assert waits == [0, 10, 20, 40, 80, 160, 300]
    clock.at += timedelta(minutes=11)

    assert backoff.waits_until("k", clock.at) is None


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_qos_follows_requests_and_limits(resources, qos):
    """The QoS class follows requests and limits if the API server did not set it."""
    assert qos_class({"spec": {"containers": [{"resources": resources}]}}) == qos


A, B = {"type": "A", "status": "True"}, {"type": "B", "status": "False", "reason": "Why"}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"phase": "Running"}, {"phase": "Running"}, {}, id="nothing changed"),
        pytest.param({"reason": "X"}, {}, {"reason": None}, id="gone"),
        pytest.param({}, {"podIPs": [{"ip": "1"}]}, {"podIPs": [{"ip": "1"}]}, id="first addresses"),
        pytest.param(
            {"podIPs": [{"ip": "1"}]},
            {"podIPs": [{"ip": "2"}]},
            {"podIPs": [{"$patch": "replace"}, {"ip": "2"}]},
            id="other addresses",
        ),
        pytest.param({"conditions": [B, A]}, {"conditions": [A]}, {}, id="others' conditions stay"),
        pytest.param(
            {"conditions": [B]},
            {"conditions": [A, {"type": "B", "status": "True"}]},
            {
                "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}],
                "conditions": [A, {"type": "B", "status": "True", "reason": None}],
            },
            id="added and changed",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "True"}, A]},
            {},
            {
                "$setElementOrder/conditions": [{"type": "A"}],
                "conditions": [{"$patch": "delete", "type": "PodScheduled"}],
            },
            id="none of a pod that is not admitted",
        ),
        pytest.param({"theirs": 1}, {"theirs": 2}, {}, id="not ours"),
    ],
)
def test_a_patch_names_only_what_changed(old, new, patch):
    """Statuses are written as strategic merge patches of the kubelet's own fields."""
    assert status_patch(old, new, ("phase", "reason", "podIPs", "conditions")) == patch


@pytest.mark.parametrize(
    ("minor", "gates", "more"),
    [
        (31, {}, {}),
        (32, {}, {"qosClass": "BestEffort"}),
        (33, {}, {"qosClass": "BestEffort"}),
        (33, {"PodObservedGenerationTracking": True}, {"qosClass": "BestEffort", "observedGeneration": 2}),
        (36, {}, {"qosClass": "BestEffort", "observedGeneration": 2}),
    ],
)
def test_the_status_of_a_pod_that_is_not_admitted(minor, gates, more):
    """It has the QoS class since 1.32, and the generation where that is tracked."""
    features = KubeletFeatures.of(FeatureGates(Version(minor), gates))
    pod = {"metadata": {"generation": 2}, "spec": {"containers": [{"name": "c"}]}}
    start = "2026-01-01T00:00:00Z"
    assert rejected_status(pod, "NodePorts", "no", start, features) == {
        "phase": "Failed",
        "reason": "NodePorts",
        "message": "Pod was rejected: no",
        "startTime": start,
        **more,
    }


@pytest.mark.parametrize(
    ("minor", "gates", "kinds"),
    [
        (26, {}, []),
        (27, {"PodHasNetworkCondition": True}, ["PodHasNetwork"]),
        (28, {}, []),
        (28, {"PodReadyToStartContainersCondition": True}, ["PodReadyToStartContainers"]),
        (29, {}, ["PodReadyToStartContainers"]),
        (36, {"PodReadyToStartContainersCondition": False}, []),
    ],
)
def test_the_condition_of_a_ready_sandbox_depends_on_the_release(minor, gates, kinds):
    """It came as PodHasNetwork, was renamed in 1.28, and is on since 1.29."""
    pod = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    features = features_of(minor, gates)
    conditions = pod_conditions(pod, [], "Pending", sandbox_ready=True, features=features, now=NOW)
    others = {"Initialized", "Ready", "ContainersReady", "PodScheduled"}
    found = {condition["type"]: condition["status"] for condition in conditions}
    assert [kind for kind in found if kind not in others] == kinds
    assert [found[kind] for kind in kinds] == ["True"] * len(kinds)


@pytest.mark.parametrize(
    ("minor", "gates", "seconds"),
    [
        (26, {}, (10, 300)),
        (33, {"ReduceDefaultCrashLoopBackOffDecay": True}, (1, 60)),
        (33, {"ReduceDefaultCrashLoopBackOffDecay": True, "KubeletCrashLoopBackOffMax": True}, (1, 300)),
        (36, {}, (10, 300)),
        (36, {"ReduceDefaultCrashLoopBackOffDecay": True}, (1, 300)),
        (36, {"ReduceDefaultCrashLoopBackOffDecay": True, "KubeletCrashLoopBackOffMax": False}, (1, 60)),
    ],
)
def test_the_longest_back_off_is_the_configurations_where_it_has_one(minor, gates, seconds):
    """KubeletCrashLoopBackOffMax, on since 1.35, has the configuration's five minutes win over 60 s."""
    assert features_of(minor, gates).backoff_seconds == seconds
