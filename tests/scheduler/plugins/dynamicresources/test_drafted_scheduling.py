"""Pods are scheduled together with drivers that allocate their claims, as KEP-3063's draft has it."""

import asyncio

import pytest
from classic_cluster import on
from drafted_cluster import DraftedCluster, scheduler_of
from scheduling_cluster import running

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.scheduler.settings import SchedulerSettings

pytestmark = pytest.mark.looptime

ALLOCATE = "waiting for resource driver to allocate resource"


async def cluster_of(*nodes, **options):
    cluster = DraftedCluster(**options)
    for node in nodes or ("n0",):
        await cluster.node(node)
    body = {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"}
    await cluster.client.create(cluster.refs.device_classes, body)
    return cluster


async def test_a_node_is_selected_and_the_pod_waits_until_the_driver_has_allocated():
    """Potential nodes and the selected one stand in the claim; then the pod is reserved and bound."""
    cluster = await cluster_of("n0", "n1")
    await cluster.claim()
    async with running(cluster):
        pod = await cluster.claiming_pod("c0")
        reason, message = await cluster.message()
        said = await cluster.selected()

        assert (reason, message) == ("Unschedulable", f"0/1 nodes are available: 1 {ALLOCATE}.")
        assert said["potentialNodes"] == ["n0", "n1"]
        assert said["selectedNode"] in ("n0", "n1")
        assert await cluster.users() == []

        await cluster.allocate("c0", said["selectedNode"])
        assert await cluster.node_of() == said["selectedNode"]
    (user,) = (await cluster.read_claim())["status"]["reservedFor"]
    assert user == {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": pod["metadata"]["uid"]}


async def test_all_claims_of_a_pod_are_asked_for_the_same_node():
    """Each driver gets the node; the pod starts where all can be used, when all are allocated."""
    cluster = await cluster_of("n0", "n1")
    await cluster.claim("c0")
    await cluster.claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        node = (await cluster.selected())["selectedNode"]
        await cluster.selected(node, "c1")
        await cluster.allocate("c0", node)
        await asyncio.sleep(20)
        assert (await cluster.read())["spec"].get("nodeName") is None
        assert await cluster.users("c0") == []  # nobody has it until all are there

        await cluster.allocate("c1", node)
        assert await cluster.node_of() == node
    assert (await cluster.users("c0"), await cluster.users("c1")) == (["p0"], ["p0"])


async def test_a_pod_that_waits_for_its_driver_writes_nothing_again():
    """A driver that is away costs no requests: the node stays selected, though others fit as well."""
    cluster = await cluster_of("n0", "n1", "n2", "n3")
    await cluster.claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        first = (await cluster.selected())["selectedNode"]
        await asyncio.sleep(1)
        writes = cluster.writes()
        for name in ("n4", "n5"):  # wakes the pod; only its potential nodes are new
            await cluster.node(name)
            await asyncio.sleep(20)
        assert cluster.writes() == writes + 2
        cluster.server.requests.clear()
        await asyncio.sleep(280)

        assert (await cluster.selected())["selectedNode"] == first
        assert [request.method for request in cluster.server.requests if request.method != "GET"] == []


@pytest.mark.parametrize("driver", [{"unsuitableNodes": ["n0"]}, {"availableOnNodes": on("n1")}])
async def test_the_driver_may_rule_nodes_out_before_it_allocates(driver):
    """Nodes that it lists, and those that its selector leaves out."""
    cluster = await cluster_of("n0", "n1")
    await cluster.claim(status={"scheduling": {"driver": driver}})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        said = await cluster.selected()

        assert said == {"selectedNode": "n1", "potentialNodes": ["n1"]}


async def test_another_node_is_selected_when_the_first_does_not_suit():
    """A pod is woken by the driver's word that the selected node is unsuitable, and selects another."""
    cluster = await cluster_of("n0", "n1")
    await cluster.claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        first = (await cluster.selected())["selectedNode"]
        other = {"n0": "n1", "n1": "n0"}[first]
        await cluster.say_as_driver(unsuitableNodes=[first])
        assert await cluster.selected(other) == {"selectedNode": other, "potentialNodes": [other]}
        await cluster.allocate("c0", other)

        assert await cluster.node_of() == other


async def test_no_node_suits():
    """The reason is reported per node, and nothing is freed for it."""
    cluster = await cluster_of("n0", "n1")
    await cluster.claim(status={"scheduling": {"driver": {"unsuitableNodes": ["n0", "n1"]}}})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()

        assert message.startswith(
            "0/2 nodes are available: 2 resourceclaim cannot be allocated for the node (unsuitable)."
        )
        await cluster.say_as_driver(unsuitableNodes=["n0"])
        assert (await cluster.selected())["selectedNode"] == "n1"


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("Immediate", {}, "unallocated immediate resourceclaim"),
        ("Delayed", {"phase": "Reallocate"}, "resourceclaim must be reallocated"),
        (
            "Delayed",
            {"phase": "Allocated", "reservedFor": [{"kind": "Pod", "name": "other", "uid": "u"}]},
            "resourceclaim in use",
        ),
    ],
)
async def test_a_claim_that_somebody_has_to_change_first_makes_the_pod_wait(mode, status, reason):
    """No node is looked at; the pod goes on as soon as the claim is free and allocated."""
    cluster = await cluster_of()
    await cluster.claim("c0", mode, status=status)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()
        assert message.startswith(f"0/1 nodes are available: {reason}.")
        assert scheduler_of(await cluster.read_claim()) == {}

        await cluster.allocate("c0", "n0", reservedFor=None)
        assert await cluster.node_of() == "n0"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            {"name": "gpu", "template": {"spec": {"resourceClassName": "gpu"}}},
            'waiting for dynamic resource controller to create the resourceclaim "p0-gpu"',
        ),
        ({"name": "gpu", "resourceClaimName": "none"}, 'resourceclaim.cdi.k8s.io "none" not found'),
    ],
)
async def test_a_missing_claim_is_waited_for(entry, reason):
    """A missing claim is named; when it comes, the pod is tried again."""
    cluster = await cluster_of()
    async with running(cluster):
        pod = await cluster.pod("p0", resourceClaims=[entry])
        _, message = await cluster.message()
        assert reason in message

        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": pod["metadata"]["uid"]}
        name = "p0-gpu" if "template" in entry else "none"
        await cluster.claim(name, ownerReferences=[{**owner, "controller": True}])
        await cluster.selected("n0", name)
        await cluster.allocate(name)
        assert await cluster.node_of() == "n0"


