"""Pods are scheduled together with drivers that allocate their claims, 1.26 to 1.30."""

import asyncio

import pytest
from classic_cluster import MINORS, ClassicCluster, on
from scheduling_cluster import running

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.scheduler.settings import SchedulerSettings

pytestmark = pytest.mark.looptime

ALLOCATE = "waiting for resource driver to allocate resource"
INFORM = "waiting for resource driver to provide information"
BOUND_LATE = "waiting for resource driver"


async def cluster_of(version, *nodes, **more):
    cluster = ClassicCluster(version, **more)
    for node in nodes or ("n0",):
        await cluster.node(node)
    await cluster.resource_class()
    return cluster


def waits(version, what):
    """Returns the reason while a driver is at work; since 1.30 it is reported in PreBind."""
    return what if version < "1.30" else BOUND_LATE


@pytest.mark.parametrize("version", MINORS)
async def test_one_claim_is_allocated_for_the_node_that_is_chosen_at_once(version):
    """The context names the node as selected and potential; it goes once the pod is bound."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    async with running(cluster):
        pod = await cluster.claiming_pod("c0")
        reason, message = await cluster.message()
        context = await cluster.context()

        assert (reason, message) == (
            "Unschedulable",
            f"0/1 nodes are available: 1 {waits(version, ALLOCATE)}.",
        )
        assert context["spec"] == {"selectedNode": "n0", "potentialNodes": ["n0"]}
        (owner,) = context["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (pod["metadata"]["uid"], True)
        assert owner.get("blockOwnerDeletion", False) is (version >= "1.30")

        await cluster.allocate("c0", "n0")

        assert await cluster.node_of() == "n0"
        await asyncio.sleep(1)
        assert not await cluster.has_context()
    (claim,) = await cluster.claims()
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0"]


@pytest.mark.parametrize("version", MINORS)
async def test_the_driver_may_reserve_for_the_pod_itself(version):
    """Nothing is left to write for the scheduler then, but the binding."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    async with running(cluster):
        pod = await cluster.claiming_pod("c0")
        await cluster.selected("n0")
        mine = {"resource": "pods", "name": "p0", "uid": pod["metadata"]["uid"]}
        cluster.server.requests.clear()
        await cluster.allocate("c0", "n0", reservedFor=[mine])

        assert await cluster.node_of() == "n0"
    own = [request for request in cluster.server.requests if "/resourceclaims/c0" in request.target]
    assert [request.method for request in own if request.method in ("PUT", "PATCH")] == [
        "PUT"
    ]  # the driver's


@pytest.mark.parametrize("version", MINORS)
async def test_two_claims_are_asked_about_before_a_node_is_selected(version):
    """Potential nodes are named first; when all drivers have answered, one that suits is selected."""
    cluster = await cluster_of(version, "n0", "n1")
    await cluster.driver_claim("c0")
    await cluster.driver_claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        _, message = await cluster.message()
        context = await cluster.context()

        assert message == f"0/2 nodes are available: 1 {waits(version, INFORM)}.".replace("0/2", "0/1")
        assert context["spec"] == {"potentialNodes": ["n0", "n1"]}

        await cluster.answer(c0=["n0"], c1=[])
        await cluster.selected("n1")
        await cluster.allocate("c0", "n1")
        await cluster.allocate("c1", "n1")

        assert await cluster.node_of() == "n1"


@pytest.mark.parametrize("version", MINORS)
async def test_half_an_answer_is_not_enough(version):
    """A driver that has not answered keeps the node from being selected."""
    cluster = await cluster_of(version)
    await cluster.driver_claim("c0")
    await cluster.driver_claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        await cluster.context()
        await cluster.answer(c0=[])
        await asyncio.sleep(30)

        assert "selectedNode" not in (await cluster.context())["spec"]


@pytest.mark.parametrize("version", MINORS)
async def test_another_node_is_selected_when_the_first_does_not_suit(version):
    """The driver lists the selected node as unsuitable, and the pod moves on."""
    cluster = await cluster_of(version, "n0", "n1")
    await cluster.driver_claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        first = (await cluster.context())["spec"]["selectedNode"]
        other = {"n0": "n1", "n1": "n0"}[first]
        await cluster.answer(c0=[first])
        await cluster.selected(other)
        await cluster.allocate("c0", other)

        assert await cluster.node_of() == other


