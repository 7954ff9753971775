"""Leader election: one at a time, hand-over after a graceful stop and after a crash; in virtual time."""

import asyncio

import aiohttp
import pytest

from kubeskew.apimachinery.client.leader import LeaderElector, LeadershipLost
from kubeskew.apimachinery.client.refs import EVENTS, LEASES
from kubeskew.apimachinery.errors import StatusError

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.fixture
def candidate(client, clock):
    """Start a candidate; gives its stop event, its task and the log of its leading."""

    def start(identity):
        stop, leading = asyncio.Event(), []

        async def lead(ended):
            leading.append(asyncio.get_running_loop().time())
            await ended.wait()
            leading.append(asyncio.get_running_loop().time())

        elector = LeaderElector(client, clock, "thing", "kube-system", identity)
        return stop, asyncio.create_task(elector.run(stop, lead)), leading

    return start


async def test_the_first_leads_the_second_waits(client, candidate):
    """Only one holds the lease."""
    first, second = candidate("one"), candidate("two")
    await asyncio.sleep(60)
    lease = await client.get(LEASES, "thing", "kube-system")

    assert lease["spec"]["holderIdentity"] == "one"
    assert lease["spec"]["leaseDurationSeconds"] == 15
    assert first[2] == [0]
    assert second[2] == []

    for stop, task, _ in (second, first):
        stop.set()
        await task


async def test_a_graceful_stop_hands_over_at_the_next_try(client, candidate):
    """The lease is given back, so the other leads within the retry period, and the transition is counted."""
    first, second = candidate("one"), candidate("two")
    await asyncio.sleep(20.5)
    first[0].set()
    await first[1]

    released = await client.get(LEASES, "thing", "kube-system")
    assert released["spec"]["holderIdentity"] == ""

    await asyncio.sleep(2)
    lease = await client.get(LEASES, "thing", "kube-system")

    assert lease["spec"]["holderIdentity"] == "two"
    assert lease["spec"]["leaseTransitions"] == 1

    second[0].set()
    await second[1]


async def test_a_renewal_under_way_does_not_keep_the_lease(server, client, candidate):
    """A renewal that arrives while the lease is being given back makes the giving back try again."""
    stop, task, _ = candidate("one")
    await asyncio.sleep(1)
    renewals = []

    async def renew():
        lease = await client.get(LEASES, "thing", "kube-system")
        await client.update(LEASES, {**lease, "spec": {**lease["spec"], "renewTime": "late"}})

    original = server._act

    async def act(method, target, query, body):
        if method == "PUT" and stop.is_set() and not renewals:
            renewals.append(True)
            await renew()
        return await original(method, target, query, body)

    server._act = act
    stop.set()
    await task

    assert renewals
    assert (await client.get(LEASES, "thing", "kube-system"))["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    "refused", [StatusError(500, "InternalError", "x"), aiohttp.ServerDisconnectedError()]
)
async def test_a_release_that_fails_is_tried_again(server, client, candidate, refused):
    """One refused or broken call at the stop leaves no lease behind that the next one would wait for."""
    stop, task, _ = candidate("one")
    await asyncio.sleep(1)
    failures = [refused]
    server.outage = lambda request: failures.pop() if request.method == "PUT" and failures else None
    stop.set()
    await task

    assert failures == []
    assert (await client.get(LEASES, "thing", "kube-system"))["spec"]["holderIdentity"] == ""


async def test_a_stop_waits_only_a_little_for_a_server_that_is_away(server, candidate):
    """The lease is left soon if every call is refused, and after five seconds if none is answered."""

    async def hang(*_):
        await asyncio.Event().wait()

    async def seconds_to_stop(break_server):
        stop, task, _ = candidate("one")
        await asyncio.sleep(1)
        break_server()
        before = asyncio.get_running_loop().time()
        stop.set()
        await task
        return asyncio.get_running_loop().time() - before

    def refuse():
        server.outage = lambda request: aiohttp.ClientConnectionError("refused")

    assert await seconds_to_stop(refuse) < 1
    server.outage = None
    assert await seconds_to_stop(lambda: setattr(server, "_act", hang)) == pytest.approx(5)


