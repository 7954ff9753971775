"""Writers, watchers and the store race each other."""

import asyncio
import json
from random import Random

import pytest
from randomness import SEED
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from until import until

from kubeskew.apiserver.handlers import watch as handlers_watch

NAMESPACED = "/api/v1/namespaces/default"


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
async def test_a_patch_creates_nothing(api, kind):
    """A patch of an object that does not exist is answered 404, even for kinds that a PUT creates."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
    }
    body = [{"op": "add", "path": "/spec", "value": service["spec"]}] if kind == "json" else service

    answer = await api.patch(f"{NAMESPACED}/services/s", body, kind)

    assert answer.status == 404
    assert answer.body["message"] == 'services "s" not found'
    assert (await api.put(f"{NAMESPACED}/services/s", service)).status == 201


async def test_a_watch_shows_the_object_as_it_was_stored_last(api, server):
    """The change that lets go of the last finalizer is not seen any more, as etcd never stored it."""
    await api.post(MAPS, config_map("a", finalizers=["x.example.com/f"], labels={"l": "1"}))
    await api.delete(f"{MAPS}/a")
    revision = server.services.store.revision

    freed = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None, "labels": {"l": "2"}}})
    assert freed.body["metadata"]["labels"] == {"l": "2"}

    for selector in ("", "&labelSelector=l%3D1"):
        target = f"{MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=10{selector}"
        kind, obj = await anext(api.watch(target))
        assert kind == "DELETED"
        assert obj["metadata"]["labels"] == {"l": "1"}
        assert obj["metadata"]["finalizers"] == ["x.example.com/f"]
        assert obj["metadata"]["resourceVersion"] == str(revision + 1)


async def test_a_watch_shows_what_came_before_an_undecodable_object(tmp_path):
    """An object of an unknown version ends a watch there and not earlier: each event before it is reported.

    Other watches cannot begin then, as the cache that feeds them has to be filled again.
    """
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    newer = await open_server(36, url)
    gates, served = {"DynamicResourceAllocation": True}, {"resource.k8s.io/v1beta1": True}
    older = await open_server(33, url, gates=gates, runtime_config=served)
    old, group = Caller(older), "/apis/resource.k8s.io"
    revision = older.services.store.revision
    classes = f"{group}/v1beta1/deviceclasses"
    for name in ("a", "b"):
        assert (await old.post(classes, {"metadata": {"name": name}, "spec": {}})).status == 201
    target = f"{classes}?watch=true&resourceVersion={revision}&timeoutSeconds=10"
    watches = [await old.raw("GET", target + selector) for selector in ("", "&labelSelector=x%21%3Dy")]
    made = await Caller(newer).post(f"{group}/v1/deviceclasses", {"metadata": {"name": "c"}, "spec": {}})
    assert made.status == 201
    await older.services.store.refresh()

    for watch in watches:
        lines = b"".join([chunk async for chunk in watch.body]).splitlines()
        seen = [(event["type"], event["object"]["metadata"].get("name")) for event in map(json.loads, lines)]
        assert seen == [("ADDED", "a"), ("ADDED", "b")]
    assert (await old.get(target)).status == 429
    await close_server(older)
    await close_server(newer)


async def test_a_watch_from_now_begins_after_what_is_acknowledged(tmp_path):
    """Without a resourceVersion a watch begins at the newest state, also of what another server wrote."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    one, two = await open_server(36, url), await open_server(36, url)
    for task in two.services.store._tasks:
        task.cancel()
    await Caller(one).post(MAPS, config_map("a"))

    _, obj = await anext(Caller(two).watch(f"{MAPS}?watch=true&timeoutSeconds=5"))

    assert obj["metadata"]["name"] == "a"
    for server in (two, one):
        await close_server(server)


