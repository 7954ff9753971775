"""The whole scheduler against a small API server in memory, in virtual time."""

import asyncio

import pytest
from faulty_clients import FaultyClient
from prometheus_client import generate_latest
from scheduling_cluster import DRIVER, RESOURCE, Cluster, running

from kubeskew.apimachinery.client.refs import EVENTS_V1, NODES, PODS
from kubeskew.apimachinery.errors import StatusError

pytestmark = pytest.mark.looptime


async def test_pod_is_bound():
    """A pod goes to a node that has room, and an event says so."""
    async with running(Cluster()) as cluster:
        await cluster.node("small", cpu="1")
        await cluster.node("large")
        await cluster.pod(requests={"cpu": "2"})

        assert await cluster.node_of() == "large"
        await asyncio.sleep(1)
        events = (await cluster.client.list(EVENTS_V1))["items"]
        assert [event["note"] for event in events] == ["Successfully assigned default/p0 to large"]


async def test_unschedulable_pod_says_why():
    """Nobody has what the pod asks for: condition and event in upstream's words."""
    cluster = Cluster(DRAExtendedResource=False)
    await cluster.node("a")
    await cluster.node("b")
    async with running(cluster):
        await cluster.pod(requests={RESOURCE: "1"})

        assert await cluster.message() == (
            "Unschedulable",
            (
                f"0/2 nodes are available: 2 Insufficient {RESOURCE}. no new claims to deallocate, "
                "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
            ),
        )
        text = generate_latest(cluster.registry).decode()
        assert (
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1.0'
            in text
        )
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text


async def test_pod_is_tried_again_when_another_leaves():
    """The room that a deleted pod leaves is used."""
    async with running(Cluster()) as cluster:
        await cluster.node()
        await cluster.pod("first", requests={"cpu": "3"})
        await cluster.node_of("first")
        await cluster.pod("second", requests={"cpu": "3"})
        await cluster.message("second")

        await cluster.client.delete(PODS, "first", "default")
        assert await cluster.node_of("second") == "n0"


async def test_a_cordoned_node_wakes_no_pod():
    """A pod is tried again when a node takes pods again, not when one no longer does."""
    async with running(Cluster()) as cluster:
        await cluster.node()
        await cluster.pod(requests={"cpu": "5"})
        await cluster.message()
        unschedulable = (
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
        )
        for cordoned, attempts in ((True, "1.0"), (False, "2.0")):
            node = await cluster.client.get(NODES, "n0")
            node["spec"] = {"unschedulable": cordoned}
            await cluster.client.update(NODES, node)
            await asyncio.sleep(2)
            assert f"{unschedulable} {attempts}" in cluster.metrics()


async def test_pod_is_tried_again_when_the_one_comes_that_it_wants_to_be_near():
    """A pod that is bound is new to those that wait for it, though it was known before."""
    cluster = Cluster()
    await cluster.node()
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with running(cluster):
        await cluster.pod("web", affinity=near)
        await cluster.message("web")
        await cluster.pod("db", labels={"app": "db"})

        assert await asyncio.wait_for(cluster.node_of("web"), 30) == "n0"


async def test_an_attempt_for_a_pod_that_is_being_deleted_is_skipped_with_an_event():
    """A pod that finalizers keep is not tried again after its deletion; an event says that it would be."""
    async with running(Cluster()) as cluster:
        await cluster.node(cpu="1")
        await cluster.pod(requests={"cpu": "2"}, finalizers=["example.com/keep"])
        await cluster.message()
        await cluster.client.delete(PODS, "p0", "default")
        await cluster.node("large", cpu="4")

        await asyncio.sleep(30)
        notes = await cluster.events("FailedScheduling")
        assert notes[-1] == "skip schedule deleting pod: default/p0"


async def test_failed_binding_is_undone_and_repeated():
    """A pod whose binding fails gives its room back and is tried again after a second."""
    async with running(Cluster()) as cluster:
        await cluster.node()
        cluster.fail("POST", "/binding")
        await cluster.pod(requests={"cpu": "3"})

        assert await cluster.message() == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": out of order',
        )
        assert await cluster.node_of() == "n0"


async def test_no_events_are_kept_for_a_pod_that_is_being_bound():
    """From 1.32 on a pod counts as being tried until Permit has let it pass."""
    cluster = Cluster()
    await cluster.node()
    faulty = FaultyClient(cluster.server, cluster.environment.clock)
    faulty.set({"verb": "create", "resource": "pods/binding", "delay": "5s", "nth": 1})
    cluster.connection._transport = faulty.client._transport
    async with running(cluster):
        await cluster.pod()
        await asyncio.sleep(2)

        assert faulty.injector.seen["create pods/binding"] == 1
        text = generate_latest(cluster.registry).decode()
        assert 'scheduler_inflight_events{event="PodPopped"} 0.0' in text
        assert await cluster.node_of() == "n0"


