"""Tests the claim controller of 1.26 to 1.31 with claims that a driver's controller allocates."""

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs, scheduling_context_ref
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.resourceclaim.claims import generate_name
from kubeskew.controllers.resourceclaim.classic.controller import ClassicClaimController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER_FINALIZER = "driver.example.com/deletion-protection"
SCHEDULER_FINALIZERS = {30: "dra.k8s.io/delete-protection", 31: "resource.kubernetes.io/delete-protection"}
CLASSIC = {"DynamicResourceAllocation": True, "DRAControlPlaneController": True}


@pytest.fixture
async def release(make_cluster):
    """Makes a cluster of a minor, and the references of its API.

    Its server checks nothing, and would let a claim be reserved that a driver is asked to give back: the
    controller has to be without the bug that tries to.
    """

    def make(minor):
        version = Version(minor)
        gates = dict(list(CLASSIC.items())[: 2 if minor == 31 else 1])
        return make_cluster(version, gates=gates, bugs={"k8s-141274": False}), dra_refs(version)

    return make


def pod(minor, *, node="", template="", claim_name="c"):
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim_name}
    entry = {"name": "gpu", **({"source": source} if minor <= 30 else source)}
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": node, "resourceClaims": [entry]},
    }


def spec(minor, *, mode="WaitForFirstConsumer"):
    if minor == 31:
        return {"devices": {}, "controller": "driver.example.com"}
    return {"resourceClassName": "class", "allocationMode": mode}


