"""Quotas measure what objects use, which scopes they are in, and whether a request fits."""

from contextlib import nullcontext
from typing import Any

import pytest

from kubeskew.apimachinery.clock import SystemClock, later, timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.quota.amounts import texts
from kubeskew.apimachinery.quota.claims import ClaimFacts, DeviceClasses
from kubeskew.apimachinery.quota.registry import Evaluators
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.admission.plugins.quota_evaluator import QuotaError, QuotaRequest, check
from kubeskew.controllers.resourcequota.controller import measure

PODS, SERVICES = GroupResource("", "pods"), GroupResource("", "services")
CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
VOLUME_CLAIMS = GroupResource("", "persistentvolumeclaims")


def evaluators(minor: int = 36, facts: ClaimFacts | None = None, **gates: bool) -> Evaluators:
    known = FeatureGates(Version(minor), gates)
    return Evaluators(known, SystemClock(), facts) if facts else Evaluators(known, SystemClock())


def container(name: str = "c", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def pod(*containers: dict[str, Any], name: str = "p", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"metadata": metadata, "spec": {"containers": [*containers], **spec}, "status": {}}


def used(evaluator_of: GroupResource, obj: dict[str, Any], **settings: Any) -> dict[str, str]:
    return texts(evaluators(**settings).of(evaluator_of).usage(obj))


CPU = {"cpu": "1"}
EXCEEDED = "exceeded quota: compute, "
INIT: dict[str, Any] = {"initContainers": [container("i", requests={"cpu": "3"})]}
SIDECAR: dict[str, Any] = {
    "initContainers": [
        {**container("s", requests={"cpu": "1"}), "restartPolicy": "Always"},
        container("i", requests={"cpu": "3"}),
    ]
}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (pod(container()), {"count/pods": "1", "pods": "1"}),
        (
            pod(container(requests=CPU, limits={"cpu": "2", "memory": "1Gi"})),
            {
                "count/pods": "1", "cpu": "1", "limits.cpu": "2", "limits.memory": "1Gi", "pods": "1",
                "requests.cpu": "1",
            },
        ),
        (
            pod(container(requests=CPU), **INIT),
            {"count/pods": "1", "cpu": "3", "pods": "1", "requests.cpu": "3"},
        ),
        (
            pod(container(requests=CPU), **SIDECAR),
            {"count/pods": "1", "cpu": "4", "pods": "1", "requests.cpu": "4"},
        ),
        (
            pod(container(requests={"cpu": "100m"}), overhead={"cpu": "50m"}),
            {"count/pods": "1", "cpu": "150m", "pods": "1", "requests.cpu": "150m"},
        ),
        (
            pod(container(requests=CPU), resources={"requests": {"cpu": "2", "example.com/x": "1"}}),
            {"count/pods": "1", "cpu": "2", "pods": "1", "requests.cpu": "2"},
        ),
        (
            pod(container(requests={"example.com/gpu": "2", "hugepages-2Mi": "4Mi"})),
            {
                "count/pods": "1", "hugepages-2Mi": "4Mi", "pods": "1", "requests.example.com/gpu": "2",
                "requests.hugepages-2Mi": "4Mi",
            },
        ),
        (
            pod(container(requests={"deviceclass.resource.kubernetes.io/a": "2"})),
            {"count/pods": "1", "pods": "1", "requests.deviceclass.resource.kubernetes.io/a": "2"},
        ),
        ({**pod(container(requests=CPU)), "status": {"phase": "Succeeded"}}, {"count/pods": "1"}),
    ],
)  # fmt: skip
def test_pods(what: dict[str, Any], expected: dict[str, str]) -> None:
    """A pod counts with what it asks for at once, until it has ended."""
    assert used(PODS, what) == expected


def test_resized_pods() -> None:
    """While a pod is resized it counts with the most of what it wants and has; refused, with what it has."""
    obj = pod(container(requests={"cpu": "1"}, limits={"cpu": "1"}))
    has = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    obj["status"] = {
        "containerStatuses": [{"name": "c", "resources": has, "allocatedResources": {"cpu": "4"}}]
    }

    assert (used(PODS, obj)["cpu"], used(PODS, obj)["limits.cpu"]) == ("4", "3")
    assert used(PODS, obj, minor=32)["cpu"] == "1"
    obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    obj["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible", "status": "True"}]
    assert used(PODS, obj)["cpu"] == "4"


