"""Informers against a server that goes away, forgets history and restarts; in virtual time."""

import asyncio
import itertools
import weakref

import aiohttp
import pytest
from until import until

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, PODS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.periods import REAL, Periods
from kubeskew.apimachinery.versions import Version

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def config_map(name: str, value: str = "", namespace: str = "default") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": {"value": value}}


@pytest.fixture
async def informer(client, clock):
    informer = Informer(client, CONFIG_MAPS, clock)
    yield informer
    await informer.stop()


@pytest.fixture
def seen(informer):
    """Returns the handlers' calls, in order."""
    seen = []
    informer.add_handler(
        added=lambda obj: seen.append(("added", obj["metadata"]["name"])),
        updated=lambda old, new: seen.append(("updated", old["data"]["value"], new["data"]["value"])),
        deleted=lambda obj: seen.append(("deleted", obj["metadata"]["name"])),
    )
    return seen


async def settled(informer, server):
    """The informer has seen the server's last change."""
    await until(lambda: informer.resource_version == str(server.revision), 30)


async def test_the_first_list_is_delivered_before_synced(client, informer, seen):
    """Consumers that wait for `synced` find everything there and reported."""
    await client.create(CONFIG_MAPS, config_map("a"))
    informer.start()
    await informer.synced()

    assert seen == [("added", "a")]
    assert informer.get("default", "a")["kind"] == "ConfigMap"
    assert informer.get("default", "a")["apiVersion"] == "v1"


async def test_changes_are_reported_with_old_and_new(client, server, informer, seen):
    """Handlers get both states of an update, and the last one of a deletion."""
    informer.start()
    await informer.synced()
    made = await client.create(CONFIG_MAPS, config_map("a", "1"))
    await client.update(CONFIG_MAPS, {**made, "data": {"value": "2"}})
    await client.delete(CONFIG_MAPS, "a", "default")
    await settled(informer, server)

    assert seen == [("added", "a"), ("updated", "1", "2"), ("deleted", "a")]
    assert informer.list() == []


async def test_a_broken_watch_is_resumed_without_a_new_list(client, server, informer, seen):
    """After a disconnect the watch goes on from the last revision seen."""
    informer.start()
    await informer.synced()
    await asyncio.sleep(0.01)
    await server.disconnect()
    await client.create(CONFIG_MAPS, config_map("a"))
    await settled(informer, server)

    lists = [
        request for request in server.requests if request.method == "GET" and "watch" not in request.target
    ]
    assert seen == [("added", "a")]
    assert len(lists) == 1


async def test_deletes_while_away_are_reported_after_a_relist(client, server, informer, seen):
    """On 410 the collection is listed again, and what is gone is reported as deleted."""
    await client.create(CONFIG_MAPS, config_map("gone"))
    await client.create(CONFIG_MAPS, config_map("stays", "1"))
    informer.start()
    await informer.synced()
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    await server.disconnect()
    await asyncio.sleep(1)
    server.outage = None
    await client.delete(CONFIG_MAPS, "gone", "default")
    stays = await client.get(CONFIG_MAPS, "stays", "default")
    await client.update(CONFIG_MAPS, {**stays, "data": {"value": "2"}})
    server.compact()
    seen.clear()
    await settled(informer, server)

    assert seen == [("deleted", "gone"), ("updated", "1", "2")]


async def test_an_object_replaced_while_away_is_deleted_and_added(client, server, informer, seen):
    """An object of the same name with another uid is reported as deleted and added."""
    await client.create(CONFIG_MAPS, config_map("a"))
    informer.start()
    await informer.synced()
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    await server.disconnect()
    await asyncio.sleep(1)
    server.outage = None
    await client.delete(CONFIG_MAPS, "a", "default")
    await client.create(CONFIG_MAPS, config_map("a"))
    server.compact()
    seen.clear()
    await settled(informer, server)

    assert seen == [("deleted", "a"), ("added", "a")]


async def test_all_that_is_listed_again_is_reported_as_updated(client, server, informer, seen):
    """Objects of the same revision count as updated after a relist, shown otherwise by the server or not."""
    await client.create(CONFIG_MAPS, config_map("a", "1"))
    await client.create(CONFIG_MAPS, config_map("b", "1"))
    informer.start()
    await informer.synced()
    shown = await client.get(CONFIG_MAPS, "a", "default")
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    await server.disconnect()
    await asyncio.sleep(1)
    server.outage = None
    server.show({**shown, "data": {"value": "2"}})
    await client.create(CONFIG_MAPS, config_map("c"))
    server.compact()
    seen.clear()
    await settled(informer, server)

    assert seen == [("updated", "1", "2"), ("updated", "1", "1"), ("added", "c")]


