"""Claims that are reserved for groups of pods, or made for another pod."""

import asyncio

import pytest
from dynamic_cluster import CLAIM, bound, one_node, only_claim
from scheduling_cluster import running

from kubeskew.apimachinery.client.refs import pod_groups_ref

pytestmark = pytest.mark.looptime

GROUPED = {"schedulingGroup": {"podGroupName": "g"}}


async def test_a_claim_of_a_group_is_reserved_for_the_group():
    """All pods of the group share one entry (DRAWorkloadResourceClaims)."""
    gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    cluster = await one_node(**gates)
    ref = pod_groups_ref(cluster.version)
    group = {"metadata": {"name": "g"}, "spec": {"resourceClaims": CLAIM}}
    made = await cluster.client.create(ref, group, "default")
    await cluster.claim()
    async with running(cluster):
        for name in ("p0", "p1"):
            await cluster.pod(name, resourceClaims=CLAIM, **GROUPED)
            await bound(cluster, name)

        assert (await only_claim(cluster))["status"]["reservedFor"] == [
            {
                "apiGroup": "scheduling.k8s.io",
                "resource": "podgroups",
                "name": "g",
                "uid": made["metadata"]["uid"],
            }
        ]


async def test_without_the_gate_pods_of_a_group_stand_for_themselves():
    """Each has an entry of its own."""
    cluster = await one_node()
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM, **GROUPED)
        await bound(cluster)

        (entry,) = (await only_claim(cluster))["status"]["reservedFor"]
        assert (entry["resource"], entry["name"]) == ("pods", "p0")


@pytest.mark.parametrize(
    ("version", "who", "gates"),
    [
        ("1.35", "pod default/p0 (pod is not owner)", {}),
        ("1.36", "Pod default/p0 (Pod is not owner)", {}),
        (
            "1.36",
            "Pod default/p0 (neither Pod nor PodGroup g is the owner)",
            {"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
        ),
    ],
)
async def test_a_claim_made_for_another_pod(version, who, gates):
    """Nobody gets a claim that was generated for somebody else."""
    cluster = await one_node(version, **gates)
    await cluster.claim()
    made = [{"name": "x", "resourceClaimTemplateName": "t"}]
    await cluster.pod(
        resourceClaims=made,
        status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c0"}]},
        **GROUPED,
    )
    async with running(cluster):
        await asyncio.sleep(1)
        assert cluster.service.queue.sizes["gated"] == 1

        (profile,) = cluster.service.scheduler.profiles.values()
        (plugin,) = [plugin for plugin in profile.plugins if plugin.name == "DynamicResources"]
        queued = next(iter(cluster.service.queue._waiting))
        said = plugin.pre_enqueue(queued.info)
    assert said.message == f"ResourceClaim default/c0 was not created for {who}"