@pytest.mark.parametrize("version", MINORS)
async def test_no_node_suits(version):
    """The reason is reported per node."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.context()
        await cluster.answer(c0=["n0"])
        await asyncio.sleep(5)
        *_, message = await cluster.events("FailedScheduling")

    assert message.startswith(
        "0/1 nodes are available: 1 resourceclaim cannot be allocated for the node (unsuitable)."
    )


@pytest.mark.parametrize(
    ("version", "seconds"),
    [("1.26", 2), ("1.28", 2), ("1.29", 0.5), ("1.30", 0.5), ("1.31", 0.5)],
)
async def test_waiting_for_a_driver_is_no_rejection_since_1_29(version, seconds):
    """The pod is tried again as soon as the driver has answered, where it backed off before."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    loop = asyncio.get_running_loop()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.message()
        await asyncio.sleep(1.5)  # its own context woke it once, in vain
        began = loop.time()
        await cluster.allocate("c0", "n0")
        await cluster.node_of()
        took = loop.time() - began

    assert took <= seconds
    assert (took >= 0.5) is (seconds > 0.5)


@pytest.mark.parametrize("version", MINORS[:-1])
async def test_an_immediate_claim_is_waited_for(version):
    """The driver of an immediate claim allocates it without a pod; the pod goes where it is then."""
    cluster = await cluster_of(version, "n0", "n1")
    await cluster.driver_claim(mode="Immediate")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].startswith(
            "0/2 nodes are available: unallocated immediate resourceclaim."
        )
        await cluster.allocate("c0", "n1")
        assert await cluster.node_of() == "n1"
        assert not await cluster.has_context()


@pytest.mark.parametrize("version", MINORS)
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param({"deallocationRequested": True}, "resourceclaim must be reallocated", id="given back"),
        pytest.param(
            {"reservedFor": [{"resource": "pods", "name": "other", "uid": "u"}]},
            "resourceclaim in use",
            id="in use",
        ),
    ],
)
async def test_a_claim_that_others_hold_makes_the_pod_wait(version, status, reason):
    """A claim without `shareable` has one user; 1.31 shares every claim."""
    cluster = await cluster_of(version)
    allocation = cluster.allocation(shareable=False)
    await cluster.driver_claim(status={"allocation": allocation, **status})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        if version == "1.31" and "reservedFor" in status:
            assert await cluster.node_of() == "n0"
            return

        assert (await cluster.message())[1].startswith(f"0/1 nodes are available: {reason}.")


@pytest.mark.parametrize("version", MINORS)
async def test_a_shared_claim_brings_pods_to_its_node(version):
    """All reserve it; nobody asks the driver again."""
    cluster = await cluster_of(version, "n0", "n1")
    await cluster.driver_claim(status={"allocation": cluster.allocation("n1")})
    async with running(cluster):
        for name in ("p0", "p1", "p2"):
            await cluster.claiming_pod("c0", name=name)
            assert await cluster.node_of(name) == "n1"
    (claim,) = await cluster.claims()
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0", "p1", "p2"]


@pytest.mark.parametrize("version", MINORS)
async def test_the_class_says_which_nodes_suit(version):
    """Nodes outside of its filter are not asked about."""
    cluster = ClassicCluster(version)
    await cluster.node("n0")
    await cluster.resource_class(suitable=on("other"))
    await cluster.driver_claim()
    word = "device" if version == "1.31" else "resource"
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].startswith(
            f"0/1 nodes are available: 1 excluded by {word} class node filter."
        )