async def test_no_bookmark_is_older_than_where_the_watch_began(api, server, monkeypatch):
    """A watch from a revision that is still to come has no progress to report before it."""
    monkeypatch.setattr(handlers_watch, "BOOKMARK_SECONDS", 0.0)
    ahead = server.services.store.revision + 2
    target = f"{MAPS}?watch=true&resourceVersion={ahead}&timeoutSeconds=10&allowWatchBookmarks=true"
    first = asyncio.ensure_future(anext(api.watch(target)))
    await until(lambda: server.services.lifetime.watches, every=0)
    (cursor,) = server.services.lifetime.watches
    cursor.request_progress()
    await asyncio.sleep(0)
    for name in ("a", "b", "c"):
        await api.post(MAPS, config_map(name))

    _, obj = await first
    assert int(obj["metadata"]["resourceVersion"]) >= ahead


async def follow(api, selector, seen, views):
    """List, then watch for ever: each view is the selected objects after one event, by name."""
    listed = (await api.get(f"{MAPS}?{selector}")).body
    view = {item["metadata"]["name"]: item["data"] for item in listed["items"]}
    revision = int(listed["metadata"]["resourceVersion"])
    async for kind, obj in api.watch(f"{MAPS}?watch=true&resourceVersion={revision}&{selector}"):
        name, at = obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])
        assert at > revision, "events repeat or go back"
        assert (kind == "ADDED") == (name not in view), f"{kind} of {name}, which was {name in view}"
        revision = at
        if kind == "DELETED":
            del view[name]
        else:
            view[name] = obj["data"]
        views[:] = [dict(view)]
        seen.set()


@pytest.mark.random
async def test_list_and_watch_agree_under_writes_through_two_servers(tmp_path):
    """Objects that enter and leave selections, written through both: every follower ends where LIST is."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    servers = [await open_server(36, url) for _ in range(2)]
    callers = [Caller(server) for server in servers]
    chance = Random(SEED)

    async def write(writer):
        for step in range(25):
            name, api = f"m{chance.randrange(6)}", callers[chance.randrange(2)]
            body = config_map(name, data={"step": f"{writer}-{step}"}, labels={"l": str(chance.randrange(2))})
            match chance.randrange(4):
                case 0:
                    answer = await api.delete(f"{MAPS}/{name}")
                case 1:
                    answer = await api.post(MAPS, body)
                case _:
                    answer = await api.put(f"{MAPS}/{name}", body)
            assert answer.status in {200, 201, 404, 409}

    followers = []
    for api in callers:
        for selector in (
            "",
            "labelSelector=l%3D1",
            "labelSelector=l%21%3D1",
            "fieldSelector=metadata.name%3Dm1",
        ):
            seen, views = asyncio.Event(), [{}]
            followers.append(
                (api, selector, seen, views, asyncio.ensure_future(follow(api, selector, seen, views)))
            )
    await asyncio.gather(*map(write, range(8)))

    async with asyncio.timeout(30):
        for api, selector, seen, views, task in followers:
            items = (await api.get(f"{MAPS}?{selector}")).body["items"]
            expected = {item["metadata"]["name"]: item["data"] for item in items}
            while views[0] != expected:
                assert not task.done(), task.exception()
                seen.clear()
                await seen.wait()
            task.cancel()
    await asyncio.gather(*(follower[-1] for follower in followers), return_exceptions=True)
    for server in servers:
        await close_server(server)


async def test_nobody_comes_to_own_what_a_status_write_ignores(api):
    """A deployment's labels stay as they are under a status write, and so do their owners."""
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = (await api.post(deployments, {"metadata": {"name": "d"}, "spec": spec})).body

    change = {"metadata": {"labels": {"q": "w"}}, "spec": {"replicas": 7}}
    answer = await api.patch(f"{deployments}/d/status?fieldManager=other", change)

    assert answer.status == 200
    assert answer.body["metadata"] == made["metadata"]
    assert answer.body["spec"] == made["spec"]


async def test_a_dry_run_knows_what_another_server_has_made(tmp_path):
    """A dry run is refused as the real write would be, where another server has made the object."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    one, two = await open_server(36, url), await open_server(36, url)
    for task in two.services.store._tasks:
        task.cancel()
    await Caller(one).post(MAPS, config_map("a"))

    assert (await Caller(two).post(f"{MAPS}?dryRun=All", config_map("a"))).status == 409

    for server in (two, one):
        await close_server(server)
