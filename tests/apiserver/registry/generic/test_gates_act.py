"""Gates of the API server: what each of them lets in, at a release in which it can be turned on and off."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.clock import SystemClock

POD = {"containers": [{"name": "c", "image": "i"}]}
RUN = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
CONTAINER = {"name": "c", "image": "i"}
APP = {"matchLabels": {"a": "b"}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SET = {"selector": APP, "serviceName": "s", "template": TEMPLATE}
POLICY = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
RETENTION = {"whenScaled": "Delete"}
SPREAD = {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
HOOK = {
    "name": "w.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "matchConditions": [{"name": "c", "expression": "false"}],
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}


class Case(NamedTuple):
    """A field that is kept while the gate is on, and dropped while it is off."""

    minor: int
    gate: str
    path: str
    spec: dict[str, Any]
    field: str  # below the object


def pod(minor: int, gate: str, field: str, **spec: Any) -> Case:
    return Case(minor, gate, "/api/v1/namespaces/default/pods", {**POD, **spec}, field)


def job(minor: int, gate: str, field: str, value: Any, **more: Any) -> Case:
    path = "/apis/batch/v1/namespaces/default/jobs"
    return Case(minor, gate, path, {**RUN, **more, field: value}, f"spec.{field}")


def stateful(minor: int, gate: str, field: str, value: Any) -> Case:
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    return Case(minor, gate, path, {**SET, field: value}, f"spec.{field}")


CASES = [
    pod(26, "PodSchedulingReadiness", "spec.schedulingGates", schedulingGates=[{"name": "a.b/c"}]),
    stateful(26, "StatefulSetStartOrdinal", "ordinals", {"start": 2}),
    stateful(26, "StatefulSetAutoDeletePVC", "persistentVolumeClaimRetentionPolicy", RETENTION),
    job(26, "JobPodFailurePolicy", "podFailurePolicy", POLICY),
    Case(
        26, "PDBUnhealthyPodEvictionPolicy", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "spec.unhealthyPodEvictionPolicy",
    ),
    Case(
        28, "AdmissionWebhookMatchConditions",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"webhooks": [HOOK]},
        "webhooks.0.matchConditions",
    ),
    pod(
        28, "SidecarContainers", "spec.initContainers.0.restartPolicy",
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}],
    ),
    job(28, "JobPodReplacementPolicy", "podReplacementPolicy", "Failed"),
    job(28, "JobBackoffLimitPerIndex", "backoffLimitPerIndex", 1, completionMode="Indexed", completions=2),
    job(31, "JobManagedBy", "managedBy", "example.com/other"),
    job(
        31, "JobSuccessPolicy", "successPolicy", {"rules": [{"succeededCount": 1}]},
        completionMode="Indexed", completions=2,
    ),
    pod(31, "UserNamespacesSupport", "spec.hostUsers", hostUsers=False),
    pod(
        31, "ImageVolume", "spec.volumes.0.image",
        volumes=[{"name": "v", "image": {"reference": "r"}}],
        containers=[{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    ),
    pod(
        31, "RecursiveReadOnlyMounts", "spec.containers.0.volumeMounts.0.recursiveReadOnly",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[{
            **CONTAINER,
            "volumeMounts": [
                {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "IfPossible"}
            ],
        }],
    ),
    pod(
        31, "PodLifecycleSleepAction", "spec.containers.0.lifecycle",
        containers=[{**CONTAINER, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}],
    ),
    pod(
        31, "MatchLabelKeysInPodTopologySpread", "spec.topologySpreadConstraints.0.matchLabelKeys",
        topologySpreadConstraints=[{**SPREAD, "matchLabelKeys": ["x"]}],
    ),
    Case(
        31, "VolumeAttributesClass", "/api/v1/namespaces/default/persistentvolumeclaims",
        {**CLAIM, "volumeAttributesClassName": "v"}, "spec.volumeAttributesClassName",
    ),
    Case(
        31, "ServiceTrafficDistribution", "/api/v1/namespaces/default/services",
        {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}, "spec.trafficDistribution",
    ),
    pod(33, "PodLevelResources", "spec.resources", resources={"limits": {"cpu": "1"}}),
    pod(
        33, "InPlacePodVerticalScaling", "spec.containers.0.resizePolicy",
        containers=[{
            **CONTAINER,
            "resources": {"requests": {"cpu": "1"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        }],
    ),
    Case(
        34, "PreferSameTrafficDistribution", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"], "hints": {"forNodes": [{"name": "n"}]}}],
        },
        "endpoints.0.hints.forNodes",
    ),
    Case(
        34, "HPAConfigurableTolerance", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        {**SCALED, "behavior": {"scaleUp": {"tolerance": "500m"}}}, "spec.behavior.scaleUp.tolerance",
    ),
    pod(
        34, "ContainerRestartRules", "spec.containers.0.restartPolicy",
        containers=[{**CONTAINER, "restartPolicy": "Never"}],
    ),
    pod(
        34, "ContainerRestartRules", "spec.initContainers.0.restartPolicy", **POD,
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Never"}],
    ),
    pod(
        34, "ContainerStopSignals", "spec.containers.0.lifecycle", os={"name": "linux"},
        containers=[{**CONTAINER, "lifecycle": {"stopSignal": "SIGUSR1"}}],
    ),
]  # fmt: skip


_WITHOUT_SPEC = {"webhooks", "endpoints"}


def found(obj: Any, path: str) -> bool:
    for step in path.split("."):
        obj = (obj[int(step)] if step.isdigit() else obj.get(step)) if obj else None
    return obj is not None


async def test_proc_mounts_are_forced_to_the_default() -> None:
    """While the gate is off, what asks for another way gets the default; what asks for none gets none."""
    server = await open_server(31, gates={"ProcMountType": False})
    try:
        api = Caller(server)
        for number, (asked, got) in enumerate((("Unmasked", "Default"), (None, None))):
            containers = [{**CONTAINER, "securityContext": {"procMount": asked} if asked else {}}]
            spec = {"hostUsers": False, "containers": containers}
            path = "/api/v1/namespaces/default/pods"
            made = await api.post(path, {"metadata": {"name": f"n-{number}"}, "spec": spec})
            assert made.body["spec"]["containers"][0]["securityContext"].get("procMount") == got
    finally:
        await close_server(server)


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize("minor", sorted({case.minor for case in CASES}))
async def test_fields_depend_on_their_gates(minor: int, on: bool) -> None:
    """Every gated field of the release is kept with all gates on, and dropped with all off."""
    cases = [case for case in CASES if case.minor == minor]
    server = await open_server(minor, gates={case.gate: on for case in cases})
    try:
        api = Caller(server)
        for number, case in enumerate(cases):
            spec = case.spec if _WITHOUT_SPEC & case.spec.keys() else {"spec": case.spec}
            made = await api.post(case.path, {"metadata": {"name": f"n-{number}"}, **spec})
            assert made.status == 201, (case.gate, made.body)
            assert found(made.body, case.field) is on, (case.gate, made.body)
    finally:
        await close_server(server)


async def test_sidecars_are_older_than_rules() -> None:
    """An init container stays a sidecar without the gate ContainerRestartRules."""
    server = await open_server(34, gates={"ContainerRestartRules": False})
    try:
        sidecar = {"name": "i", "image": "i", "restartPolicy": "Always"}
        body = {"metadata": {"name": "p"}, "spec": {**POD, "initContainers": [sidecar]}}
        made = await Caller(server).post("/api/v1/namespaces/default/pods", body)
        assert made.body["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    finally:
        await close_server(server)


async def test_a_field_that_is_dropped_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that a newer kubelet writes again and again, and that loses the same field each time, is
    written once: the later times of its managed fields alone are no change."""
    server = await open_server(28)
    path = "/api/v1/namespaces/default/pods"
    try:
        api = Caller(server)
        await api.post(path, {"metadata": {"name": "p"}, "spec": POD})

        async def report(second: int, message: str) -> dict[str, Any]:
            monkeypatch.setattr(SystemClock, "now", lambda _: datetime(2030, 1, 1, 0, 0, second, tzinfo=UTC))
            status = {"message": message, "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}
            answer = await api.patch(f"{path}/p/status", {"status": status}, "strategic")
            assert answer.status == 200, answer.body
            assert "hostIPs" not in answer.body["status"]
            return answer.body["metadata"]

        first, again, changed = await report(1, "one"), await report(2, "one"), await report(3, "two")
        assert again == first
        assert changed["resourceVersion"] != first["resourceVersion"]
        assert changed["managedFields"][-1]["time"] == "2030-01-01T00:00:03Z"
    finally:
        await close_server(server)