@pytest.mark.parametrize(
    ("minor", "gate", "subresource", "counted"),
    [(27, True, "", True), (31, True, "", True), (31, False, "", False), (32, True, "", False),
     (36, True, "", False), (36, True, "resize", True)],
)  # fmt: skip
def test_updates_that_may_resize_a_pod_are_counted(
    minor: int, gate: bool, subresource: str, counted: bool
) -> None:
    """Up to 1.31 an update of the pod may resize it, since 1.32 the subresource."""
    evaluator = evaluators(minor, InPlacePodVerticalScaling=gate).pods
    grown, before = pod(container(requests={"cpu": "2"})), pod(container(requests=CPU))
    assert evaluator.handles("UPDATE", subresource, grown, before) is counted


def test_pods_that_should_be_gone() -> None:
    """A pod that outlives its grace does not count."""
    clock = SystemClock()
    obj = pod(container())
    obj["metadata"]["deletionGracePeriodSeconds"] = 30

    obj["metadata"]["deletionTimestamp"] = timestamp(clock.now())
    assert "pods" in used(PODS, obj)
    obj["metadata"]["deletionTimestamp"] = timestamp(later(clock.now(), -60))
    assert "pods" not in used(PODS, obj)


@pytest.mark.parametrize(
    ("required", "what", "expected"),
    [
        (["pods", "requests.cpu"], pod(container(requests=CPU)), ""),
        (["limits.cpu"], pod(container(requests=CPU)), "must specify limits.cpu for: c"),
        (
            ["limits.cpu", "requests.memory", "ephemeral-storage"],
            pod(container("b"), container("a", limits=CPU), initContainers=[container("i")]),
            "must specify limits.cpu for: b,i; requests.memory for: a,b,i",
        ),
        (["limits.cpu"], pod(container(), resources={"limits": {"cpu": "1"}}), ""),
    ],
)
def test_what_pods_must_say(required: list[str], what: dict[str, Any], expected: str) -> None:
    """A quota on cpu or memory makes every container say it, unless the pod says it for all."""
    assert evaluators().pods.missing(required, what) == expected


@pytest.mark.parametrize(
    ("selector", "what", "expected"),
    [
        ({"scopeName": "Terminating"}, pod(activeDeadlineSeconds=5), True),
        ({"scopeName": "NotTerminating"}, pod(), True),
        ({"scopeName": "BestEffort"}, pod(container()), True),
        ({"scopeName": "BestEffort"}, pod(container(limits=CPU)), False),
        ({"scopeName": "NotBestEffort"}, pod(container(), resources={"requests": CPU}), True),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, pod(), False),
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}, pod(priorityClassName="a"), True),
        ({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a"]}, pod(), True),
        ({"scopeName": "PriorityClass", "operator": "DoesNotExist"}, pod(priorityClassName="a"), False),
        (
            {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"},
            pod(
                affinity={
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"podAffinityTerm": {"namespaceSelector": {}}}
                        ]
                    }
                }
            ),
            True,
        ),
        ({"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}, pod(), False),
        ({"scopeName": "VolumeAttributesClass", "operator": "Exists"}, pod(), False),
    ],
)
def test_scopes_of_pods(selector: dict[str, Any], what: dict[str, Any], expected: bool) -> None:
    """Deadline, quality of service, priority and affinity put a pod into a scope."""
    assert evaluators().pods.in_scope({"operator": "Exists", **selector}, what) is expected


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{}]}, "0", "0"),
        ({"type": "NodePort", "ports": [{}, {}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, "2", "1"),
        (
            {"type": "LoadBalancer", "ports": [{}, {"nodePort": 1}], "allocateLoadBalancerNodePorts": False},
            "1",
            "1",
        ),
    ],
)
def test_services(spec: dict[str, Any], ports: str, balancers: str) -> None:
    """Node ports count as they are intended."""
    found = used(SERVICES, {"metadata": {"name": "s"}, "spec": spec})

    assert found == {
        "count/services": "1",
        "services": "1",
        "services.loadbalancers": balancers,
        "services.nodeports": ports,
    }


def test_volume_claims() -> None:
    """Storage counts in all and per class, in whole bytes, and no less than is allocated."""
    claim = {
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5"}}},
    }

    assert used(VOLUME_CLAIMS, claim) == {
        "count/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2",
        "persistentvolumeclaims": "1",
        "requests.storage": "2",
    }
    grown = {**claim, "status": {"allocatedResources": {"storage": "1Gi"}}}
    assert used(VOLUME_CLAIMS, grown)["requests.storage"] == "1Gi"
    evaluator = evaluators().of(VOLUME_CLAIMS)
    scope = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    assert not evaluator.in_scope(scope, claim)
    assert evaluator.in_scope(scope, {**claim, "status": {"currentVolumeAttributesClassName": "fast"}})
    assert evaluator.handles("UPDATE", "status", grown, claim)


