"""Tests faults between a client and its server: what the client sees, what the server got, when."""

import asyncio
import contextlib

import pytest
from faulty_clients import FaultyClient

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.leader import LeaderElector
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, LEASES, PODS
from kubeskew.apimachinery.client.transport import Request
from kubeskew.apimachinery.errors import StatusError

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

RESET = "Connection reset by peer"


def config_map(name, **data):
    return {"metadata": {"name": name, "namespace": "ns"}, "data": data}


@pytest.fixture
def faulty(server, clock):
    return FaultyClient(server, clock)


@pytest.fixture
async def informer(faulty, clock, client):
    await client.create(CONFIG_MAPS, config_map("a", n="1"))
    informer = Informer(faulty.client, CONFIG_MAPS, clock)
    informer.start()
    await informer.synced()
    await asyncio.sleep(1)
    yield informer
    await informer.stop()


def number(informer):
    """Returns what the informer believes of the config map."""
    found = informer.get("ns", "a")
    return found["data"]["n"] if found else None


async def test_without_faults_a_client_does_its_work(faulty, server):
    """A client that nothing is wrong with sends as it always does, and nothing is counted."""
    await faulty.client.create(CONFIG_MAPS, config_map("a"))

    assert (await faulty.client.get(CONFIG_MAPS, "a", "ns"))["metadata"]["name"] == "a"
    assert faulty.injector.seen == {}


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (403, "Forbidden", 'configmaps "a" is forbidden: refused by a fault'),
        (404, "NotFound", 'configmaps "a" not found'),
        (
            409,
            "Conflict",
            f'Operation cannot be fulfilled on configmaps "a": {errors.MODIFIED}',
        ),
        (410, "Expired", "The resourceVersion for the provided watch is too old."),
        (422, "Invalid", 'configmaps "a" is invalid'),
        (500, "InternalError", "Internal error occurred: injected by a fault"),
        (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
        (504, "Timeout", "Timeout: request did not complete within the allowed duration"),
    ],
)
async def test_an_answer_is_what_a_server_says(faulty, server, code, reason, message):
    """A call is answered with the code and the words of an API server, and the server never learns of it."""
    faulty.set({"verb": "update", "resource": "configmaps", "answer": code, "nth": 1})
    with pytest.raises(StatusError) as raised:
        await faulty.client.update(CONFIG_MAPS, config_map("a"))

    assert (raised.value.code, raised.value.reason, raised.value.message) == (code, reason, message)
    assert server.requests == []
    assert faulty.notes.recorded == [f"fault-fired: f1: answered {code}: update configmaps ns/a (call 1)"]


async def test_a_conflict_of_a_create_is_a_name_that_is_taken(faulty):
    """A create that is answered with 409 learns that the object is there already; a message may be given."""
    faulty.set({"verb": "create", "answer": 409, "nth": 1}, {"answer": 500, "message": "no"})
    with pytest.raises(StatusError, match='configmaps "a" already exists'):
        await faulty.client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(StatusError, match="no"):
        await faulty.client.create(CONFIG_MAPS, config_map("a"))


async def test_a_429_is_sent_again_after_its_time(faulty, server, looptime):
    """The client comes back after Retry-After, as client-go does; two refusals cost two waits."""
    faulty.set({"verb": "create", "answer": 429, "times": 2, "retryAfter": 3})
    await faulty.client.create(CONFIG_MAPS, config_map("a"))

    assert looptime == 6
    assert len(server.requests) == 1


async def test_a_lost_request_was_never_made(faulty, client):
    """Of a write whose request is lost nothing is stored, and the client does not send it again."""
    faulty.set({"verb": "create", "drop": "request", "nth": 1})
    with pytest.raises(ConnectionResetError, match=RESET):
        await faulty.client.create(CONFIG_MAPS, config_map("a"))

    assert (await client.list(CONFIG_MAPS))["items"] == []


async def test_a_lost_answer_was_given(faulty, client):
    """Of a write whose answer is lost the client knows nothing, but it is done."""
    faulty.set({"verb": "create", "drop": "answer", "nth": 1})
    with pytest.raises(ConnectionResetError, match=RESET):
        await faulty.client.create(CONFIG_MAPS, config_map("a"))

    assert len((await client.list(CONFIG_MAPS))["items"]) == 1


async def test_a_lost_read_is_sent_again(faulty, client, server):
    """A read is sent again at once, as client-go does after a reset."""
    await client.create(CONFIG_MAPS, config_map("a"))
    faulty.set({"verb": "get", "drop": "answer", "nth": 1})

    assert await faulty.client.get(CONFIG_MAPS, "a", "ns")
    assert len([request for request in server.requests if request.method == "GET"]) == 2