async def test_a_claim_of_another_pod_is_not_used():
    """A claim of the right name that the pod does not own blocks it."""
    cluster = await cluster_of()
    await cluster.claim("p0-gpu", status={"phase": "Allocated"})
    async with running(cluster):
        await cluster.pod(
            "p0", resourceClaims=[{"name": "gpu", "template": {"spec": {"resourceClassName": "gpu"}}}]
        )
        _, message = await cluster.message()

    assert "ResourceClaim default/p0-gpu was not created for pod default/p0 (pod is not owner)" in message


async def test_a_missing_class_is_reported_and_waited_for():
    """A pod whose claim's class is missing is informed, and tried again when the class comes."""
    cluster = DraftedCluster()
    await cluster.node()
    await cluster.claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()
        assert "resource class gpu does not exist" in message

        body = {"metadata": {"name": "gpu"}, "driverName": "d"}
        await cluster.client.create(cluster.refs.device_classes, body)
        assert (await cluster.selected())["selectedNode"] == "n0"


async def test_an_allocated_claim_needs_no_class():
    """The class may be gone before the claim."""
    cluster = DraftedCluster()
    await cluster.node()
    await cluster.claim(status={"phase": "Allocated"})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        assert await cluster.node_of() == "n0"


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (2, 2), (-1, 3)])
async def test_pods_share_a_claim_up_to_its_limit(limit, most):
    """The others wait, and take the place of one that leaves."""
    cluster = await cluster_of()
    await cluster.claim(status={"phase": "Allocated", "userLimit": limit})
    async with running(cluster):
        for name in ("p0", "p1", "p2"):
            await cluster.claiming_pod("c0", name=name)
        await asyncio.sleep(5)
        running_pods = [
            pod["metadata"]["name"]
            for pod in (await cluster.client.list(PODS))["items"]
            if pod["spec"].get("nodeName")
        ]
        users = await cluster.users()

        assert len(running_pods) == most
        assert sorted(users) == sorted(running_pods)
        if most < 3:
            reserved = (await cluster.read_claim())["status"]["reservedFor"]
            await cluster.client.delete(PODS, users[0], "default")
            await cluster.set_claim_status(reservedFor=reserved[1:] or None)
            await asyncio.sleep(15)
            assert len(await cluster.users()) == most
            assert not {users[0]} & set(await cluster.users())


async def test_a_claim_where_the_pod_cannot_run_is_freed():
    """An unused delayed claim on a node that is full for the pod is given back, then had elsewhere."""
    cluster = await cluster_of("n0")
    await cluster.node("n1", cpu="1")
    await cluster.claim()
    await cluster.allocate("c0", "n1")
    async with running(cluster):
        await cluster.pod("p0", {"cpu": "2"}, resourceClaims=[{"name": "c0", "resourceClaimName": "c0"}])
        freed = await cluster.until_claim(lambda claim: claim["status"]["phase"] == "Reallocate")
        assert scheduler_of(freed) == {}  # else the driver would allocate for that node again

        await cluster.set_claim_status(phase="Pending", scheduling=None, driverName=None)
        assert await cluster.selected() == {"selectedNode": "n0", "potentialNodes": ["n0"]}
        await cluster.allocate("c0", "n0")
        assert await cluster.node_of() == "n0"


