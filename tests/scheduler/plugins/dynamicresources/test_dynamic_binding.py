"""DynamicResources writes before a pod is bound, and takes back when that fails."""

import asyncio

import pytest
from dynamic_cluster import CLAIM, RESULT, bound, one_node, only_claim
from scheduling_cluster import running

from kubeskew.apimachinery.errors import StatusError

pytestmark = pytest.mark.looptime

CALLS = [
    ("PUT", "/resourceclaims/c0", "add finalizer to claim default/c0: out of order"),
    ("PUT", "/c0/status", "add allocation and reservation to claim default/c0: out of order"),
]


@pytest.mark.parametrize(("method", "path", "text"), CALLS)
async def test_refused_writes_are_reported_and_repeated(method, path, text):
    """A write that fails gives the devices back; the next attempt succeeds."""
    cluster = await one_node()
    await cluster.claim()
    async with running(cluster):
        cluster.fail(method, path)
        await cluster.pod(resourceClaims=CLAIM)

        assert await cluster.message() == (
            "SchedulerError",
            f'running PreBind plugin "DynamicResources": {text}',
        )
        await bound(cluster)
        assert len((await only_claim(cluster))["status"]["reservedFor"]) == 1
        assert not cluster.service.dynamic.claims.pending_uids


async def test_a_failed_binding_takes_the_reservation_back():
    """The allocation stays, for the next attempt."""
    cluster = await one_node()
    await cluster.claim()
    async with running(cluster):
        cluster.fail("POST", "/binding", times=2)
        await cluster.pod(resourceClaims=CLAIM)
        await cluster.message()
        await asyncio.sleep(0.1)

        status = (await only_claim(cluster))["status"]
        assert status["reservedFor"] == []
        assert status["allocation"]["devices"]["results"] == [RESULT]
        await bound(cluster)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"status": {"allocation": {"devices": {"results": [RESULT]}}}},
            "claim default/c0 got allocated elsewhere in the meantime",
        ),
        ({"deleted": True}, "claim default/c0 got deleted in the meantime"),
    ],
)
async def test_another_scheduler_was_faster(changed, text):
    """A conflict makes the scheduler look again, and find that there is nothing left to write."""
    cluster = await one_node(devices=2)
    await cluster.claim(finalizers=["example.com/keep"])
    other = cluster.server.client()

    async def interfere():
        if changed.get("deleted"):
            await other.delete(cluster.refs.claims, "c0", "default")
        else:
            claim = await other.get(cluster.refs.claims, "c0", "default")
            await other.update(cluster.refs.claims, {**claim, **changed}, "status")

    pending = []

    def outage(request):
        if request.method == "PUT" and not pending:
            pending.append(asyncio.create_task(interfere()))
            return StatusError(409, "Conflict", "the object has been modified")
        return None

    async with running(cluster):
        cluster.server.outage = outage
        await cluster.pod(resourceClaims=CLAIM)

        said = await cluster.message()
    assert said == ("SchedulerError", f'running PreBind plugin "DynamicResources": {text}')


async def test_what_was_begun_before_a_restart_is_finished():
    """A claim with the finalizer alone is allocated; one that is the pod's already is not written again."""
    cluster = await one_node(devices=2)
    finalizer = "resource.kubernetes.io/delete-protection"
    await cluster.claim("c0", finalizers=[finalizer])
    await cluster.claim("c1", finalizers=[finalizer])
    both = [{"name": name, "resourceClaimName": name} for name in ("c0", "c1")]
    pod = await cluster.pod(resourceClaims=both)
    mine = {"resource": "pods", "name": "p0", "uid": pod["metadata"]["uid"]}
    await cluster.set_claim_status("c1", allocation={"devices": {"results": [RESULT]}}, reservedFor=[mine])
    cluster.server.requests.clear()
    async with running(cluster):
        await bound(cluster)

    written = [request.target for request in cluster.server.requests if request.method == "PUT"]
    assert [each.rpartition("/resourceclaims/")[2] for each in written] == ["c0/status"]
    first, second = (claim["status"] for claim in await cluster.claims())
    assert first["allocation"]["devices"]["results"] == [{**RESULT, "device": "gpu-1"}]
    assert second["allocation"]["devices"]["results"] == [RESULT]