async def test_a_binding_whose_answer_is_lost():
    """The pod is bound, and reported to have failed; it is not tried again, and its claim is given back."""
    cluster = Cluster()
    await cluster.node(devices=1)
    await cluster.device_class()
    await cluster.claim()
    faulty = FaultyClient(cluster.server, cluster.environment.clock)
    faulty.set({"verb": "create", "resource": "pods/binding", "drop": "answer", "nth": 1})
    cluster.connection._transport = faulty.client._transport
    async with running(cluster):
        await cluster.pod(resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])
        assert await cluster.node_of() == "n0"
        await asyncio.sleep(30)

        assert await cluster.message() == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": Connection reset by peer',
        )
        assert len(await cluster.events("FailedScheduling")) == 1
        assert faulty.injector.seen["create pods/binding"] == 1
        (claim,) = await cluster.claims()
        assert (claim["status"].get("reservedFor") or [], "allocation" in claim["status"]) == ([], True)


async def test_claim_is_allocated_and_reserved():
    """A pod with a claim gets its device on its node."""
    cluster = Cluster()
    await cluster.node(devices=1)
    await cluster.device_class()
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])
        await cluster.node_of()

        (claim,) = await cluster.claims()
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        results = claim["status"]["allocation"]["devices"]["results"]
        assert results == [{"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}]
        assert [consumer["name"] for consumer in claim["status"]["reservedFor"]] == ["p0"]


async def test_pod_waits_for_its_claim_and_its_class():
    """Claim and class may come after the pod."""
    cluster = Cluster()
    await cluster.node(devices=1)
    async with running(cluster):
        await cluster.pod(resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])
        await asyncio.sleep(1)
        assert cluster.service.queue.sizes["gated"] == 1
        await cluster.claim()
        assert (await cluster.message())[1] == (
            "0/1 nodes are available: request r: device class gpu does not exist. "
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        )

        await cluster.device_class()
        assert await cluster.node_of() == "n0"


async def test_cel_error_is_reported():
    """A selector that fails at run time is an error, not a lack of devices."""
    cluster = Cluster()
    await cluster.node(devices=1)
    await cluster.device_class(
        selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].missing == 1"}}]
    )
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])

        reason, message = await cluster.message()
        assert reason == "SchedulerError"
        assert "CEL runtime error: no such key: missing" in message


async def test_conflict_is_retried():
    """A claim that somebody else changed meanwhile is read again and written."""
    cluster = Cluster()
    await cluster.node(devices=1)
    await cluster.device_class()
    await cluster.claim()
    async with running(cluster):
        conflicts = [1]

        def outage(request):
            if request.method == "PUT" and "/resourceclaims/" in request.target and conflicts[0]:
                conflicts[0] -= 1
                return StatusError(409, "Conflict", "changed")
            return None

        cluster.server.outage = outage
        await cluster.pod(resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])

        assert await cluster.node_of() == "n0"
        assert conflicts == [0]


async def test_readiness_needs_leadership_and_informers():
    """The scheduler is ready once it leads and knows the cluster."""
    cluster = Cluster()
    assert not cluster.service.leading
    async with running(cluster):
        await asyncio.sleep(1)
        assert cluster.service.leading
    assert not cluster.service.leading


async def test_a_second_term_goes_on_where_the_first_ended():
    """Pods that come while nobody leads are scheduled by the next term; none is lost between two terms."""
    cluster = Cluster()
    await cluster.node()
    async with running(cluster):
        for number in range(20):
            await cluster.pod(f"p{number}")
        await cluster.node_of("p0")  # the rest is under way when the term ends
    await cluster.pod("late")
    cluster.begin()
    async with running(cluster):
        assert [await cluster.node_of(f"p{number}") for number in range(20)] == ["n0"] * 20
        assert await cluster.node_of("late") == "n0"


def named(*nodes):
    """Affinity for the nodes of these names, in a term for each."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
    terms = {"nodeSelectorTerms": [{"matchFields": [field]} for field in fields]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(("version", "goes"), [("1.28.9", False), ("1.28.10", True), ("1.29.4", False)])
async def test_a_pod_names_a_node_that_is_not_there(version: str, goes: bool):
    """It goes to the other one that it names; a release with bug 124559 gives up each attempt."""
    async with running(Cluster(version)) as cluster:
        await cluster.node("there")
        await cluster.pod(affinity=named("gone", "there"))

        if goes:
            assert await cluster.node_of() == "there"
        else:
            assert await cluster.message() == ("SchedulerError", 'nodeinfo not found for node name "gone"')


@pytest.mark.parametrize("version", ["1.28.11", "1.30.2", "1.36"])
async def test_a_pod_names_only_nodes_that_are_not_there(version: str):
    """It waits, and says so; a scheduler with bug 124933 ends (known-bugs/k8s-124933)."""
    async with running(Cluster(version)) as cluster:
        await cluster.node("there")
        await cluster.pod(affinity=named("gone"))

        reason, message = await cluster.message()
        assert reason == "Unschedulable"
        assert message.startswith(
            "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity]"
        )