async def test_a_crash_costs_the_lease_duration(candidate):
    """A holder that stops renewing is replaced 15 s after its last sign of life."""
    first = candidate("one")
    await asyncio.sleep(1)
    first[1].cancel()
    await asyncio.gather(first[1], return_exceptions=True)
    second = candidate("two")
    await asyncio.sleep(30)

    assert 15 <= second[2][0] - 1 <= 17

    second[0].set()
    await second[1]


async def test_the_leader_steps_down_when_it_cannot_renew(server, candidate):
    """A server away for longer than the renew deadline ends the leadership with an error."""
    _, task, leading = candidate("one")
    await asyncio.sleep(1)
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    with pytest.raises(LeadershipLost, match="leaderelection lost"):
        await task

    assert 10 <= leading[1] <= 14


async def test_a_short_outage_is_survived(server, candidate):
    """An API server that restarts within the renew deadline costs nothing."""
    stop, task, leading = candidate("one")
    await asyncio.sleep(1)
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    await asyncio.sleep(6)
    server.outage = None
    await asyncio.sleep(60)

    assert leading == [0]

    stop.set()
    await task


async def test_stopping_while_waiting_ends_at_once(candidate, looptime):
    """A candidate that never led leaves nothing behind."""
    first = candidate("one")
    await asyncio.sleep(1)
    stop, task, leading = candidate("two")
    await asyncio.sleep(1)
    stop.set()
    await task

    assert leading == []
    assert looptime == 2

    first[0].set()
    await first[1]


async def test_a_candidate_leads_as_soon_as_the_server_answers(server, candidate):
    """Before there is a server, nobody waits a whole retry period."""
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    stop, task, leading = candidate("one")
    await asyncio.sleep(0.55)
    server.outage = None
    await asyncio.sleep(1)

    assert leading[0] == pytest.approx(0.6)

    stop.set()
    await task


async def test_who_loses_the_lease_stands_for_it_again(client, clock, server):
    """After an outage longer than the renew deadline the same process leads again, as nobody restarts it."""
    stop, terms = asyncio.Event(), []

    async def lead(ended):
        terms.append(asyncio.get_running_loop().time())
        await ended.wait()

    elector = LeaderElector(client, clock, "thing", "kube-system", "one")
    task = asyncio.create_task(elector.run_again(stop, lead))
    await asyncio.sleep(1)
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    await asyncio.sleep(30)
    server.outage = None
    await asyncio.sleep(30)
    stop.set()
    await task

    assert len(terms) == 2
    assert (await client.get(LEASES, "thing", "kube-system"))["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("found", [False, True], ids=["new lease", "lease of another"])
async def test_an_event_about_the_lease_says_who_leads(client, clock, found):
    """It refers to the lease as it was taken; a stop writes none, and without a component there is none."""
    if found:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3}
        await client.create(LEASES, {"metadata": {"name": "thing", "namespace": "kube-system"}, "spec": spec})
    silent = LeaderElector(client, clock, "silent", "kube-system", "two")
    elector = LeaderElector(client, clock, "thing", "kube-system", "one", component="kube-thing")
    taken = {}

    async def lead(ended):
        taken.update(await client.get(LEASES, "thing", "kube-system"))
        await ended.wait()

    stop = asyncio.Event()
    tasks = [asyncio.create_task(each.run(stop, lead)) for each in (elector, silent)]
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*tasks)
    (event,) = (await client.list(EVENTS))["items"]

    assert event["involvedObject"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "kube-system",
        "name": "thing",
        "uid": taken["metadata"]["uid"],
        "resourceVersion": taken["metadata"]["resourceVersion"],
    }
    assert event["metadata"]["namespace"] == "kube-system"
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "LeaderElection", 1)
    assert event["message"] == "one became leader"
    assert event["source"] == {"component": "kube-thing"}
