"""DynamicResources judges pods before any node is looked at."""

import pytest
from dynamic_cluster import (
    CLAIM,
    PREEMPTION,
    RESULT,
    arguments,
    bound,
    one_node,
    only_claim,
)
from scheduling_cluster import Cluster, running

from kubeskew.scheduler.framework.profile import ProfileError

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.32", " no new claims to deallocate, "),
        ("1.33", " "),
        ("1.34", " no new claims to deallocate, "),
        ("1.36", " no new claims to deallocate, "),
        ("1.37", " "),
    ],
)
async def test_what_is_said_of_pods_without_claims(version, reason):
    """PostFilter had something to say about claims in some releases."""
    cluster = await one_node(version, DynamicResourceAllocation=True)
    async with running(cluster):
        await cluster.pod(requests={"cpu": "100"})

        said = (await cluster.message())[1]
        assert said.startswith(f"0/1 nodes are available: 1 Insufficient cpu.{reason}preemption: 0/1")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            {"firstAvailable": [{"name": "a", "deviceClassName": "none"}]},
            "request r/a: device class none does not exist",
        ),
        ({}, "resource claim default/c0, request r: unknown request type"),
    ],
)
async def test_requests_that_nobody_can_serve(request_, reason):
    """Classes of alternatives are named with them; a request of a newer kind is refused."""
    cluster = await one_node()
    await cluster.claim(requests=[{"name": "r", **request_}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        said = (await cluster.message())[1]
        assert said == f"0/1 nodes are available: {reason}. no new claims to deallocate, {PREEMPTION}"


async def test_alternatives_need_their_gate():
    """With DRAPrioritizedList off, such claims are not allocated."""
    cluster = await one_node(DRAPrioritizedList=False)
    await cluster.claim(requests=[{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        assert (
            "resource claim default/c0, request r: has subrequests, "
            "but the DRAPrioritizedList feature is disabled"
        ) in (await cluster.message())[1]


async def test_an_empty_class_name_is_an_error():
    """An attempt fails at an empty class name, which cannot come from an API server of now."""
    cluster = await one_node()
    await cluster.claim(requests=[{"name": "r", "exactly": {"deviceClassName": ""}}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        assert await cluster.message() == (
            "SchedulerError",
            'running PreFilter plugin "DynamicResources": request r: unsupported request type',
        )


async def test_the_scheduler_counts_no_users_of_a_claim():
    """Of 256 users, too: the API server refuses one too many (CanBeReserved, 1.31 to 1.36)."""
    cluster = await one_node()
    await cluster.claim()
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(256)]
    await cluster.set_claim_status(allocation={"devices": {"results": [RESULT]}}, reservedFor=users)
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await bound(cluster)


async def test_two_pods_share_a_claim():
    """The second waits while the first one's allocation is being written, then both have it."""
    cluster = await one_node()
    await cluster.claim()
    async with running(cluster):
        await cluster.pod("p0", resourceClaims=CLAIM)
        await cluster.pod("p1", resourceClaims=CLAIM)
        await bound(cluster, "p0")
        await bound(cluster, "p1")

        status = (await only_claim(cluster))["status"]
        assert [consumer["name"] for consumer in status["reservedFor"]] == ["p0", "p1"]


async def test_without_the_feature_claims_are_not_looked_at():
    """The plugin is not there then: pods go to nodes with any claims."""
    cluster = await one_node("1.33")
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await bound(cluster)


@pytest.mark.parametrize(
    ("version", "gates", "args", "text"),
    [
        ("1.36", {}, {"filterTimeout": "-1s"}, "filterTimeout: Invalid value: -1s: must be zero or positive"),
        (
            "1.36",
            {"DRASchedulerFilterTimeout": False},
            {"filterTimeout": "1s"},
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (
            "1.36",
            {},
            {"bindingTimeout": "1ms"},
            "bindingTimeout: Invalid value: 1ms: must be at least 1 second",
        ),
        (
            "1.35",
            {},
            {"bindingTimeout": "1m"},
            (
                "bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                "feature gate is disabled"
            ),
        ),
        ("1.34", {}, {"bindingTimeout": "1m"}, 'strict decoding error: unknown field "bindingTimeout"'),
    ],
)
def test_arguments_that_cannot_be(version, gates, args, text):
    """The scheduler does not start; an argument whose gate is off is an error, too."""
    with pytest.raises(ProfileError) as caught:
        Cluster(version, settings=arguments(**args), **gates)
    assert str(caught.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        f'initializing plugin "DynamicResources": {text}'
    )
