"""Plugins of a few lines: classes, resizes, topology, and those that a flag turns on; and the flags."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server
from webhook_server import CERTIFICATE

from kubeskew.apiserver.admission.chain import flag_errors
from kubeskew.apiserver.http.request import Peer

NAMESPACE = "/api/v1/namespaces/default"
PODS, CLAIMS = f"{NAMESPACE}/pods", f"{NAMESPACE}/persistentvolumeclaims"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def storage_class(name: str, *, default: bool = True, **extra: Any) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": str(default).lower()}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "x.io/y", **extra}


def claim(name: str, storage: str = "1Gi", **spec: Any) -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": name}, "spec": {**asked, **spec}}


RUNTIME = {
    "metadata": {"name": "sandbox"},
    "handler": "sandbox",
    "overhead": {"podFixed": {"cpu": "100m"}},
    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
}


async def test_runtime_classes(api: Caller) -> None:
    """A class brings its overhead, node selector and tolerations."""
    await api.post(RUNTIMES, RUNTIME)

    spec = (await api.post(PODS, pod(runtimeClassName="sandbox", nodeSelector={"c": "d"}))).body["spec"]

    assert spec["overhead"] == {"cpu": "100m"}
    assert spec["nodeSelector"] == {"a": "b", "c": "d"}
    assert {"key": "k", "operator": "Exists"} in spec["tolerations"]


REFUSED = [
    ({"runtimeClassName": "x"}, 'pod rejected: RuntimeClass "x" not found'),
    (
        {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    ),
    (
        {"overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    (
        {"runtimeClassName": "sandbox", "nodeSelector": {"a": "c"}},
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
    ),
]


@pytest.mark.parametrize(("spec", "why"), REFUSED)
async def test_what_runtime_classes_refuse(api: Caller, spec: dict[str, Any], why: str) -> None:
    """A pod must fit its class, and needs one for an overhead."""
    await api.post(RUNTIMES, RUNTIME)

    answer = await api.post(PODS, pod(**spec))

    assert (answer.status, answer.body["message"]) == (403, f'pods "p" is forbidden: {why}')


async def test_default_storage_class(api: Caller) -> None:
    """A claim without a class gets the default one; the empty class is a class."""
    none = await api.post(CLAIMS, claim("none"))
    await api.post(STORAGE, storage_class("plain", default=False))
    await api.post(STORAGE, storage_class("b"))
    await api.post(STORAGE, storage_class("a"))

    some = await api.post(CLAIMS, claim("some"))
    empty = await api.post(CLAIMS, claim("empty", storageClassName=""))

    classes = [answer.body["spec"].get("storageClassName") for answer in (none, some, empty)]
    assert classes[0] is None
    assert classes[1] in {"a", "b"}  # the newest, or the first of the same second
    assert classes[2] == ""


async def test_default_ingress_class(api: Caller) -> None:
    """An ingress without a class gets the default one."""
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
    made = {"metadata": {"name": "main", "annotations": annotations}, "spec": {"controller": "x.io/y"}}
    await api.post("/apis/networking.k8s.io/v1/ingressclasses", made)
    backend = {"service": {"name": "s", "port": {"number": 80}}}

    answer = await api.post(INGRESSES, {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}})

    assert answer.body["spec"]["ingressClassName"] == "main"


async def test_claims_grow_where_their_class_allows(api: Caller) -> None:
    """Only a bound claim of a class that allows it may ask for more."""
    await api.post(STORAGE, storage_class("fixed"))
    made = (await api.post(CLAIMS, claim("v"))).body
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}

    unbound = await api.patch(f"{CLAIMS}/v", more)
    await api.put(f"{CLAIMS}/v/status", {**made, "status": {"phase": "Bound"}})
    fixed = await api.patch(f"{CLAIMS}/v", more)
    await api.patch(f"{STORAGE}/fixed", {"allowVolumeExpansion": True})
    grown = await api.patch(f"{CLAIMS}/v", more)

    start = 'persistentvolumeclaims "v" is forbidden: '
    assert unbound.body["message"].startswith(
        'PersistentVolumeClaim "v" is invalid: spec: Forbidden: spec is immutable after creation except '
        "resources.requests and volumeAttributesClassName for bound claims\n"
    )  # validation comes before the plugin
    assert fixed.body["message"] == (
        f"{start}only dynamically provisioned pvc can be resized and the storageclass that provisions the "
        "pvc must support resize"
    )
    assert grown.status == 200


async def test_topology_labels(api: Caller) -> None:
    """A pod made on a node has that node's zone, unless it says another."""
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"}
    await api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    own = pod("own", nodeName="n")
    own["metadata"]["labels"] = {"topology.kubernetes.io/zone": "mine"}

    answers = [await api.post(PODS, one) for one in (pod(nodeName="n"), own, pod("none"))]

    assert [answer.body["metadata"].get("labels") for answer in answers] == [
        {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"},
        {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "mine"},
        None,
    ]


async def test_trust_bundles_need_leave_to_attest() -> None:
    """A user who may write trust bundles but not attest for a signer cannot write the signer's bundles."""
    gates = {"ClusterTrustBundle": True}
    config = {"certificates.k8s.io/v1beta1": True}
    server = await open_server(36, gates=gates, runtime_config=config)
    try:
        admin, other = Caller(server), Caller(server, Peer("other", ()))
        rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["*"]}
        await grant(admin, "other", rule)
        bundle = {
            "metadata": {"name": "x.io:y:a"},
            "spec": {"signerName": "x.io/y", "trustBundle": CERTIFICATE.decode()},
        }

        refused = await other.post("/apis/certificates.k8s.io/v1beta1/clustertrustbundles", bundle)

        assert refused.body["message"].endswith('user not permitted to attest for signerName "x.io/y"')
    finally:
        await close_server(server)


