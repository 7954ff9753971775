"""Tests the claim controller of 1.29+kep4381 with claims that the scheduler or drivers allocated."""

import pytest

from kubeskew.apimachinery.client.refs import PODS, dra_refs
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.resourceclaim.semantic.controller import SemanticClaimController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

PREVIEW = Version(29, "kep4381")
CLAIMS = dra_refs(PREVIEW).claims
SEMANTIC, OTHER = "semantic.dra.k8s.io/delete-protection", "driver.example.com/deletion-protection"
DELAYED, IMMEDIATE = "WaitForFirstConsumer", "Immediate"


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(PREVIEW)


async def user(cluster, name="p"):
    body = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": "n"}}
    body["spec"]["resourceClaims"] = [{"name": "card", "source": {"resourceClaimName": "c"}}]
    return await cluster.client.create(PODS, body)


async def allocated(cluster, *users, mode=DELAYED, finalizers=(SEMANTIC,), shareable=False):
    """Creates a claim as scheduler or driver leave it, reserved for pods."""
    handle = {"driverName": "d", "semanticData": {"nodeName": "n", "resourceID": "CardA"}}
    reserved = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in users
    ]
    status = {"driverName": "d", "allocation": {"resourceHandles": [handle], "shareable": shareable}}
    return await cluster.client.create(
        CLAIMS,
        {
            "metadata": {"name": "c", "namespace": "ns", "finalizers": [*finalizers]},
            "spec": {"resourceClassName": "cards", "allocationMode": mode},
            "status": {**status, "reservedFor": reserved} if reserved else status,
        },
    )


async def state(cluster):
    """Returns whether the claim is allocated, whether a driver is asked, and its finalizers."""
    claim = await cluster.client.get(CLAIMS, "c", "ns")
    status = claim["status"]
    asked = status.get("deallocationRequested", False)
    return bool(status.get("allocation")), asked, claim["metadata"].get("finalizers") or []


@pytest.mark.parametrize(
    ("mode", "finalizers", "left"),
    [
        pytest.param(DELAYED, [SEMANTIC], (False, False, []), id="the scheduler's"),
        pytest.param(DELAYED, [OTHER, SEMANTIC], (False, False, [OTHER]), id="with another finalizer"),
        pytest.param(IMMEDIATE, [SEMANTIC], (True, False, [SEMANTIC]), id="immediate"),
        pytest.param(DELAYED, [OTHER], (True, True, [OTHER]), id="a driver's, as in 1.29"),
        pytest.param(IMMEDIATE, [OTHER], (True, False, [OTHER]), id="a driver's, immediate"),
        pytest.param(DELAYED, ["dra.k8s.io/delete-protection"], (True, True, None), id="1.30's finalizer"),
    ],
)
@pytest.mark.parametrize("ends", ["deleted", "done"])
async def test_the_finalizer_says_who_takes_an_allocation_back(cluster, mode, finalizers, left, ends):
    """After its last user the controller clears the scheduler's allocation, or asks the driver to."""
    pod = await user(cluster)
    await allocated(cluster, pod, mode=mode, finalizers=finalizers)
    await cluster.start(SemanticClaimController)
    if ends == "deleted":
        await cluster.client.delete(PODS, "p", "ns")
    else:
        await cluster.client.update(PODS, {**pod, "status": {"phase": "Succeeded"}}, "status")
    await cluster.quiet()

    assert await state(cluster) == (*left[:2], finalizers if left[2] is None else left[2])


async def test_a_shared_claim_stays_until_its_last_user(cluster):
    """The reservation of the first one that ends goes, and nothing else."""
    pods = [await user(cluster, name) for name in ("p", "q")]
    await allocated(cluster, *pods, shareable=True)
    await cluster.start(SemanticClaimController)
    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet()
    claim = await cluster.client.get(CLAIMS, "c", "ns")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["q"]
    assert await state(cluster) == (True, False, [SEMANTIC])

    await cluster.client.delete(PODS, "q", "ns")
    await cluster.quiet()
    assert await state(cluster) == (False, False, [])


@pytest.mark.parametrize(
    ("mode", "finalizers", "left"),
    [
        (DELAYED, [SEMANTIC], (False, False, [])),
        (IMMEDIATE, [SEMANTIC], (True, False, [SEMANTIC])),
        (DELAYED, [OTHER], (True, False, [OTHER])),
    ],
)
async def test_an_allocation_whose_pod_the_scheduler_gave_up_goes(cluster, mode, finalizers, left):
    """An allocation that no pod uses any more goes; drivers need not reserve what they allocate."""
    await allocated(cluster, mode=mode, finalizers=finalizers)
    await cluster.start(SemanticClaimController)
    await cluster.quiet()

    assert await state(cluster) == left


@pytest.mark.parametrize("mode", [DELAYED, IMMEDIATE])
@pytest.mark.parametrize("used", [False, True])
async def test_a_claim_that_is_deleted_goes_once_nobody_uses_it(cluster, mode, used):
    """The finalizer holds it as long as a pod has it, regardless of its mode."""
    users = [await user(cluster)] if used else []
    await allocated(cluster, *users, mode=mode)
    await cluster.start(SemanticClaimController)
    await cluster.client.delete(CLAIMS, "c", "ns")
    await cluster.quiet()
    if used:
        assert await state(cluster) == (True, False, [SEMANTIC])
        await cluster.client.delete(PODS, "p", "ns")
        await cluster.quiet()

    with pytest.raises(StatusError, match="not found"):
        await cluster.client.get(CLAIMS, "c", "ns")


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_another_release_asked_a_driver_for_is_done_here(cluster, deleted):
    """A controller of 1.29 or 1.30 takes the finalizer for a driver's, and asks; no driver ever answers."""
    await allocated(cluster)
    claim = await cluster.client.get(CLAIMS, "c", "ns")
    asked = {**claim, "status": {**claim["status"], "deallocationRequested": True}}
    await cluster.client.update(CLAIMS, asked, "status")
    if deleted:
        await cluster.client.delete(CLAIMS, "c", "ns")
    await cluster.start(SemanticClaimController)
    await cluster.quiet()

    if deleted:
        with pytest.raises(StatusError, match="not found"):
            await cluster.client.get(CLAIMS, "c", "ns")
    else:
        assert await state(cluster) == (False, False, [])


async def test_a_finalizer_without_an_allocation_keeps_no_claim(cluster):
    """A scheduler that ends between its two writes leaves the first: the claim can still be deleted."""
    body = {"metadata": {"name": "c", "namespace": "ns", "finalizers": [SEMANTIC]}}
    body["spec"] = {"resourceClassName": "cards", "allocationMode": DELAYED}
    await cluster.client.create(CLAIMS, body)
    await cluster.start(SemanticClaimController)
    await cluster.quiet()
    assert (await cluster.client.get(CLAIMS, "c", "ns"))["metadata"]["finalizers"] == [SEMANTIC]

    await cluster.client.delete(CLAIMS, "c", "ns")
    await cluster.quiet()
    with pytest.raises(StatusError, match="not found"):
        await cluster.client.get(CLAIMS, "c", "ns")