def claim(
    minor, *users, mode="WaitForFirstConsumer", finalizer=DRIVER_FINALIZER, allocation=None, owner=None
):
    """An allocated claim (unless `allocation` is False), reserved for `users`."""
    metadata = {"name": "c", "namespace": "ns", "finalizers": [finalizer]}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    if allocation is False:
        return {"metadata": metadata, "spec": spec(minor, mode=mode)}
    reserved = [
        {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
        for user in users
    ]
    status = {"allocation": allocation or {"shareable": True}, "reservedFor": reserved}
    return {"metadata": metadata, "spec": spec(minor, mode=mode), "status": status}


async def the_claim(cluster, refs):
    return await cluster.client.get(refs.claims, "c", "ns")


async def context_of(cluster, minor):
    items = (await cluster.client.list(scheduling_context_ref(Version(minor)), "ns"))["items"]
    return items[0] if items else None


async def finish(cluster, made):
    await cluster.client.update(PODS, {**made, "status": {"phase": "Succeeded"}}, "status")


@pytest.mark.parametrize("minor", [26, 27])
async def test_a_foreign_claim_of_the_name_blocks_the_pod(release, minor):
    """Until 1.27 the name is fixed: the claim of somebody else is left alone, and the pod gets an event."""
    cluster, refs = release(minor)
    foreign = {"metadata": {"name": "p-gpu", "namespace": "ns"}, "spec": spec(minor)}
    await cluster.client.create(
        refs.claim_templates, {"metadata": {"name": "t", "namespace": "ns"}, "spec": {}}
    )
    made = await cluster.client.create(refs.claims, foreign)
    await cluster.client.create(PODS, pod(minor, template="t"))
    await cluster.start(ClassicClaimController)
    await cluster.quiet(1)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert event["reason"] == "FailedResourceClaimCreation"
    assert event["message"] == (
        "PodResourceClaim gpu: ResourceClaim ns/p-gpu was not created for pod ns/p (pod is not owner)"
    )
    (left,) = (await cluster.client.list(refs.claims, "ns"))["items"]

    assert left["metadata"] == made["metadata"]


@pytest.mark.parametrize("minor", [26, 27])
async def test_a_fixed_name_needs_neither_annotation_nor_status(release, minor):
    """Until 1.27 a claim carries the template's metadata alone, and the pod's status says nothing of it."""
    cluster, refs = release(minor)
    wanted = {"metadata": {"annotations": {"c": "d"}}, "spec": spec(minor)}
    await cluster.client.create(
        refs.claim_templates, {"metadata": {"name": "t", "namespace": "ns"}, "spec": wanted}
    )
    await cluster.client.create(PODS, pod(minor, template="t"))
    await cluster.start(ClassicClaimController)
    await cluster.quiet(1)
    made = await cluster.client.get(refs.claims, "p-gpu", "ns")

    assert made["metadata"]["annotations"] == {"c": "d"}
    assert "resourceClaimStatuses" not in ((await cluster.client.get(PODS, "p", "ns")).get("status") or {})


@pytest.mark.parametrize("minor", [28, 30])
async def test_a_claim_that_an_older_controller_made_is_taken_over(release, minor):
    """1.27 left a claim without annotation: its name says whose it is, and the pod's status now says so."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, template="t"))
    left = claim(minor, owner=made, allocation=False)
    left["metadata"]["name"] = "p-gpu"
    await cluster.client.create(refs.claims, left)
    await cluster.start(ClassicClaimController)
    await cluster.quiet(1)

    assert (await cluster.client.get(PODS, "p", "ns"))["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": "p-gpu"}
    ]
    assert len((await cluster.client.list(refs.claims, "ns"))["items"]) == 1


@pytest.mark.parametrize(("dashed", "prefix"), [(False, "p-gpu"), (True, "p-gpu-")])
async def test_names_of_1_28_have_no_hyphen_before_the_random_part(dashed, prefix):
    """Pull request 120336 put one there in 1.29."""
    assert generate_name("p", "gpu", dashed=dashed) == prefix


@pytest.mark.parametrize(
    ("minor", "kept"), [(26, True), (27, True), (28, False), (29, False), (30, False), (31, False)]
)
async def test_since_1_28_a_completed_pod_lets_its_claim_go(release, minor, kept):
    """Before, the reservation stays until the pod is deleted; after, the driver is asked for the devices."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, node="n"))
    await cluster.client.create(refs.claims, claim(minor, made))
    await cluster.start(ClassicClaimController)
    await finish(cluster, made)
    await cluster.quiet()
    status = (await the_claim(cluster, refs))["status"]

    assert bool(status.get("reservedFor")) is kept
    assert status.get("deallocationRequested", False) is not kept
    assert status["allocation"]


@pytest.mark.parametrize(
    ("minor", "mode", "asked"),
    [
        pytest.param(26, "WaitForFirstConsumer", False, id="1.26 leaves it allocated"),
        pytest.param(27, "WaitForFirstConsumer", False, id="1.27 leaves it allocated"),
        pytest.param(28, "WaitForFirstConsumer", True, id="1.28"),
        pytest.param(30, "WaitForFirstConsumer", True, id="1.30"),
        pytest.param(28, "Immediate", False, id="an immediate claim stays allocated"),
        pytest.param(30, "Immediate", False, id="an immediate claim of 1.30 stays allocated"),
        pytest.param(31, "", True, id="1.31 knows no modes"),
    ],
)
async def test_the_last_user_has_the_driver_asked(release, minor, mode, asked):
    """A deleted pod loses its reservation everywhere; a delayed claim is given back since 1.28."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, node="n"))
    await cluster.client.create(refs.claims, claim(minor, made, mode=mode))
    await cluster.start(ClassicClaimController)
    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet()
    status = (await the_claim(cluster, refs))["status"]

    assert not status.get("reservedFor")
    assert status.get("deallocationRequested", False) is asked
    assert status["allocation"]


async def test_a_claim_of_nobody_is_given_back_too(release):
    """1.31 asks whoever allocated the claim, if its finalizer does not say that it was the scheduler."""
    cluster, refs = release(31)
    made = await cluster.client.create(PODS, pod(31, node="n"))
    given = claim(31, made, mode="")
    given["spec"].pop("controller", None)
    given["status"]["allocation"].pop("controller", None)
    await cluster.client.create(refs.claims, given)
    await cluster.start(ClassicClaimController)
    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet()

    assert (await the_claim(cluster, refs))["status"]["deallocationRequested"] is True


@pytest.mark.parametrize("minor", [28, 30, 31])
async def test_a_claim_that_never_had_a_user_stays_allocated(release, minor):
    """A driver need not reserve what it allocates: only the loss of the last user counts."""
    cluster, refs = release(minor)
    await cluster.client.create(refs.claims, claim(minor))
    await cluster.start(ClassicClaimController)
    await cluster.quiet(1)

    assert "deallocationRequested" not in (await the_claim(cluster, refs))["status"]


@pytest.mark.parametrize(
    ("minor", "mode", "kept"),
    [
        pytest.param(30, "WaitForFirstConsumer", False, id="delayed"),
        pytest.param(30, "Immediate", True, id="immediate"),
        pytest.param(31, "", False, id="1.31"),
    ],
)
async def test_the_schedulers_own_allocations_are_cleared(release, minor, mode, kept):
    """With the scheduler's finalizer no driver is asked: allocation and finalizer go, or both stay."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, node="n"))
    await cluster.client.create(
        refs.claims, claim(minor, made, mode=mode, finalizer=SCHEDULER_FINALIZERS[minor])
    )
    await cluster.start(ClassicClaimController)
    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet()
    left = await the_claim(cluster, refs)

    assert bool(left["status"].get("allocation")) is kept
    assert bool(left["metadata"].get("finalizers")) is kept
    assert "deallocationRequested" not in left["status"]


@pytest.mark.parametrize(("minor", "deleted"), [(27, False), (28, True), (31, True)])
async def test_a_completed_pods_own_claim_is_deleted(release, minor, deleted):
    """Since 1.28 it does not wait for the pod to be deleted."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, node="n"))
    await cluster.client.create(refs.claims, claim(minor, owner=made))
    await cluster.start(ClassicClaimController)
    await finish(cluster, made)
    await cluster.quiet()

    assert bool((await the_claim(cluster, refs))["metadata"].get("deletionTimestamp")) is deleted


@pytest.mark.parametrize(("minor", "selects"), [(26, False), (27, False), (28, True), (30, True), (31, True)])
async def test_drivers_get_the_node_of_a_pod_that_got_it_without_the_scheduler(release, minor, selects):
    """Since 1.28: a context with the node alone, which the pod owns without blocking its deletion."""
    cluster, refs = release(minor)
    made = await cluster.client.create(PODS, pod(minor, node="n"))
    await cluster.client.create(refs.claims, claim(minor, allocation=False))
    await cluster.start(ClassicClaimController)
    await cluster.quiet()
    context = await context_of(cluster, minor)

    assert (context is not None) is selects
    if selects:
        assert context["spec"] == {"selectedNode": "n"}
        assert context["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        ]


async def test_another_node_in_the_context_is_corrected(release):
    """A node selected before the pod was bound by hand is replaced by the pod's node."""
    cluster, refs = release(30)
    ref = scheduling_context_ref(Version(30))
    await cluster.client.create(PODS, pod(30, node="n"))
    await cluster.client.create(
        ref,
        {
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"selectedNode": "m", "potentialNodes": ["m"]},
        },
    )
    await cluster.client.create(refs.claims, claim(30, allocation=False))
    await cluster.start(ClassicClaimController)
    await cluster.quiet()

    assert (await context_of(cluster, 30))["spec"] == {"selectedNode": "n", "potentialNodes": ["m"]}