@pytest.mark.parametrize(
    ("version", "reason", "message"),
    [
        ("1.26", "SchedulerError", 'look up resource class: resourceclass.resource.k8s.io "gpu" not found'),
        ("1.27", "SchedulerError", 'look up resource class: resourceclass.resource.k8s.io "gpu" not found'),
        ("1.28", "SchedulerError", 'look up resource class: resourceclass.resource.k8s.io "gpu" not found'),
        ("1.29", "Unschedulable", "resource class gpu does not exist"),
        ("1.30", "Unschedulable", "resource class gpu does not exist"),
        ("1.31", "Unschedulable", "request r: device class gpu does not exist"),
    ],
)
async def test_a_missing_class(version, reason, message):
    """First an error of each node, later a reason to wait for the class."""
    cluster = ClassicCluster(version)
    await cluster.node("n0")
    await cluster.driver_claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        condition = await cluster.message()

        assert condition[0] == reason
        assert message in condition[1]

        await cluster.resource_class()
        await cluster.selected("n0")


@pytest.mark.parametrize("version", MINORS)
async def test_an_unused_claim_elsewhere_is_given_back(version):
    """PostFilter asks the driver for it, with the selected node withdrawn; from 1.30 on it says so."""
    cluster = await cluster_of(version)
    await cluster.driver_claim(status={"allocation": cluster.allocation("gone")})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()

        assert message.startswith("0/1 nodes are available: 1 resourceclaim not available on the node.")
        assert ("deallocation of ResourceClaim completed" in message) is (version >= "1.30")
        (claim,) = await cluster.claims()
        assert claim["status"]["deallocationRequested"]
        assert claim["status"]["allocation"]

        await cluster.set_claim_status(allocation=None, deallocationRequested=None, driverName=None)
        await cluster.selected("n0")


@pytest.mark.parametrize("version", MINORS)
async def test_a_node_is_withdrawn_before_its_claim_is_given_back(version):
    """Otherwise the driver would allocate for it again; before 1.29 it does."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.selected("n0")
        await cluster.allocate("c0", "gone")
        await asyncio.sleep(5)
        spec = (await cluster.context())["spec"]

    assert ("selectedNode" in spec) is (version < "1.29")


@pytest.mark.parametrize(
    ("mode", "users", "reason"),
    [
        pytest.param("Immediate", [], "still not schedulable", id="immediate"),
        pytest.param(
            "WaitForFirstConsumer",
            [{"resource": "pods", "name": "other", "uid": "u"}],
            "still not schedulable",
            id="used",
        ),
    ],
)
@pytest.mark.parametrize("version", ["1.26", "1.30"])
async def test_what_others_need_is_not_given_back(version, mode, users, reason):
    """A claim that was allocated at once, or that another pod uses, is not given back."""
    cluster = await cluster_of(version)
    status = {"allocation": cluster.allocation("gone"), "reservedFor": users}
    await cluster.driver_claim(mode=mode, status=status)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        _, message = await cluster.message()
    (claim,) = await cluster.claims()

    assert reason in message
    assert "deallocationRequested" not in claim["status"]


@pytest.mark.parametrize("version", ["1.29", "1.30"])
async def test_until_1_29_a_claim_that_was_allocated_at_once_may_be_given_back(version):
    """It was noted if a claim in a place before it was allocated for a pod (pull request 122415)."""
    cluster = await cluster_of(version)
    await cluster.driver_claim("c0", status={"allocation": cluster.allocation("n0")})
    await cluster.driver_claim("c1", mode="Immediate", status={"allocation": cluster.allocation("gone")})
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        await cluster.message()
    given_back = [
        claim["metadata"]["name"]
        for claim in await cluster.claims()
        if claim["status"].get("deallocationRequested")
    ]

    assert given_back == (["c1"] if version == "1.29" else [])


@pytest.mark.parametrize("version", MINORS)
async def test_the_context_of_another_pod_is_an_error(version):
    """The pod before it had the same name, and its context is still there."""
    cluster = await cluster_of(version)
    await cluster.driver_claim()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "other", "controller": True}
    metadata = {"name": "p0", "ownerReferences": [owner]}
    stale = await cluster.client.create(cluster.contexts, {"metadata": metadata, "spec": {}}, "default")
    kind = "PodScheduling" if version == "1.26" else "PodSchedulingContext"
    uid = stale["metadata"]["uid"]
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert await cluster.message() == (
            "SchedulerError",
            (
                f'running PreFilter plugin "DynamicResources": {kind} with UID {uid} is not owned by '
                "Pod default/p0"
            ),
        )


@pytest.mark.parametrize(
    ("version", "succeeds"), [("1.27", False), ("1.28", False), ("1.29", True), ("1.30", True)]
)
async def test_since_1_29_a_conflict_is_overcome_by_an_apply(version, succeeds):
    """The driver wrote in between; the scheduler's part of the object is its own."""
    cluster = await cluster_of(version, "n0", "n1")
    await cluster.driver_claim()
    refused = []

    def outage(request):
        if request.method == "PUT" and "/podschedulingcontexts/p0" in request.target and not refused:
            if "status" in request.target:
                return None
            refused.append(request)
            return StatusError(409, "Conflict", "the object has been modified")
        return None

    async with running(cluster):
        await cluster.claiming_pod("c0")
        first = (await cluster.context())["spec"]["selectedNode"]
        cluster.server.outage = outage
        cluster.server.requests.clear()
        await cluster.answer(c0=[first])
        await cluster.selected({"n0": "n1", "n1": "n0"}[first])
    applied = [
        request
        for request in cluster.server.requests
        if request.method == "PATCH" and "contexts" in request.target
    ]

    assert refused
    assert bool(applied) is succeeds


