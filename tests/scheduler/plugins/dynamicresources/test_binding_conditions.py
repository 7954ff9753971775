"""Devices that must become ready before a pod is bound (KEP-5007)."""

import pytest
from dynamic_cluster import CLAIM, allocation, arguments, bound, only_claim
from scheduling_cluster import DRIVER, Cluster, running
from until import until

pytestmark = pytest.mark.looptime

CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


async def _conditional(version="1.36", *, devices=1, settings=None, **gates):
    cluster = Cluster(version, settings=settings, **gates)
    await cluster.node()
    await cluster.device_class()
    made = [{"name": f"gpu-{i}", **CONDITIONS} for i in range(devices)]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": made}
    await cluster.client.create(cluster.refs.slices, {"metadata": {"name": "s"}, "spec": spec})
    await cluster.claim()
    return cluster


def _said(kind, *, device="gpu-0", **more):
    condition = {"type": kind, "status": "True", "reason": "Because", "message": "so", **more}
    return [{"driver": DRIVER, "pool": "n0", "device": device, "conditions": [condition]}]


async def _waiting(cluster):
    """A pod whose PreBind waits for its device."""
    await cluster.pod(resourceClaims=CLAIM)
    await until(lambda: cluster.events("BindingConditionsPending"))


async def _given_up(cluster):
    """Wait until the scheduler has deallocated a claim."""

    async def seen():
        return any("deallocation of" in note for note in await cluster.events("FailedScheduling"))

    await until(seen)


async def test_a_pod_is_bound_when_its_device_is_ready():
    """The claim is looked at every five seconds; how long it took is counted."""
    async with running(await _conditional()) as cluster:
        await _waiting(cluster)
        allocated = (await only_claim(cluster))["status"]["allocation"]
        assert allocated["allocationTimestamp"]
        assert not (await cluster.read())["spec"].get("nodeName")
        await cluster.set_claim_status(devices=_said("ready"))
        await bound(cluster)

        assert await cluster.events("BindingConditionsPending") == [
            "waiting for binding conditions for device on node n0"
        ]
        labels = f'driver="{DRIVER}",profile="default-scheduler",status="success"'
        assert f"scheduler_dra_bindingconditions_allocations_total{{{labels}}} 1.0" in cluster.metrics()
        seconds = f"scheduler_dra_bindingconditions_wait_duration_seconds_count{{{labels}}} 1.0"
        assert seconds in cluster.metrics()


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.35", 'claim c0 binding failed: reason=Because, message="so"'),
        ("1.36", 'device binding failed: claim=c0, reason=Because, message="so"'),
    ],
)
async def test_a_device_that_fails_is_given_up(version, text):
    """The pod gets another device, after the claim was deallocated."""
    gates = {"DRADeviceBindingConditions": True}
    async with running(await _conditional(version, devices=2, **gates)) as cluster:
        await _waiting(cluster)
        await cluster.set_claim_status(devices=_said("broken"))
        assert await cluster.message() == (
            "SchedulerError",
            f'running PreBind plugin "DynamicResources": {text}',
        )

        await _given_up(cluster)
        await until(lambda: allocation(cluster))
        assert "devices" not in (await only_claim(cluster))["status"]
        await cluster.set_claim_status(devices=_said("ready"))
        await bound(cluster)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.35", "device binding timeout"),
        ("1.36", "device binding timeout: context deadline exceeded"),
    ],
)
async def test_a_device_that_takes_too_long_is_given_up(version, text):
    """bindingTimeout counts; afterwards the claim is free for another try."""
    settings = arguments(bindingTimeout="12s")
    cluster = await _conditional(version, settings=settings, DRADeviceBindingConditions=True)
    async with running(cluster):
        await _waiting(cluster)
        said = f'running PreBind plugin "DynamicResources": {text}'
        assert await cluster.message() == ("SchedulerError", said)
        await _given_up(cluster)


async def test_conditions_need_both_gates():
    """With DRAResourceClaimDeviceStatus off, devices with conditions are nobody's."""
    async with running(await _conditional(DRAResourceClaimDeviceStatus=False)) as cluster:
        await cluster.pod(resourceClaims=CLAIM)

        assert "1 cannot allocate all claims. still not schedulable, " in (await cluster.message())[1]