async def test_without_its_gate_1_31_sends_drivers_nothing(make_cluster):
    """DRAControlPlaneController is off by default."""
    cluster = make_cluster(Version(31), gates={"DynamicResourceAllocation": True})
    refs = dra_refs(Version(31))
    await cluster.client.create(PODS, pod(31, node="n"))
    await cluster.client.create(refs.claims, claim(31, allocation=False))
    await cluster.start(ClassicClaimController)
    await cluster.quiet()

    assert await context_of(cluster, 31) is None


@pytest.mark.parametrize(
    ("minor", "shareable", "used", "reserved"),
    [
        pytest.param(27, True, False, False, id="1.27 leaves it to the scheduler"),
        pytest.param(28, False, False, True, id="unused"),
        pytest.param(28, False, True, False, id="used, and not to be shared"),
        pytest.param(28, True, True, True, id="shared"),
        pytest.param(31, False, True, True, id="1.31 shares every claim"),
    ],
)
async def test_a_pod_with_a_node_gets_the_allocated_claim_if_it_may_have_it(
    release, minor, shareable, used, reserved
):
    """The driver's word on sharing counts until 1.30."""
    cluster, refs = release(minor)
    other = {"metadata": {"name": "other", "namespace": "ns"}, "spec": {}}
    other = await cluster.client.create(PODS, other)
    await cluster.client.create(PODS, pod(minor, node="n"))
    users = [other] if used else []
    await cluster.client.create(refs.claims, claim(minor, *users, allocation={"shareable": shareable}))
    await cluster.start(ClassicClaimController)
    await cluster.quiet()
    users = (await the_claim(cluster, refs))["status"]["reservedFor"]

    assert ("p" in [user["name"] for user in users]) is reserved


@pytest.mark.parametrize(("minor", "counted"), [(27, False), (31, False), (32, True)])
async def test_claims_are_counted_since_1_32(release, minor, counted):
    """Pull request 127661; before, there are the two counters of creations."""
    cluster, _ = release(minor)
    await cluster.start(ClassicClaimController)
    text = generate_latest(cluster.context.registry).decode()

    assert ("resourceclaim_controller_resource_claims" in text) is counted
    assert "resourceclaim_controller_create_attempts_total 0.0" in text