OPTIONAL = ("AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration",
            "LimitPodHardAntiAffinityTopology", "NamespaceExists")  # fmt: skip


@pytest.fixture
async def optional() -> AsyncIterator[Caller]:
    """A server with the optional plugins, and without limits to token mounts."""
    server = await open_server(
        36, enable_admission_plugins=OPTIONAL, disable_admission_plugins=("ServiceAccount",)
    )
    yield Caller(server)
    await close_server(server)


async def test_optional_plugins(optional: Caller) -> None:
    """Each optional admission plugin changes or refuses objects once it is turned on."""
    devices = {"example.com/gpu": "1", "deviceclass.resource.kubernetes.io/gpu": "1"}
    limits = {"requests": devices, "limits": devices}
    container = {"name": "c", "image": "i:1", "imagePullPolicy": "Never", "resources": limits}
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    made = (await optional.post(PODS, pod(containers=[container]))).body["spec"]
    wide = await optional.post(PODS, pod("wide", affinity=affinity))
    service = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    open_ = await optional.post(f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": service})

    assert made["containers"][0]["imagePullPolicy"] == "Always"
    tolerated = [toleration["key"] for toleration in made["tolerations"] if "/gpu" in toleration["key"]]
    assert tolerated == ["example.com/gpu"]  # not by the implicit name
    assert "volumes" not in made
    assert wide.body["message"].endswith(
        "has TopologyKey zone but only key kubernetes.io/hostname is allowed"
    )
    assert open_.body["message"].endswith("Use of external IPs is denied by admission control.")


async def test_owner_references() -> None:
    """A user who may not delete an object or finalize its owner cannot set an owner reference on it."""
    server = await open_server(36, enable_admission_plugins=("OwnerReferencesPermissionEnforcement",))
    try:
        admin, other = Caller(server), Caller(server, Peer("other", ()))
        verbs = ["create", "get", "update", "patch"]
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}
        await grant(admin, "other", rule)
        maps = f"{NAMESPACE}/configmaps"
        owner = (await admin.post(maps, {"metadata": {"name": "owner"}})).body["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        blocking = {**reference, "blockOwnerDeletion": True}

        free = await other.post(maps, {"metadata": {"name": "free", "ownerReferences": [reference]}})
        held = await other.post(maps, {"metadata": {"name": "held", "ownerReferences": [blocking]}})
        changed = await other.patch(f"{maps}/free", {"metadata": {"ownerReferences": None}})

        assert free.status == 201
        assert held.body["message"].startswith(
            'configmaps "held" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a '
            "resource you can't set finalizers on: "
        )
        assert changed.body["message"].startswith(
            'configmaps "free" is forbidden: cannot set an ownerRef on a resource you can\'t delete: '
        )
    finally:
        await close_server(server)


async def grant(admin: Caller, user: str, rule: dict[str, Any]) -> None:
    """Let a user do what one rule says, everywhere."""
    path, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    await admin.post(f"{path}/clusterroles", {"metadata": {"name": user}, "rules": [rule]})
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    await admin.post(f"{path}/clusterrolebindings", binding)


def test_flags() -> None:
    """Unknown names, contradictions and what is not built are named, in upstream's words where it has any."""
    assert flag_errors(("LimitRanger",), ("PodSecurity",)) == []
    assert flag_errors(("A", "LimitRanger"), ("B", "LimitRanger", "EventRateLimit")) == [
        'enable-admission-plugins plugin "A" is unknown',
        'disable-admission-plugins plugin "B" is unknown',
        "[LimitRanger] in enable-admission-plugins and disable-admission-plugins overlapped",
    ]
    assert flag_errors(("EventRateLimit",), ()) == ['plugin "EventRateLimit" is not built']
