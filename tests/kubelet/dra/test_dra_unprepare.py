"""Giving claims back: at a pod's end, by the reconciler, and what keeps them."""

import pytest
from managed_claims import DRIVER, pod

from kubeskew.kubelet.device_managers import DeviceError

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_the_last_user_gives_the_claim_back(make):
    """Unprepare reaches the driver when no other pod uses the claim; again it does nothing."""
    node = make()
    await node.claim("a", "p", "q")
    await node.manager.prepare(pod("a"))
    await node.manager.prepare(pod("a", uid="q"))
    await node.manager.unprepare(pod("a"))
    assert node.plugin.unprepare_calls == []
    assert node.store.users() == {"a": {"q"}}
    await node.manager.unprepare(pod("a", uid="q"))
    await node.manager.unprepare(pod("a", uid="q"))

    assert node.plugin.unprepare_calls == [["a"]]
    assert node.store.users() == {}


@pytest.mark.parametrize(("minor", "calls"), [(37, []), (36, [["a"]])])
async def test_up_to_1_36_a_pod_that_failed_takes_a_claim_from_its_user(make, minor, calls):
    """A failed pod's deletion unprepares another pod's claim up to 1.36, but no claim of several pods."""
    node = make(minor)
    await node.claim("a", "p")
    await node.claim("shared", "p", "q")
    await node.manager.prepare(pod("a", "shared"))
    await node.manager.prepare(pod("shared", uid="q"))
    await node.prepare_error("a", "shared", uid="not-reserved")
    await node.manager.unprepare(pod("a", "shared", uid="not-reserved"))
    assert node.plugin.unprepare_calls == calls
    assert node.store.users()["shared"] == {"p", "q"}


@pytest.mark.parametrize(("minor", "waits"), [(37, True), (36, False)])
async def test_since_1_37_a_claim_that_is_given_back_is_not_taken(make, minor, waits):
    """A pod that comes while the driver is informed waits for its next turn; before, it got in."""
    node = make(minor)
    await node.claim("a", "p", "q")
    await node.manager.prepare(pod("a"))
    working, refused = node.plugin.node_unprepare_resources, []

    async def meanwhile(claims):
        try:
            await node.manager.prepare(pod("a", uid="q"))
        except DeviceError as error:
            refused.append(str(error))
        return await working(claims)

    node.plugin.node_unprepare_resources = meanwhile
    await node.manager.unprepare(pod("a"))
    assert bool(refused) == waits
    assert node.plugin.prepare_calls == [["a"]]


@pytest.mark.parametrize(("minor", "calls"), [(37, [["a"]]), (36, [])])
async def test_since_1_37_what_is_given_back_does_not_depend_on_the_gate(make, minor, calls):
    """The claim behind extended resources goes with its pod; before, the reconciler had to find it."""
    node = make(minor, gates={"DRAExtendedResource": True} if minor == 36 else None)
    await node.claim("a", "p")
    await node.manager.prepare(pod(extended={"resourceClaimName": "a", "requestMappings": []}))
    node.manager._extended = False
    await node.manager.unprepare(pod(extended={"resourceClaimName": "a", "requestMappings": []}))
    assert node.plugin.unprepare_calls == calls


async def test_a_failed_unprepare_keeps_the_claim(make):
    """Without its driver a claim cannot be given back; it stays until the driver returns."""
    node = make()
    await node.claim("a", "p")
    await node.manager.prepare(pod("a"))
    node.plugins.deregister(node.plugin)
    with pytest.raises(DeviceError, match=r"unprepare dynamic resources: DRA driver gpu.example.com is not"):
        await node.manager.unprepare(pod("a"))

    assert node.store.users() == {"a": {"p"}}


async def test_reconciling_frees_what_lost_pods_hold(make):
    """Claims whose pods are not on the node any more are unprepared; those in use stay."""
    node = make()
    await node.claim("a", "p")
    await node.claim("b", "q")
    await node.manager.prepare(pod("a"))
    await node.manager.prepare(pod("b", uid="q"))
    await node.manager.reconcile_once({"q"})

    assert node.plugin.unprepare_calls == [["a"]]
    assert node.store.users() == {"b": {"q"}}


@pytest.mark.parametrize(
    ("minor", "prepare", "unprepare"),
    [
        (
            33,
            (
                f"failed to get gRPC client for driver {DRIVER}: plugin name {DRIVER} not found in the list "
                "of registered DRA plugins"
            ),
            (
                f"get gRPC client for DRA driver {DRIVER}: plugin name {DRIVER} not found in the list of "
                "registered DRA plugins"
            ),
        ),
        (
            36,
            f"prepare dynamic resources: DRA driver {DRIVER} is not registered",
            f"unprepare dynamic resources: DRA driver {DRIVER} is not registered",
        ),
    ],
)
async def test_a_driver_that_is_not_there_is_reported(make, minor, prepare, unprepare):
    """At the start and at the end of a pod."""
    node = make(minor)
    await node.claim("a", "p")
    await node.manager.prepare(pod("a"))
    node.plugins.deregister(node.plugin)
    with pytest.raises(DeviceError) as caught:
        await node.manager.unprepare(pod("a"))
    assert str(caught.value) == unprepare
    await node.claim("b", "p")
    assert await node.prepare_error("b") == prepare