async def test_one_claim_is_freed_at_a_time():
    """Two claims stand in the way; the second is asked for when the first is free and it did not help."""
    cluster = await cluster_of("n0")
    await cluster.node("n1", cpu="1")
    for name in ("c0", "c1"):
        await cluster.claim(name)
        await cluster.allocate(name, "n1")

    async def being_freed():
        claims = [await cluster.read_claim(name) for name in ("c0", "c1")]
        return [claim["metadata"]["name"] for claim in claims if claim["status"]["phase"] == "Reallocate"]

    async with running(cluster):
        entries = [{"name": name, "resourceClaimName": name} for name in ("c0", "c1")]
        await cluster.pod("p0", {"cpu": "2"}, resourceClaims=entries)
        await asyncio.sleep(60)
        (first,) = await being_freed()
        await cluster.set_claim_status(first, phase="Pending", scheduling=None, driverName=None)
        await asyncio.sleep(60)
        (second,) = await being_freed()

    assert {first, second} == {"c0", "c1"}


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        pytest.param("Immediate", {}, id="immediate"),
        pytest.param("Delayed", {"reservedFor": [{"kind": "Job", "uid": "u"}], "userLimit": 2}, id="in use"),
    ],
)
async def test_claims_that_are_not_freed(mode, status):
    """A claim that was allocated without a pod, or that somebody uses, is not freed."""
    cluster = await cluster_of("n0")
    await cluster.node("n1", cpu="1")
    await cluster.claim("c0", mode)
    await cluster.allocate("c0", "n1", **status)
    async with running(cluster):
        await cluster.pod("p0", {"cpu": "2"}, resourceClaims=[{"name": "c", "resourceClaimName": "c0"}])
        _, message = await cluster.message()
        await asyncio.sleep(20)

    assert "resourceclaim not available on the node" in message
    assert (await cluster.read_claim())["status"]["phase"] == "Allocated"


async def test_a_pod_that_cannot_be_bound_gives_its_reservation_back():
    """Unreserve takes the pod from the users; the next attempt reserves again."""
    cluster = await cluster_of()
    await cluster.claim(status={"phase": "Allocated"})
    cluster.fail("POST", "/pods/p0/binding")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        dropped = await cluster.until_claim(
            lambda claim: cluster.writes() > 1 and not claim["status"].get("reservedFor")
        )
        assert dropped["status"]["phase"] == "Allocated"
        assert await cluster.node_of() == "n0"
    assert await cluster.users() == ["p0"]


async def test_a_scheduler_that_died_before_binding_is_followed_by_one_that_binds():
    """The reservation is the pod's already; nothing is written but the binding."""
    cluster = await cluster_of()
    pod = await cluster.claiming_pod("c0")
    user = {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": pod["metadata"]["uid"]}
    await cluster.claim(status={"phase": "Allocated", "reservedFor": [user]})
    async with running(cluster):
        assert await cluster.node_of() == "n0"

    assert cluster.writes() == 0


async def test_a_reservation_that_another_scheduler_was_faster_with_is_no_binding():
    """The write of an older claim is refused; the pod waits for the claim."""
    cluster = await cluster_of()
    await cluster.claim(status={"phase": "Allocated"})
    raced = []

    def race(request):
        if request.method == "PUT" and "/resourceclaims/c0/status" in request.target and not raced:
            raced.append(True)
            return errors.conflict(cluster.refs.claims.group_resource, "c0", "it has been modified")
        return None

    cluster.server.outage = race
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await asyncio.sleep(0.5)
        assert (await cluster.read())["spec"].get("nodeName") is None
        assert await cluster.node_of() == "n0"
    assert raced


async def test_without_the_gate_claims_are_as_if_not_asked_for():
    """The pod is scheduled at once, and its claim is left alone."""
    cluster = await cluster_of(DynamicResourceAllocation=False)
    await cluster.claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        assert await cluster.node_of() == "n0"

    assert cluster.writes() == 0


async def test_a_pod_without_claims_is_not_concerned():
    """Nothing is asked of it."""
    cluster = await cluster_of(settings=SchedulerSettings())
    async with running(cluster):
        await cluster.pod()
        assert await cluster.node_of() == "n0"


async def test_parameters_and_attributes_mean_nothing_to_the_scheduler():
    """Claims of any parameters are asked for alike, and those of any attributes are used alike."""
    written = []
    for parameters, attributes in (
        ({}, {}),
        ({"memory": "9Ei", "count": [-1]}, {"node": "n1", "free": "no"}),
    ):
        cluster = await cluster_of("n0")
        claim = await cluster.claim()
        await cluster.client.update(
            cluster.refs.claims, {**claim, "spec": {**claim["spec"], "parameters": parameters}}
        )
        async with running(cluster):
            await cluster.claiming_pod("c0")
            said = await cluster.selected()
            await cluster.allocate(attributes=attributes)
            written.append((said, await cluster.node_of(), await cluster.users()))

    assert written == [({"selectedNode": "n0", "potentialNodes": ["n0"]}, "n0", ["p0"])] * 2
