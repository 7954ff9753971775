# ruff: noqa: E501 - upstream's texts stand whole
"""KEP-5004 on a server: names of classes and resources, the pod's status that names the extended resource claim, what is
dropped without the gate and kept where it is in use, in every version of the API."""

from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.http.request import Peer

GROUP = "/apis/resource.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
GPU, IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/"
MAPPING = {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
STATUS = {"resourceClaimName": "p-extended-resources-x", "requestMappings": [MAPPING]}
PATH = "status.extendedResourceClaimStatus"
CONTAINER = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
RESOURCE = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)
SERVED = {"resource.k8s.io/v1beta2": True, "resource.k8s.io/v1beta1": True}


@pytest.fixture
async def api() -> Any:
    """1.36 with its defaults."""
    server = await open_server(36)
    yield Caller(server)
    await close_server(server)


def device_class(name: str = "gpu", version: str = "v1", **spec: Any) -> Any:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod(name: str = "p", **limits: str) -> Any:
    container = {"name": "c", "image": "i", "resources": {"limits": limits or {GPU: "1"}}}
    init = {"name": "i", "image": "i", "resources": {"limits": {IMPLICIT + "gpu": "1"}}}
    spec = {"containers": [container], "initContainers": [init]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def texts(status: Any) -> list[str]:
    causes = status["details"]["causes"]
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


async def report(call: Caller, status: Any, name: str = "p") -> Any:
    """The answer to the scheduler's patch of a pod's status."""
    return await call.patch(f"{PODS}/{name}/status", {"status": {"extendedResourceClaimStatus": status}})


NAMES = {
    GPU: True,
    "example.com/" + "g" * 63: True,
    "a.b/" + "g" * 64: False,
    "gpu": False,
    "kubernetes.io/gpu": False,
    "node.kubernetes.io/gpu": False,
    IMPLICIT + "gpu": False,
    "requests.example.com/gpu": False,
    "example.com/": False,
    "example.com/g p u": False,
    "": False,
}


async def test_names_that_classes_may_give(api: Caller) -> None:
    """A domain that is not Kubernetes' own, and a name that still is one after `requests.`."""
    for number, (name, is_valid) in enumerate(NAMES.items()):
        body = device_class(f"c{number}", extendedResourceName=name)
        answer = (await api.post(f"{GROUP}/v1/deviceclasses", body)).body
        if is_valid:
            assert answer["spec"]["extendedResourceName"] == name
        else:
            message = f'Invalid value: "{name}": must be a valid extended resource name'
            assert texts(answer) == [f"spec.extendedResourceName: {message}"]


async def test_a_class_may_have_a_name_that_no_pod_can_ask_for(api: Caller) -> None:
    """Classes have up to 253 characters, the names of resources 63; an explicit name helps."""
    long = "g" * 64
    answer = await api.post(f"{GROUP}/v1/deviceclasses", device_class(long, extendedResourceName=GPU))
    assert answer.status == 201
    refused = await api.post(PODS, pod(**{IMPLICIT + long: "1"}))
    assert refused.status == 422
    assert "name part must be no more than 63 bytes" in refused.body["message"]
    assert (await api.post(PODS, pod(**{IMPLICIT + "g" * 63: "1"}))).status == 201
    assert (await api.post(PODS, pod("other"))).status == 201


STATUSES: list[tuple[Any, list[str]]] = [
    ({}, []),
    ({"requestMappings": [MAPPING, {**MAPPING, "containerName": "i", "resourceName": IMPLICIT + "gpu"}]}, []),
    (
        {"requestMappings": []},
        [f"{PATH}.requestMappings: Required value: at least one request mapping is required"],
    ),
    ({"resourceClaimName": ""}, [f"{PATH}.resourceClaimName: Required value"]),
    ({"resourceClaimName": "A"}, [f'{PATH}.resourceClaimName: Invalid value: "A": a lowercase RFC 1123 sub']),
    (
        {"requestMappings": [{**MAPPING, "containerName": "d"}]},
        [f'{PATH}.requestMappings[0].containerName: Invalid value: "d": {CONTAINER}'],
    ),
    (
        {"requestMappings": [{**MAPPING, "resourceName": "example.com/other"}]},
        [f'{PATH}.requestMappings[0].resourceName: Invalid value: "example.com/other": {RESOURCE}'],
    ),
    (  # another container asks for it
        {"requestMappings": [{**MAPPING, "resourceName": IMPLICIT + "gpu"}]},
        [f'{PATH}.requestMappings[0].resourceName: Invalid value: "{IMPLICIT}gpu": {RESOURCE}'],
    ),
    (  # without its index
        {"requestMappings": [{**MAPPING, "requestName": "A"}]},
        [f'{PATH}.requestName: Invalid value: "A": a lowercase RFC 1123 label'],
    ),
    (
        {"requestMappings": [MAPPING, MAPPING]},
        [f'{PATH}.requestMappings[1].{name}: Duplicate value: "{MAPPING[name]}"' for name in MAPPING],
    ),
]


async def test_what_a_pods_status_may_say(api: Caller) -> None:
    """Mappings name containers, what these ask for, and requests; a claim's name comes with them."""
    await api.post(PODS, pod())
    for changes, wanted in STATUSES:
        answer = await report(api, {**STATUS, **changes})
        found = [] if answer.status == 200 else texts(answer.body)
        assert len(found) == len(wanted), found
        for text, start in zip(sorted(found), sorted(wanted), strict=True):
            assert text.startswith(start)


async def test_what_is_dropped_without_the_gate_and_what_is_kept() -> None:
    """Nobody can begin to use the fields without the gate; where they are in use they stay, and may change."""
    server = await open_server(36, gates={"DRAExtendedResource": False})
    call, classes = Caller(server), f"{GROUP}/v1/deviceclasses"
    try:
        await call.post(classes, device_class(extendedResourceName=GPU))
        assert (await call.get(f"{classes}/gpu")).body["spec"] == {}
        await call.post(PODS, pod())
        assert "extendedResourceClaimStatus" not in (await report(call, STATUS)).body["status"]
    finally:
        await close_server(server)


async def test_fields_in_use_outlive_their_gate_and_their_release(tmp_path: Any) -> None:
    """Written at 1.34, read and written at 1.36 without the gate and at 1.37, in every version of the API."""
    url, versions = f"sqlite+aiosqlite:///{tmp_path}/log.db", ("v1beta1", "v1beta2", "v1")
    on, off = {"DRAExtendedResource": True}, {"DRAExtendedResource": False}
    for minor, gates in ((34, on), (36, off), (37, {}), (34, off)):
        server = await open_server(minor, url, gates=gates, runtime_config=SERVED)
        call = Caller(server)
        if gates is on:
            target = f"{GROUP}/v1beta1/deviceclasses"
            await call.post(target, device_class("gpu", "v1beta1", extendedResourceName=GPU))
            await call.post(PODS, pod())
            await report(call, STATUS)
        for version in versions:
            target, label = f"{GROUP}/{version}/deviceclasses/gpu", {"at": f"{minor}-{version}"}
            answer = await call.patch(target, {"metadata": {"labels": label}})
            assert answer.body["spec"] == {"extendedResourceName": GPU}
        answer = await call.patch(f"{PODS}/p", {"metadata": {"labels": {"at": str(minor)}}})
        assert answer.body["status"]["extendedResourceClaimStatus"] == STATUS
        answer = await call.patch(f"{PODS}/p/status", {"status": {"message": str(minor)}})
        assert answer.body["status"]["extendedResourceClaimStatus"] == STATUS
        if gates is off and minor == 36:
            other = {**STATUS, "resourceClaimName": "other"}
            assert (await report(call, other)).body["status"]["extendedResourceClaimStatus"] == other
            await report(call, STATUS)
        await close_server(server)


async def test_pods_ask_for_whole_devices(api: Caller) -> None:
    """An amount is whole, and all of it is requested; implicit names pass for Kubernetes' own, as upstream has it."""
    half = (await api.post(PODS, pod(**{GPU: "500m"}))).body
    assert f'spec.containers[0].resources.limits[{GPU}]: Invalid value: "500m": must be an integer' in texts(
        half
    )
    less = pod(**{GPU: "2"})
    less["spec"]["containers"][0]["resources"]["requests"] = {GPU: "1"}
    assert "must be equal to example.com/gpu limit of 2" in (await api.post(PODS, less)).body["message"]
    assert (await api.post(PODS, pod("whole", **{GPU: "2e0"}))).status == 201

    implicit = pod("implicit", **{IMPLICIT + "gpu": "1500m"})
    implicit["spec"]["containers"][0]["resources"]["requests"] = {IMPLICIT + "gpu": "1"}
    assert (await api.post(PODS, implicit)).status == 201


RBAC = "rbac.authorization.k8s.io"
QUOTAS = Peer("system:serviceaccount:kube-system:resourcequota-controller", ("system:serviceaccounts",))
SCHEDULER = Peer("system:kube-scheduler", ("system:authenticated",))


@pytest.mark.parametrize(
    ("peer", "resource", "verbs"),
    [
        pytest.param(QUOTAS, "deviceclasses", "list watch", id="quota-controller"),
        pytest.param(SCHEDULER, "deviceclasses", "get list watch", id="scheduler"),
        pytest.param(SCHEDULER, "resourceclaims", "get list watch create update patch delete", id="claims"),
        pytest.param(Peer("eve", ()), "deviceclasses", "", id="developer"),
        pytest.param(Peer("eve", ()), "pods", "*", id="developer's-own"),
    ],
)
async def test_who_may_do_what_with_classes_and_claims(
    api: Caller, peer: Peer, resource: str, verbs: str
) -> None:
    """A developer, administrator of a namespace, gives no names to devices; components have what they need."""
    for part in ("admin", "edit", "view"):  # what a controller puts together as the role `admin`
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"system:aggregate-to-{part}"}
        subject = {"apiGroup": RBAC, "kind": "User", "name": "eve"}
        binding = {"metadata": {"name": part}, "roleRef": role, "subjects": [subject]}
        await api.post(f"/apis/{RBAC}/v1/namespaces/default/rolebindings", binding)
    caller, allowed = Caller(api.server, peer), []
    every = ["get", "list", "watch", "create", "update", "patch", "delete"]
    for verb in every:
        group = "" if resource == "pods" else "resource.k8s.io"
        asked = {"group": group, "resource": resource, "verb": verb, "namespace": "default"}
        review = {"spec": {"resourceAttributes": asked}}
        answer = await caller.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        allowed += [verb] * answer.body["status"]["allowed"]

    assert allowed == (every if verbs == "*" else [verb for verb in every if verb in verbs.split()])


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
async def test_the_feature_brings_no_kinds(minor: int) -> None:
    """The API serves the same resources with the gate and without."""
    served = []
    for gate in (True, False):
        server = await open_server(minor, gates={"DRAExtendedResource": gate})
        served.append((await Caller(server).get(f"{GROUP}/v1")).body)
        await close_server(server)

    assert served[0] == served[1]
    assert len(served[0]["resources"]) > 4