@pytest.mark.parametrize("version", ["1.26", "1.29", "1.30"])
async def test_what_is_reserved_is_given_up_when_another_claim_has_to_wait(version):
    """Until 1.29 Reserve writes, and Unreserve takes it back; later nothing was written."""
    cluster = await cluster_of(version)
    await cluster.driver_claim("c0", status={"allocation": cluster.allocation("n0")})
    await cluster.driver_claim("c1")
    async with running(cluster):
        cluster.server.requests.clear()
        await cluster.claiming_pod("c0", "c1")
        await cluster.message()
        await cluster.selected("n0")
        await asyncio.sleep(0.1)
    claim = await cluster.client.get(cluster.refs.claims, "c0", "default")
    writes = [request for request in cluster.server.requests if "/resourceclaims/c0" in request.target]
    writes = [write for write in writes if write.method == "PUT"]

    assert not claim["status"].get("reservedFor")
    assert bool(writes) is (version < "1.30")


@pytest.mark.parametrize("version", MINORS)
async def test_generated_claims_are_waited_for(version):
    """Until 1.27 by their name, then by the pod's status, before the pod is even tried."""
    cluster = await cluster_of(version)
    source = {"resourceClaimTemplateName": "t"}
    entry = {"name": "gpu", **(source if version == "1.31" else {"source": source})}
    async with running(cluster):
        pod = await cluster.pod("p0", resourceClaims=[entry])
        if version < "1.28":
            assert (await cluster.message())[1].startswith(
                "0/1 nodes are available: waiting for dynamic resource controller to create the "
                'resourceclaim "p0-gpu".'
            )
        else:
            await asyncio.sleep(5)
            assert not (await cluster.read()).get("status", {}).get("conditions")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p0",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        await cluster.driver_claim("p0-gpu", ownerReferences=[owner])
        if version >= "1.28":
            pod = await cluster.read()
            statuses = [{"name": "gpu", "resourceClaimName": "p0-gpu"}]
            pod["status"] = {**pod.get("status", {}), "resourceClaimStatuses": statuses}
            await cluster.client.update(PODS, pod, "status")
        await cluster.selected("n0")


@pytest.mark.parametrize("version", MINORS)
async def test_at_most_128_nodes_are_asked_about(version):
    """A random choice of them, sorted."""
    everywhere = SchedulerSettings(percentage_of_nodes_to_score=100)
    cluster = await cluster_of(version, *(f"n{number:03}" for number in range(140)), settings=everywhere)
    await cluster.driver_claim("c0")
    await cluster.driver_claim("c1")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1")
        nodes = (await cluster.context())["spec"]["potentialNodes"]

    assert len(nodes) == 128
    assert nodes == sorted(set(nodes))


@pytest.mark.parametrize("version", ["1.26", "1.30"])
async def test_without_the_gate_claims_are_not_looked_at(version):
    """The pod is placed as if it had none, and nothing says so."""
    cluster = ClassicCluster(version, DynamicResourceAllocation=False)
    await cluster.node("n0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert await cluster.node_of() == "n0"