def claim(name: str, *requests: dict[str, Any], pod_name: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if pod_name:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod_name,
            "uid": f"uid-{pod_name}",
            "controller": True,
        }
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata, "spec": {"devices": {"requests": [*requests]}}}


def exactly(count: int = 1, mode: str = "ExactCount", device_class: str = "gpu") -> dict[str, Any]:
    wanted = {"deviceClassName": device_class, "allocationMode": mode}
    return {"name": "r", "exactly": {**wanted, "count": count} if mode == "ExactCount" else wanted}


def test_resource_claims() -> None:
    """All devices count as the most there can be, alternatives as the worst per class."""
    first = [{"deviceClassName": "a", "allocationMode": "ExactCount", "count": n} for n in (2, 3)]
    other = {"deviceClassName": "b", "allocationMode": "All"}
    obj = claim("c", exactly(2), exactly(mode="All"), {"name": "o", "firstAvailable": [*first, other]})

    found = used(CLAIMS, obj, minor=34)

    assert found == {
        "a.deviceclass.resource.k8s.io/devices": "3",
        "b.deviceclass.resource.k8s.io/devices": "32",
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "34",
    }


@pytest.mark.parametrize(
    ("minor", "explicit", "implicit"), [(34, "2", "None"), (35, "5", "4"), (36, "5", "4")]
)
def test_extended_resources(minor: int, explicit: str, implicit: str) -> None:
    """The worked example of KEP-5004: 1.34 measures no implicit names, and claims count since 1.35."""
    gpu, own = {"example.com/gpu": "1"}, {"deviceclass.resource.kubernetes.io/gpu": "1"}
    pods = [
        pod(container(requests=gpu), name="gpu-0"),
        pod(container(requests=gpu), name="gpu-1"),
        pod(container(requests=own), name="gpu-2"),
    ]
    claims = [
        claim("special-1", exactly(), pod_name="gpu-1"),
        claim("special-2", exactly(), pod_name="gpu-2"),
        claim("gpu-3", exactly()),
        claim("gpu-4", exactly()),
    ]
    by_name = {one["metadata"]["name"]: one for one in pods}
    classes = DeviceClasses.of(
        [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]
    )
    facts = ClaimFacts(lambda: classes, lambda _, name: by_name.get(name), lambda _: claims)
    names = (
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/gpu",
        "gpu.deviceclass.resource.k8s.io/devices",
    )
    quota = {"metadata": {"namespace": "n"}, "spec": {"hard": dict.fromkeys(names, "10")}}
    objects = {PODS: pods, CLAIMS: claims}
    known = evaluators(minor, facts, DRAExtendedResource=True)

    found = measure(quota, known, lambda resource, _: objects.get(resource))

    assert [str(found.get(name)) for name in names] == [explicit, implicit, "4"]


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("minor", [34, 35])
def test_quotas_of_pods_by_implicit_names(minor: int, gate: bool) -> None:
    """Since 1.35 pods count for the implicit name of any class, with any gate; before nothing does."""
    pods = evaluators(minor, DRAExtendedResource=gate).of(PODS)
    implicit = "requests.deviceclass.resource.kubernetes.io/gpu"

    matched = pods.matching([implicit, "requests.example.com/gpu", "requests.kubernetes.io/gpu"])
    used = pods.usage(pod(container(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})))

    assert matched == [*([implicit] if minor >= 35 else []), "requests.example.com/gpu"]
    assert (implicit in used) == (minor >= 35)


@pytest.mark.parametrize(
    ("minor", "was", "becomes", "freed"),
    [
        (36, [{"name": "c"}], [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], True),
        (36, [], [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], False),
        (36, [{"name": "c", "resources": {}}], [{"name": "c", "resources": {}, "ready": True}], False),
        (31, [{"name": "c"}], [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], False),
    ],
)
def test_what_statuses_say_of_resources_has_quotas_measured(
    minor: int, was: list[dict[str, Any]], becomes: list[dict[str, Any]], freed: bool
) -> None:
    """Since 1.32 a container whose status says other resources than before has its pod's quotas measured."""
    old, new = (
        {**pod(container()), "status": {"containerStatuses": statuses}} for statuses in (was, becomes)
    )
    pods = evaluators(minor, InPlacePodVerticalScaling=True).of(PODS)

    assert pods.freed(old, new) is freed


