"""Claims of groups of pods: made once, shared by the members, held for the group."""

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs, pod_groups_ref
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

V36, V37 = Version(36), Version(37)
REFS = dra_refs(V36)
ON = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True}
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "t"}
TEMPLATE = {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"spec": {"devices": {"requests": []}}}}


def pod(name, node=""):
    spec = {"nodeName": node, "resourceClaims": [ENTRY], "schedulingGroup": {"podGroupName": "g"}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def group(*entries):
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"resourceClaims": [*entries]}}


async def claims_of(cluster):
    return (await cluster.client.list(REFS.claims, "ns"))["items"]


async def statuses(cluster, ref, name):
    return ((await cluster.client.get(ref, name, "ns")).get("status") or {}).get("resourceClaimStatuses")


@pytest.mark.parametrize("version", [V36, V37])
async def test_members_share_the_claim_of_their_group(make_cluster, version):
    """One claim, owned by the group, in its status and that of each member, reserved for the group."""
    cluster, ref = make_cluster(version, gates=ON), pod_groups_ref(version)
    await cluster.client.create(REFS.claim_templates, TEMPLATE)
    made = await cluster.client.create(ref, group(ENTRY))
    for name in "ab":
        await cluster.client.create(PODS, pod(name, node="n"))
    await cluster.start(ResourceClaimController)
    await cluster.until(lambda: statuses(cluster, PODS, "b"))
    [claim] = await claims_of(cluster)

    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["apiVersion"]) == (
        "PodGroup", made["metadata"]["uid"], ref.api_version
    )  # fmt: skip
    assert claim["metadata"]["name"].startswith("g-gpu-")
    named = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
    assert await statuses(cluster, ref, "g") == named
    assert await statuses(cluster, PODS, "a") == named

    allocated = {**claim, "status": {"allocation": {"devices": {}}}}
    await cluster.client.update(REFS.claims, allocated, "status")
    await cluster.quiet()
    [claim] = await claims_of(cluster)
    assert claim["status"]["reservedFor"] == [
        {
            "apiGroup": "scheduling.k8s.io",
            "resource": "podgroups",
            "name": "g",
            "uid": made["metadata"]["uid"],
        }
    ]


@pytest.mark.parametrize("version", [V36, V37])
async def test_a_claim_that_is_not_the_groups_is_the_pods(make_cluster, version):
    """The entries must be the same. 1.37 counts by the kind of owner, 1.36 all together."""
    cluster = make_cluster(version, gates=ON)
    await cluster.client.create(REFS.claim_templates, TEMPLATE)
    await cluster.client.create(pod_groups_ref(version), group({**ENTRY, "name": "other"}))
    await cluster.client.create(PODS, pod("a"))
    await cluster.start(ResourceClaimController)
    await cluster.until(lambda: statuses(cluster, PODS, "a"))
    await cluster.quiet()
    owners = sorted(claim["metadata"]["ownerReferences"][0]["kind"] for claim in await claims_of(cluster))
    assert owners == ["Pod", "PodGroup"]

    lines = generate_latest(cluster.context.registry).decode().splitlines()
    creations = {line for line in lines if "creates_total{" in line}
    if version == V36:
        assert creations == {
            'resourceclaim_controller_creates_total{admin_access="false",status="success"} 2.0'
        }
        return
    name, common = "dynamic_resource_allocation_resourceclaim_creates_total", 'admin_access="false",owner_api'
    assert creations == {
        f'{name}{{{common}_group="{api_group}",owner_api_kind="{kind}",status="success"}} 1.0'
        for api_group, kind in (("", "Pod"), ("scheduling.k8s.io", "PodGroup"))
    }


@pytest.mark.parametrize(
    ("gates", "with_group", "text"),
    [
        ({}, True, "GenericWorkload feature is disabled"),
        ({"GenericWorkload": True}, True, "DRAWorkloadResourceClaims feature is disabled"),
        ({"GenericWorkload": True}, False, 'podgroup.scheduling.k8s.io "g" not found'),
    ],
)
async def test_without_gates_or_group_there_is_no_claim(make_cluster, gates, with_group, text):
    """1.37 says why."""
    cluster = make_cluster(V37, gates=gates)
    await cluster.client.create(REFS.claim_templates, TEMPLATE)
    if with_group:
        await cluster.client.create(pod_groups_ref(V37), group(ENTRY))
    await cluster.client.create(PODS, pod("a"))
    await cluster.start(ResourceClaimController)
    await cluster.quiet()
    assert await claims_of(cluster) == []
    messages = {obj["message"] for obj in (await cluster.client.list(EVENTS, "ns"))["items"]}
    assert messages == {f"PodResourceClaim gpu: {text}"}


@pytest.mark.parametrize(("gates", "left"), [(ON, False), ({}, True)])
async def test_a_group_that_is_gone_holds_nothing(make_cluster, gates, left):
    """With the gates; without them its reservation stays, and so does that of things nobody knows."""
    cluster = make_cluster(V36, gates=gates)
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}
    claim = {
        "metadata": {
            "name": "c",
            "namespace": "ns",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {}}, "reservedFor": [user]},
    }
    await cluster.client.create(REFS.claims, claim)
    await cluster.start(ResourceClaimController)
    await cluster.quiet()
    found = await cluster.client.get(REFS.claims, "c", "ns")
    assert bool(found["status"].get("allocation")) is left
    assert bool(found["metadata"].get("finalizers")) is left


async def test_unknown_users_stay(make_cluster):
    """Since 1.36 they do not keep the reservations of pods that are gone."""
    cluster = make_cluster(V36)
    other = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "1"}
    gone = {"resource": "pods", "name": "p", "uid": "2"}
    claim = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {}}, "reservedFor": [gone, other]},
    }
    await cluster.client.create(REFS.claims, claim)
    await cluster.start(ResourceClaimController)
    await cluster.quiet()
    assert (await cluster.client.get(REFS.claims, "c", "ns"))["status"]["reservedFor"] == [other]