async def test_latency(faulty, looptime):
    """A delayed call is made later; the delay counts against the time that the client allows."""
    faulty.set({"delay": "2s", "verb": "create"})
    await faulty.client.create(CONFIG_MAPS, config_map("a"))
    assert looptime == 2

    faulty.set({"delay": "5m", "verb": "list"})
    with pytest.raises(TimeoutError):
        await faulty.client.list(CONFIG_MAPS)
    assert looptime == 62


async def test_a_crash_before_and_after_the_nth_write(faulty, client):
    """The second write is not made, or made and its answer never received; nothing else goes out after it."""
    for place, stored in (("before", 1), ("after", 2)):
        faulty = FaultyClient(client._transport, client._clock)
        faulty.set({"crash": place, "nth": 2, "resource": "configmaps"})
        await faulty.client.create(CONFIG_MAPS, config_map(f"{place}-1"))
        await faulty.client.list(CONFIG_MAPS)
        for attempt in (
            faulty.client.create(CONFIG_MAPS, config_map(f"{place}-2")),
            faulty.client.list(PODS),
        ):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await attempt

        names = [item["metadata"]["name"] for item in (await client.list(CONFIG_MAPS))["items"]]
        assert len([name for name in names if name.startswith(place)]) == stored
        assert faulty.notes.crashes == [f"f1: crash {place}: create configmaps ns/{place}-2 (call 2)"]
        assert faulty.notes.noted == [("f1", 1, 0), ("f1", 2, 1)]


@pytest.mark.parametrize(("place", "seen"), [("before", "1"), ("after", "2")])
async def test_a_crash_at_a_delivery(faulty, informer, client, place, seen):
    """The event that a component dies at has reached it or has not, and none reaches it after that."""
    faulty.set({"resource": "configmaps", "event": "MODIFIED", "crash": place, "nth": 1})
    for n in ("2", "3"):
        await client.update(CONFIG_MAPS, config_map("a", n=n))
        await asyncio.sleep(60)
    assert number(informer) == seen
    assert faulty.notes.crashes == [f"f1: crash {place}: MODIFIED event of configmaps ns/a (call 1)"]


async def test_a_stale_watch(faulty, informer, client):
    """Events are held back for a time, then come in order; the next ones come at once."""
    faulty.set({"resource": "configmaps", "stale": "5s"})
    for n in ("2", "3"):
        await client.update(CONFIG_MAPS, config_map("a", n=n))
        await asyncio.sleep(2)
    assert number(informer) == "1"

    await asyncio.sleep(1.1)
    assert number(informer) == "3"
    await client.update(CONFIG_MAPS, config_map("a", n="4"))
    await asyncio.sleep(0.1)
    assert number(informer) == "4"
    assert faulty.notes.recorded[0].startswith(
        "fault-fired: f1: held back: MODIFIED event of configmaps ns/a"
    )


async def test_a_stale_watch_that_is_cleared(faulty, informer, client):
    """Events that a stale watch held back arrive as soon as the fault is cleared."""
    faulty.set({"resource": "configmaps", "stale": True})
    await client.update(CONFIG_MAPS, config_map("a", n="2"))
    await asyncio.sleep(300)
    assert number(informer) == "1"

    faulty.set()
    await asyncio.sleep(0.1)
    assert number(informer) == "2"


async def test_a_delayed_watch(faulty, informer, client):
    """Each event comes so much later than it was sent, however many are on their way."""
    faulty.set({"verb": "watch", "resource": "configmaps", "delay": "10s"})
    for n in ("2", "3", "4"):
        await client.update(CONFIG_MAPS, config_map("a", n=n))
        await asyncio.sleep(1)
    await asyncio.sleep(6.9)
    assert number(informer) == "1"

    await asyncio.sleep(0.2)
    assert number(informer) == "2"
    await asyncio.sleep(2)
    assert number(informer) == "4"


async def test_a_410_in_the_middle_of_a_watch(faulty, informer, client, server):
    """The informer lists again, at once, and knows what it has missed."""
    lists = len([request for request in server.requests if request.target == "/api/v1/configmaps"])
    faulty.set({"resource": "configmaps", "event": "MODIFIED", "answer": 410, "nth": 1})
    await client.update(CONFIG_MAPS, config_map("a", n="2"))
    await asyncio.sleep(0.01)

    assert number(informer) == "2"
    assert len([r for r in server.requests if r.target == "/api/v1/configmaps"]) == lists + 1
    assert faulty.notes.recorded == [
        "fault-fired: f1: answered 410: MODIFIED event of configmaps ns/a (call 1)"
    ]