@pytest.mark.parametrize("minor", [34, 35, 36])
def test_quotas_of_claims_by_extended_resources(minor: int) -> None:
    """From 1.35 on, by what some class is called; the implicit name needs no explicit one next to it."""
    classes = DeviceClasses.of([{"metadata": {"name": "gpu"}, "spec": {}}])
    facts = ClaimFacts(lambda: classes, lambda *_: None, lambda _: ())
    known = evaluators(minor, facts, DRAExtendedResource=True).of(CLAIMS)
    implicit = "requests.deviceclass.resource.kubernetes.io/"

    found = known.matching([f"{implicit}gpu", f"{implicit}other", "requests.example.com/gpu"])

    assert found == ([f"{implicit}gpu"] if minor >= 35 else [])


@pytest.mark.parametrize("minor", [35, 36])
def test_only_the_first_claim_of_a_pod_is_spared(minor: int) -> None:
    """Of the claims that say they are a pod's, the first by age and name (in 1.35 all), or the pod's own."""
    owner = pod(container(requests={"deviceclass.resource.kubernetes.io/gpu": "1"}), name="p")
    claims = [claim("a", exactly(), pod_name="p"), claim("b", exactly(), pod_name="p")]
    classes = DeviceClasses.of([{"metadata": {"name": "gpu"}, "spec": {}}])
    facts = ClaimFacts(lambda: classes, lambda *_: owner, lambda _: claims)
    evaluator = evaluators(minor, facts, DRAExtendedResource=True).of(CLAIMS)
    name = "requests.deviceclass.resource.kubernetes.io/gpu"

    assert [name in evaluator.usage(one) for one in claims] == [False, minor >= 36]
    owner["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "b"}}
    assert [name in evaluator.usage(one) for one in claims] == [True, False]


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    return {"metadata": {"name": "compute"}, "spec": {"hard": hard, **spec}, "status": status}


@pytest.mark.parametrize(
    ("limits", "what", "expected"),
    [
        (
            quota({"requests.cpu": "2"}, {"requests.cpu": "1"}),
            pod(container(requests={"cpu": "2"})),
            EXCEEDED + "requested: requests.cpu=2, used: requests.cpu=1, limited: requests.cpu=2",
        ),
        (
            quota({"pods": "1", "limits.cpu": "1"}, {"pods": "1", "limits.cpu": "0"}),
            pod(container(limits={"cpu": "1500m"})),
            EXCEEDED
            + "requested: limits.cpu=1500m,pods=1, used: limits.cpu=0,pods=1, limited: limits.cpu=1,pods=1",
        ),
        (
            quota({"limits.cpu": "1"}),
            pod(container("b"), container("a")),
            "failed quota: compute: must specify limits.cpu for: a,b",
        ),
        (
            quota({"pods": "1", "cpu": "1"}, {"cpu": "0"}),
            pod(container(requests={"cpu": "1"})),
            "status unknown for quota: compute, resources: cpu,pods",
        ),
        (quota({"pods": "0"}, scopes=["Terminating"]), pod(container()), ""),
        (quota({"services": "0"}), pod(container()), ""),
        (quota({"pods": "1"}), pod(container()), ""),
    ],
)
def test_checks(limits: dict[str, Any], what: dict[str, Any], expected: str) -> None:
    """A pod that does not fit is refused with what it asked for, what is used and what is allowed."""
    refused = pytest.raises(QuotaError) if expected else nullcontext()

    with refused as error:
        check([limits], QuotaRequest("CREATE", "", what), evaluators().pods)

    assert not expected or (error is not None and str(error.value) == expected)


def test_updates_are_charged_with_what_is_more() -> None:
    """A resize takes the difference, and nothing where it asks for less."""
    old, new = pod(container(requests={"cpu": "1"})), pod(container(requests={"cpu": "3"}))
    limits = quota({"requests.cpu": "4"}, {"requests.cpu": "2"})

    grown = check([limits], QuotaRequest("UPDATE", "resize", new, old), evaluators().pods)
    shrunk = check([limits], QuotaRequest("UPDATE", "resize", old, new), evaluators().pods)

    assert grown[0]["status"]["used"] == {"requests.cpu": "4"}
    assert shrunk[0] is limits


def test_counted_objects() -> None:
    """A resource without an evaluator of its own is counted once per object, at its creation."""
    known = evaluators()
    deployments = known.of(GroupResource("apps", "deployments"))

    assert texts(deployments.usage({})) == {"count/deployments.apps": "1"}
    assert deployments.handles("CREATE", "", {}, None)
    assert not deployments.handles("UPDATE", "", {}, {})
    found = known.for_names(["count/widgets.example.com", "configmaps"])
    assert [str(one.resource) for one in found] == ["configmaps", "widgets.example.com"]
