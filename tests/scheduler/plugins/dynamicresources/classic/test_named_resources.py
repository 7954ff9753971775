"""The scheduler of 1.30 allocates named resources, by structured parameters of classes and claims."""

import asyncio

import pytest
from classic_cluster import DRIVER, ClassicCluster, on
from scheduling_cluster import running

pytestmark = pytest.mark.looptime

FINALIZER = "dra.k8s.io/delete-protection"


def memory(name, amount):
    return {"name": name, "attributes": [{"name": "memory", "quantity": amount}]}


def request(selector="true", **vendor):
    return {**({"vendorParameters": vendor} if vendor else {}), "namedResources": {"selector": selector}}


AT_LEAST_2 = "attributes.quantity['memory'].isGreaterThan(quantity('1Gi'))"
REFERENCE = {"apiGroup": "example.com", "kind": "Wish", "name": "w"}


async def cluster_of(*nodes, **class_fields):
    cluster = ClassicCluster("1.30")
    for node in nodes or ("n0",):
        await cluster.node(node)
    await cluster.resource_class(structuredParameters=True, **class_fields)
    return cluster


async def claim_with(cluster, name="c0", /, **reference):
    spec = {"resourceClassName": "gpu", "allocationMode": "WaitForFirstConsumer", "parametersRef": reference}
    return await cluster.client.create(
        cluster.refs.claims, {"metadata": {"name": name}, "spec": spec}, "default"
    )


async def chosen(cluster, name="c0"):
    claim = await cluster.client.get(cluster.refs.claims, name, "default")
    handles = ((claim.get("status") or {}).get("allocation") or {}).get("resourceHandles") or []
    return [
        result["namedResources"]["name"]
        for handle in handles
        for result in handle["structuredData"].get("results") or ()
    ]


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
async def test_a_claim_without_parameters_gets_any_instance(mode):
    """Allocation, finalizer and reservation are written before the binding; no driver is talked to."""
    cluster = await cluster_of("n0", "n1")
    await cluster.instances("n1", "gpu-0", "gpu-1")
    await cluster.driver_claim(mode=mode)
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert await cluster.node_of() == "n1"
        assert not await cluster.has_context()
    (claim,) = await cluster.claims()
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["driverName"] == DRIVER
    assert claim["status"]["allocation"] == {
        "availableOnNodes": on("n1"),
        "resourceHandles": [
            {
                "driverName": DRIVER,
                "structuredData": {"nodeName": "n1", "results": [{"namedResources": {"name": "gpu-0"}}]},
            }
        ],
        "shareable": True,
    }
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0"]


async def test_vendors_parameters_come_along():
    """The vendors' parameters of class, claim and request stand in the handle, for the driver on the node."""
    reference = {
        "apiGroup": "resource.k8s.io",
        "kind": "ResourceClassParameters",
        "name": "k",
        "namespace": "default",
    }
    cluster = await cluster_of(parametersRef=reference)
    await cluster.instances("n0", memory("small", "1Gi"), memory("big", "2Gi"))
    vendors = [{"driverName": DRIVER, "parameters": {"a": 1}}]
    filters = [{"driverName": DRIVER, "namedResources": {"selector": AT_LEAST_2}}]
    await cluster.parameters("class", "k", vendorParameters=vendors, filters=filters)
    requests = [{"driverName": DRIVER, "vendorParameters": {"b": 2}, "requests": [request(c=3)]}]
    await cluster.parameters("claim", "w", driverRequests=requests)
    await claim_with(cluster, apiGroup="resource.k8s.io", kind="ResourceClaimParameters", name="w")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()
    (claim,) = await cluster.claims()

    assert claim["status"]["allocation"]["resourceHandles"][0]["structuredData"] == {
        "nodeName": "n0",
        "vendorClassParameters": {"a": 1},
        "vendorClaimParameters": {"b": 2},
        "results": [{"vendorRequestParameters": {"c": 3}, "namedResources": {"name": "big"}}],
    }
    assert "shareable" not in claim["status"]["allocation"]


async def test_generated_parameters_are_found_by_their_origin():
    """A pod waits for them; several are an error."""
    cluster = await cluster_of()
    await cluster.instances("n0", memory("small", "1Gi"), memory("big", "2Gi"))
    await claim_with(cluster, **REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].startswith(
            "0/1 nodes are available: generated claim parameters for Wish.example.com default/w not found."
        )
        requests = [{"driverName": DRIVER, "requests": [request(AT_LEAST_2)]}]
        await cluster.parameters("claim", "generated", generatedFrom=REFERENCE, driverRequests=requests)
        await cluster.node_of()
        assert await chosen(cluster) == ["big"]

        await cluster.parameters("claim", "again", generatedFrom=REFERENCE, driverRequests=requests)
        await claim_with(cluster, "c1", **REFERENCE)
        await cluster.claiming_pod("c1", name="p1")

        assert (await cluster.message("p1")) == (
            "SchedulerError",
            (
                'running PreFilter plugin "DynamicResources": multiple generated claim parameters for '
                "Wish.example.com default/w found: [default/again default/generated]"
            ),
        )


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (
            {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "w"},
            "claim parameters default/w not found",
        ),
        (REFERENCE, "generated claim parameters for Wish.example.com default/w not found"),
    ],
)
async def test_missing_parameters(reference, reason):
    """Named directly or by what they are generated from."""
    cluster = await cluster_of()
    await claim_with(cluster, **reference)
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].startswith(f"0/1 nodes are available: {reason}.")