async def test_a_watch_that_breaks_off(faulty, informer, client):
    """After the connection is lost the informer goes on where it was, without a list."""
    faulty.set({"resource": "configmaps", "drop": "connection", "nth": 1})
    await client.update(CONFIG_MAPS, config_map("a", n="2"))
    await asyncio.sleep(2)

    assert number(informer) == "2"
    assert faulty.injector.seen["watch configmaps"] == 1
    assert "list configmaps" not in faulty.injector.seen


class Streams:
    """A transport whose watches end when they are closed, as connections do."""

    def __init__(self, inner):
        self._inner = inner

    async def __call__(self, request: Request):
        answer = await self._inner(request)
        return Closing(answer) if "watch=true" in request.target else answer

    async def close(self):
        pass


class Closing:
    def __init__(self, answer):
        self.status, self.headers = answer.status, answer.headers
        self._lines = answer.lines()
        self._closed = asyncio.Event()

    async def lines(self):
        while True:
            closed = asyncio.ensure_future(self._closed.wait())
            line = asyncio.ensure_future(anext(self._lines))
            await asyncio.wait({closed, line}, return_when=asyncio.FIRST_COMPLETED)
            closed.cancel()
            if not line.done():
                line.cancel()
                await asyncio.gather(line, return_exceptions=True)
                return
            yield line.result()

    async def close(self):
        self._closed.set()


async def test_an_outage_refuses_and_cuts(server, clock, client):
    """While it lasts, connections are refused and watches are cut; after it the informer catches up."""
    faulty = FaultyClient(server, clock, Streams(server))
    await client.create(CONFIG_MAPS, config_map("a", n="1"))
    informer = Informer(faulty.client, CONFIG_MAPS, clock)
    informer.start()
    await informer.synced()
    await asyncio.sleep(1)

    faulty.set({"outage": "20s"})
    assert faulty.notes.recorded == ["fault-fired: f1: API server unreachable"]
    with pytest.raises(ConnectionRefusedError, match="connection refused"):
        await faulty.client.get(CONFIG_MAPS, "a", "ns")
    await asyncio.sleep(0.1)
    await client.update(CONFIG_MAPS, config_map("a", n="2"))
    await asyncio.sleep(19)
    assert number(informer) == "1"
    await asyncio.sleep(2.5)
    assert number(informer) == "2"
    await informer.stop()


async def test_an_outage_that_hangs(faulty, informer, client, looptime):
    """A server that is silent answers what was asked of it when it is back, events too."""
    faulty.set({"outage": "hang", "for": "30s"})
    await client.update(CONFIG_MAPS, config_map("a", n="2"))
    began = asyncio.get_running_loop().time()
    answer = await faulty.client.get(CONFIG_MAPS, "a", "ns")

    assert 30 <= asyncio.get_running_loop().time() - began < 30.1
    assert answer["data"] == {"n": "2"}
    await asyncio.sleep(0.1)
    assert number(informer) == "2"


async def test_an_outage_that_begins_at_a_call(faulty, looptime):
    """The call at which it begins meets it first; before it all is well, after its time all is well again."""
    faulty.set({"outage": "5s", "verb": "create", "resource": "configmaps", "nth": 2})
    await faulty.client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(ConnectionRefusedError):
        await faulty.client.create(CONFIG_MAPS, config_map("b"))
    with pytest.raises(ConnectionRefusedError):
        await faulty.client.list(PODS)
    await asyncio.sleep(5)

    await faulty.client.create(CONFIG_MAPS, config_map("b"))


async def test_a_lost_lease(faulty, clock, server):
    """A leader that cannot renew learns it after the renew deadline; another leads once the lease is old."""
    led = []

    async def lead(ended):
        led.append(asyncio.get_running_loop().time())
        await ended.wait()
        led.append(asyncio.get_running_loop().time())

    stop = asyncio.Event()
    elector = LeaderElector(faulty.client, clock, "l", "ns", "me")
    leading = asyncio.create_task(elector.run_again(stop, lead))
    await asyncio.sleep(5)
    faulty.set({"lostLease": True})
    await asyncio.sleep(30)
    assert led == [0, 14]

    faulty.set()
    await asyncio.sleep(3)
    assert len(led) == 3
    stop.set()
    await leading
    assert (await server.client().get(LEASES, "l", "ns"))["spec"]["holderIdentity"] == ""


async def test_many_firings_are_reported_in_few_words(faulty):
    """The time line shows the first twenty firings of a fault, then each that is twice as many."""
    faulty.set({"answer": 500, "resource": "pods"})
    for _ in range(100):
        with contextlib.suppress(StatusError):
            await faulty.client.list(PODS)

    numbers = [int(text.rpartition("call ")[2].rstrip(")")) for text in faulty.notes.recorded]
    assert numbers == [*range(1, 21), 32, 64]