async def test_the_backoff_grows_to_one_second(server, informer):
    """A server that is away is asked 50 ms, 100 ms, … and at most 1 s later."""
    times = []

    def outage(request):
        times.append(asyncio.get_running_loop().time())
        return aiohttp.ClientConnectionError("refused")

    server.outage = outage
    informer.start()
    await asyncio.sleep(10)
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]

    assert pytest.approx(waits[:7]) == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert not informer.has_synced


async def test_real_backoff_is_that_of_reflectors(server, client, clock):
    """With upstream's periods it waits 0.8 to 30 s, and as long again within two minutes."""
    informer = Informer(client, CONFIG_MAPS, clock, periods=Periods.at(Version.parse("1.36"), REAL))
    times, away = [], True

    def outage(request):
        times.append(asyncio.get_running_loop().time())
        return aiohttp.ClientConnectionError("refused") if away else None

    server.outage = outage
    informer.start()
    await asyncio.sleep(100)
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pytest.approx(waits[:7]) == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]

    away = False
    await informer.synced()
    await asyncio.sleep(10)
    times, away = [], True
    await server.disconnect()
    await until(lambda: len(times) >= 2, 100)
    assert pytest.approx(times[1] - times[0]) == 30.0

    away = False
    await asyncio.sleep(400)
    times, away = [], True
    await server.disconnect()
    await until(lambda: len(times) >= 2, 100)
    assert pytest.approx(times[1] - times[0]) == 1.6
    await informer.stop()


@pytest.mark.parametrize(
    ("refusal", "unserved"),
    [
        (errors.StatusError(404, "NotFound", "the server could not find the requested resource"), True),
        (errors.StatusError(500, "", 'no kind "A" is registered for version "b/v1" in scheme "s"'), True),
        (errors.StatusError(429, "TooManyRequests", "storage is (re)initializing"), True),
        (errors.StatusError(429, "TooManyRequests", "too many requests"), False),
        (errors.StatusError(500, "InternalError", "trouble"), False),
    ],
)
async def test_what_cannot_be_had_is_known(client, informer, monkeypatch, refusal, unserved):
    """Nobody needs to wait for what the server does not have or cannot decode; it may come later."""
    refusals = [refusal] * 3
    ask = client.list

    async def answer(*arguments, **more):
        if refusals:
            raise refusals.pop()
        return await ask(*arguments, **more)

    monkeypatch.setattr(client, "list", answer)
    informer.start()
    await informer.settled()
    assert (informer.is_unserved, informer.has_synced) == (unserved, not unserved)
    await informer.synced()
    assert not informer.is_unserved


async def test_a_role_that_another_server_brings_is_waited_for(client, informer, monkeypatch):
    """A list that the server forbids may be allowed by its next version, whose roles are others."""
    refusals = [errors.StatusError(403, "Forbidden", "things is forbidden")]
    ask = client.list

    async def answer(*arguments, **more):
        if refusals:
            raise refusals.pop()
        return await ask(*arguments, **more)

    known = []
    monkeypatch.setattr(client, "list", answer)
    informer.add_state_handler(lambda: known.append((informer.cannot_list, informer.is_unserved)))
    informer.start()
    await informer.synced()

    assert known == [(True, False), (False, False)]


async def test_a_refused_watch_keeps_its_position(client, server, informer, seen):
    """503 from a server that starts is no reason to list again."""
    informer.start()
    await informer.synced()
    refusals = iter([errors.service_unavailable("starting")] * 3)
    server.outage = lambda request: next(refusals, None)
    await server.disconnect()
    await asyncio.sleep(2)
    await client.create(CONFIG_MAPS, config_map("a"))
    await settled(informer, server)

    lists = [request for request in server.requests if "watch" not in request.target]
    assert seen == [("added", "a")]
    assert [request.method for request in lists] == ["GET", "POST"]


async def test_a_late_handler_sees_what_is_there(client, informer):
    """Adding a handler after the sync delivers the present objects as added."""
    await client.create(CONFIG_MAPS, config_map("a"))
    informer.start()
    await informer.synced()
    late = []
    informer.add_handler(added=late.append)

    assert [obj["metadata"]["name"] for obj in late] == ["a"]


async def test_a_failing_handler_does_not_disturb_the_others(client, informer, seen, caplog):
    """The exception is logged; the copy and the other handlers go on."""

    def broken(obj):
        raise RuntimeError("oops")

    informer.add_handler(added=broken)
    await client.create(CONFIG_MAPS, config_map("a"))
    informer.start()
    await informer.synced()

    assert seen == [("added", "a")]
    assert "informer callback failed" in caplog.text