async def test_instances_are_given_once():
    """An instance belongs to one claim; once it is free again, the next pod is tried."""
    cluster = await cluster_of()
    await cluster.instances("n0", "gpu-0")
    await cluster.driver_claim("c0")
    await cluster.driver_claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()
        await cluster.claiming_pod("c1", name="p1")

        assert (await cluster.message("p1"))[1].startswith(
            "0/1 nodes are available: 1 resourceclaim cannot be allocated for the node (unsuitable)."
        )
        await cluster.set_claim_status("c0", allocation=None, reservedFor=None, driverName=None)
        await cluster.node_of("p1")
    assert await chosen(cluster, "c1") == ["gpu-0"]


async def test_requests_are_met_in_order_and_first_fit():
    """Nothing is tried again: the first request takes what the second would have needed."""
    cluster = await cluster_of()
    await cluster.instances("n0", memory("big", "2Gi"), memory("small", "1Gi"))
    for name, wishes in (("good", [AT_LEAST_2, "true"]), ("bad", ["true", AT_LEAST_2])):
        requests = [{"driverName": DRIVER, "requests": [request(wish) for wish in wishes]}]
        await cluster.parameters("claim", name, driverRequests=requests)
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters"}
    await claim_with(cluster, "c0", **reference, name="bad")
    await claim_with(cluster, "c1", **reference, name="good")
    async with running(cluster):
        await cluster.claiming_pod("c0", name="p0")
        await cluster.claiming_pod("c1", name="p1")

        assert "unsuitable" in (await cluster.message("p0"))[1]
        await cluster.node_of("p1")
    assert await chosen(cluster, "c1") == ["big", "small"]


async def test_an_expression_that_fails_keeps_the_node_out():
    """The error is reported as the node's reason."""
    cluster = await cluster_of()
    await cluster.instances("n0", "gpu-0")
    requests = [{"driverName": DRIVER, "requests": [request(AT_LEAST_2)]}]
    await cluster.parameters("claim", "w", driverRequests=requests)
    await claim_with(cluster, apiGroup="resource.k8s.io", kind="ResourceClaimParameters", name="w")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].startswith(
            '0/1 nodes are available: 1 checking structured parameters failed: checking node "n0" and '
            f'resources of driver "{DRIVER}": evaluate request CEL expression: no such key: memory.'
        )


async def test_an_unused_allocation_elsewhere_is_cleared():
    """The scheduler takes back what it gave itself, without asking a driver."""
    cluster = await cluster_of()
    status = {"driverName": DRIVER, "allocation": {"availableOnNodes": on("gone")}}
    await cluster.driver_claim(status=status, finalizers=[FINALIZER])
    await cluster.instances("n0", "gpu-0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()

        assert "deallocation of ResourceClaim completed" in message
        assert await cluster.node_of() == "n0"
    assert await chosen(cluster) == ["gpu-0"]


async def test_a_failed_write_gives_the_instance_back():
    """Nothing stays in flight, and the next attempt has it."""
    cluster = await cluster_of()
    await cluster.instances("n0", "gpu-0")
    await cluster.driver_claim()
    async with running(cluster):
        cluster.fail("PUT", "/resourceclaims/c0/status")
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1] == (
            'running PreBind plugin "DynamicResources": add allocation and reservation to claim default/c0: '
            "out of order"
        )
        await cluster.node_of()
    assert await chosen(cluster) == ["gpu-0"]


async def test_two_claims_of_a_pod_may_get_the_same_instance():
    """Upstream's claims know nothing of each other before they are written; so do ours."""
    cluster = await cluster_of()
    await cluster.instances("n0", "gpu-0", "gpu-1")
    await cluster.driver_claim("c0")
    await cluster.driver_claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        await cluster.node_of()

    assert (await chosen(cluster, "c0"), await chosen(cluster, "c1")) == (["gpu-0"], ["gpu-0"])


async def test_next_to_a_drivers_claim_the_scheduler_waits():
    """A claim of each kind: the driver is asked for the node, and both are had there."""
    cluster = await cluster_of()
    await cluster.instances("n0", "gpu-0")
    await cluster.driver_claim("c0")
    await cluster.resource_class("driven")
    spec = {"resourceClassName": "driven", "allocationMode": "WaitForFirstConsumer"}
    for name in ("c1", "c2"):
        await cluster.client.create(
            cluster.refs.claims, {"metadata": {"name": name}, "spec": spec}, "default"
        )
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1", "c2")
        await cluster.context()
        await asyncio.sleep(2)
        await cluster.answer(c1=[], c2=[])
        await asyncio.sleep(2)

        assert "selectedNode" not in (await cluster.context())["spec"]  # upstream counts so, odd as it is
        assert await chosen(cluster, "c0") == []


async def test_slices_wake_no_pods():
    """A pod that waits for instances is tried again at the flush of what has waited for five minutes."""
    cluster = await cluster_of("n0")
    await cluster.driver_claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.message()
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await cluster.instances("n0", "gpu-0")

        assert await cluster.node_of() == "n0"
        assert 200 <= asyncio.get_running_loop().time() - before <= 400