async def test_indexes_follow_changes(client, server, informer):
    """An object is found under its present values only, also in an index added late."""
    informer.add_index("value", lambda obj: [obj["data"]["value"]])
    made = await client.create(CONFIG_MAPS, config_map("a", "1"))
    informer.start()
    await informer.synced()

    assert [obj["metadata"]["name"] for obj in informer.by_index("value", "1")] == ["a"]

    await client.update(CONFIG_MAPS, {**made, "data": {"value": "2"}})
    await settled(informer, server)
    informer.add_index("late", lambda obj: [obj["data"]["value"]])

    assert informer.by_index("value", "1") == []
    assert [obj["metadata"]["name"] for obj in informer.by_index("late", "2")] == ["a"]


async def test_a_namespace_is_listed_by_itself(client, informer):
    """`list(namespace)` gives the objects of that namespace."""
    await client.create(CONFIG_MAPS, config_map("a", namespace="one"))
    await client.create(CONFIG_MAPS, config_map("b", namespace="two"))
    informer.start()
    await informer.synced()

    assert [obj["metadata"]["name"] for obj in informer.list("two")] == ["b"]
    assert len(informer.list()) == 2


async def test_a_factory_shares_informers(client, clock):
    """Two consumers of one collection cost one list and one watch."""
    factory = InformerFactory(client, clock)

    assert factory.informer(PODS) is factory.informer(PODS)
    assert factory.informer(PODS) is not factory.informer(PODS, field_selector="spec.nodeName=n")

    factory.start()
    await factory.synced()

    assert factory.has_synced

    await factory.stop()


async def test_trimmed_copies_leave_the_managers_of_fields_to_the_server(client, clock, server):
    """Trimmed informers keep no managedFields, neither of lists nor of watches; other informers do."""
    informers = [InformerFactory(client, clock, trimmed=trimmed) for trimmed in (True, False)]
    copies = [factory.informer(CONFIG_MAPS) for factory in informers]
    managed = config_map("a")
    managed["metadata"]["managedFields"] = [{"manager": "m"}]
    await client.create(CONFIG_MAPS, managed)
    for factory in informers:
        factory.start()
        await factory.synced()
    managed = config_map("b")
    managed["metadata"]["managedFields"] = [{"manager": "m"}]
    await client.create(CONFIG_MAPS, managed)
    for copy in copies:
        await settled(copy, server)

    kept = [["managedFields" in obj["metadata"] for obj in copy.list()] for copy in copies]
    assert kept == [[False, False], [True, True]]
    for factory in informers:
        await factory.stop()


async def test_what_the_server_refuses_is_known_and_reported_until_it_gives_in(client, server, informer):
    """Handlers of the state are called at the first failure, at another one, and when the list is there."""
    states = []
    informer.add_state_handler(lambda: states.append((informer.has_synced, informer.failure)))
    refusals = ["no role", "no role", "no such group"]

    def outage(request):
        return StatusError(403, "Forbidden", refusals.pop(0)) if refusals else None

    server.outage = outage
    informer.start()
    await informer.synced()

    assert states == [(False, "no role"), (False, "no such group"), (True, "")]


async def test_a_watch_that_is_refused_is_reported_and_its_recovery_too(client, server, informer):
    """The objects that were listed stay there meanwhile."""
    await client.create(CONFIG_MAPS, config_map("a"))
    informer.start()
    await informer.synced()
    server.outage = lambda _: StatusError(403, "Forbidden", "no role")
    await server.disconnect()
    await until(lambda: informer.failure == "no role", 30)
    assert informer.get("default", "a") is not None

    server.outage = None
    await client.create(CONFIG_MAPS, config_map("b"))
    await until(lambda: informer.failure == "", 30)
    assert informer.get("default", "b") is not None


async def test_a_factory_follows_for_a_while(client, clock, server):
    """A followed informer is nobody else's, holds up nothing, and ends with `unfollow` or the factory."""
    factory = InformerFactory(client, clock)
    server.outage = lambda request: StatusError(403, "Forbidden", "no") if "/pods" in request.target else None
    refused, followed = factory.follow(PODS), factory.follow(CONFIG_MAPS)
    await followed.synced()
    await until(lambda: refused.failure == "no", 30)
    await factory.synced()
    assert factory.has_synced
    assert factory.informer(PODS) is not refused

    factory.unfollow(refused)
    await factory.stop()
    assert [task for task in asyncio.all_tasks() if "informer" in task.get_name()] == []


async def test_a_stopped_informer_lets_go_of_its_listeners(informer):
    """A component frees what it had when it stops, without the garbage collector."""

    class Listener:
        def note(self, _obj):
            """Does nothing."""

    listener = Listener()
    informer.add_handler(listener.note)
    held = weakref.ref(listener)
    del listener
    assert held() is not None
    await informer.stop()

    assert held() is None
