"""WATCH: where it begins, what it shows, how it ends."""

import asyncio
import json

import pytest
import uvloop
from listing import gather, names, of_version
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from until import until

from kubeskew.apiserver.handlers import watch as handlers_watch


async def test_watch_from_a_revision(api, five):
    """A watch shows what happened since, in order, and goes on with what happens."""
    seen = asyncio.create_task(gather(api, f"{MAPS}?watch=true&resourceVersion={five[3]}", 4))
    await api.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    await api.delete(f"{MAPS}/b")
    await api.post(MAPS, config_map("f"))

    assert await seen == [("ADDED", "e"), ("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "f")]


async def test_deleted_object_has_the_revision_of_its_end(api, five):
    """The object of a DELETED event shows the revision of the delete."""
    await api.delete(f"{MAPS}/b")
    kind, obj = await anext(api.watch(f"{MAPS}?watch=true&resourceVersion={five[4]}"))
    assert kind == "DELETED"
    assert int(obj["metadata"]["resourceVersion"]) > int(five[4])


async def test_watch_from_now(api, five):
    """Without a revision a watch begins with what is there."""
    assert await gather(api, f"{MAPS}?watch=true", 5) == [("ADDED", name) for name in "abcde"]


async def test_legacy_paths(api, five):
    """The old /watch/ prefix still watches, a list or one object."""
    base = MAPS.replace("/v1/", "/v1/watch/")
    assert (await gather(api, base, 1))[0] == ("ADDED", "a")
    assert await gather(api, f"{base}/d", 1) == [("ADDED", "d")]
    named = f"{MAPS}?watch=true&fieldSelector=metadata.name%3Dd"
    assert await gather(api, named, 1) == [("ADDED", "d")]


@pytest.mark.parametrize(
    ("bug", "path", "expected"),
    [
        (False, "/api/v1/watch/namespaces/a?", ["ADDED", "MODIFIED"]),
        (True, "/api/v1/watch/namespaces/a?", ["ADDED"]),
        (True, "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Da&", ["ADDED", "MODIFIED"]),
        (True, "/api/v1/watch/namespaces?labelSelector=own&", ["ADDED", "MODIFIED"]),
    ],
)
async def test_watches_of_one_namespace(bug, path, expected):
    """With 125145 the old path of one namespace brings what is there, and nothing that happens to it."""
    async with of_version(30, bugs={"k8s-125145": bug}) as api:
        metadata = {"name": "a", "labels": {"own": "1"}}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await api.post("/api/v1/namespaces", made)
        seen, begun = [], asyncio.Event()

        async def follow():
            async for kind, _ in api.watch(f"{path}timeoutSeconds=1"):
                seen.append(kind)
                begun.set()

        following = asyncio.create_task(follow())
        await begun.wait()
        change = {"metadata": {"labels": {"more": "2"}}}
        await api.patch("/api/v1/namespaces/a", change)
        await following

    assert seen == expected


async def test_watch_with_selector(api, five):
    """Objects come when they begin to match and go when they cease to."""
    target = f"{MAPS}?watch=true&resourceVersion={five[4]}&labelSelector=half%3Dfirst"
    seen = asyncio.create_task(gather(api, target, 4))
    await api.patch(f"{MAPS}/d", {"metadata": {"labels": {"half": "first"}}})
    await api.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    await api.patch(f"{MAPS}/e", {"data": {"k": "v"}})
    await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"half": "none"}}})
    await api.delete(f"{MAPS}/e")
    await api.delete(f"{MAPS}/b")

    assert await seen == [("ADDED", "d"), ("MODIFIED", "a"), ("DELETED", "a"), ("DELETED", "b")]


async def test_watch_list(api, five):
    """sendInitialEvents gives all there is, then a bookmark that says so."""
    target = (
        f"{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    events = []
    async for kind, obj in api.watch(target):
        events.append((kind, obj))
        if kind == "BOOKMARK":
            break

    assert [kind for kind, _ in events] == ["ADDED"] * 5 + ["BOOKMARK"]
    metadata = events[-1][1]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= int(five[-1])


async def test_watch_too_old(api, five):
    """A watch from a revision that is gone is an ERROR event with 410."""
    store = api.server.services.store
    await store.compact(store.revision)

    events = [event async for event in api.watch(f"{MAPS}?watch=true&resourceVersion={five[0]}")]
    assert [(kind, obj["code"], obj["reason"]) for kind, obj in events] == [("ERROR", 410, "Expired")]


@pytest.fixture
async def restarted(tmp_path):
    """A server that began over what another one had written; gives a caller, and the revision then."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    before = await open_server(url=url)
    made = await Caller(before).post(MAPS, config_map("a"))
    await Caller(before).post(MAPS, config_map("b"))
    newest = before.services.store.revision
    await close_server(before)
    server = await open_server(url=url)
    yield Caller(server), int(made.body["metadata"]["resourceVersion"]), newest
    await close_server(server)


async def test_a_server_that_starts_knows_no_older_events_to_watch(restarted):
    """A watch from before the server's start is an ERROR event with 410 and the revision of the start; one
    from the start goes on, and lists of the past are answered."""
    api, first, start = restarted
    found = [event async for event in api.watch(f"{MAPS}?watch=true&resourceVersion={first}")]
    assert [(kind, obj["code"], obj["message"]) for kind, obj in found] == [
        ("ERROR", 410, f"too old resource version: {first} ({start})")
    ]
    seen = asyncio.create_task(gather(api, f"{MAPS}?watch=true&resourceVersion={start}", 1))
    await api.post(MAPS, config_map("c"))
    assert await seen == [("ADDED", "c")]
    assert names(await api.get(f"{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")) == "a"


async def test_a_watch_begins_at_any_kept_revision_if_it_says_exactly(restarted):
    """With resourceVersionMatch=Exact a watch goes on from a revision before the server's start."""
    api, first, _ = restarted
    exact = f"{MAPS}?watch=true&resourceVersion={first}&resourceVersionMatch=Exact"
    assert await gather(api, exact, 1) == [("ADDED", "b")]
    for refused in ("resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact"):
        assert (await api.get(f"{MAPS}?watch=true&{refused}")).status == 422


async def test_events_have_no_cache_that_begins_with_the_server(restarted):
    """A watch of events goes on from before the server's start, for upstream's comes from etcd."""
    api, first, _ = restarted
    events = MAPS.replace("configmaps", "events")
    seen = asyncio.create_task(gather(api, f"{events}?watch=true&resourceVersion={first}", 1))
    about = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    made = await api.post(events, {"metadata": {"name": "e"}, "involvedObject": about})
    assert made.status == 201, made.raw
    assert await seen == [("ADDED", "e")]


async def test_bookmark_before_the_end(api, monkeypatch):
    """A watch that takes bookmarks has one shortly before its end, and events after it all the same."""
    monkeypatch.setattr(handlers_watch, "_LAST_BOOKMARK", 0.7)
    target = f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1{await _since_a_map(api)}"
    events = []
    async for kind, _ in api.watch(target):
        events.append(kind)
        if kind == "BOOKMARK":
            await api.post(MAPS, config_map("late"))
    assert events == ["ADDED", "BOOKMARK", "ADDED"]


async def _since_a_map(api: Caller) -> str:
    """Makes a ConfigMap; returns what has a watch begin before it, so that a bookmark has news to show."""
    before = api.server.services.store.revision
    await api.post(MAPS, config_map("early"))
    return f"&resourceVersion={before}"


async def test_a_bookmark_reports_no_revision_twice(api, five, monkeypatch):
    """A watch has no bookmark of the revision at which it began."""
    monkeypatch.setattr(handlers_watch, "_LAST_BOOKMARK", 0.7)
    target = f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1&resourceVersion={five[4]}"
    assert [kind async for kind, _ in api.watch(target)] == []


async def test_no_bookmarks_of_what_has_no_cache(api, monkeypatch):
    """A watch of events, which upstream's store feeds, has no bookmark before its end."""
    monkeypatch.setattr(handlers_watch, "_LAST_BOOKMARK", 0.7)
    events = MAPS.replace("configmaps", "events")
    since = await _since_a_map(api)
    target = f"{events}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1{since}"
    assert [kind async for kind, _ in api.watch(target)] == []


class _LateClock(uvloop.Loop):
    """A loop whose clock stands still for its first second, so that opening watches takes no time on it."""

    def time(self) -> float:
        now = super().time()
        self._began = getattr(self, "_began", now)
        return max(self._began, now - 1)


@pytest.mark.parametrize("last", [2.0, 1.9997, 1.0])
def test_bookmarks_on_the_loop_of_the_components(monkeypatch, last):
    """Twenty watches of two seconds reach their end, with one bookmark each unless it were due at once.

    uvloop gives no timer, but a bare handle, for a moment that is less than half a millisecond ahead.
    """
    monkeypatch.setattr(handlers_watch, "_LAST_BOOKMARK", last)

    async def seen() -> list[list[str]]:
        server = await open_server()
        since = await _since_a_map(Caller(server))
        target = f"{MAPS}?watch=1&timeoutSeconds=2&allowWatchBookmarks=1{since}"
        watches = (gather(Caller(server), target, 10) for _ in range(20))
        try:
            return [[kind for kind, _ in events] for events in await asyncio.gather(*watches)]
        finally:
            await close_server(server)

    with asyncio.Runner(loop_factory=_LateClock) as runner:
        assert runner.run(seen()) == [["ADDED", "BOOKMARK"][: 2 if last < 2.0 else 1]] * 20


async def test_watch_ends(api):
    """A watch ends after its timeout, and when the server stops."""
    target = f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1{await _since_a_map(api)}"
    assert [kind async for kind, _ in api.watch(target)] == ["ADDED"]

    endless = asyncio.create_task(gather(api, f"{MAPS}?watch=true", 10**6))
    await until(lambda: api.server.services.lifetime.watches)
    api.server.services.lifetime.stop()
    await endless


async def test_events_are_encoded_once(api, five):
    """Two watchers of the same version get the very same line."""
    target = f"{MAPS}?watch=true&resourceVersion={five[4]}"
    await api.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    lines = []
    for _ in range(2):
        response = await api.raw("GET", target)
        async for chunk in response.body:
            lines.append(chunk)
            break

    assert lines[0] == lines[1]
    assert len(api.server.services.encoded_events) == 1


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"])
async def test_a_long_beginning_comes_in_pieces(api, five, monkeypatch, accept):
    """The first events of a watch come complete but in pieces, so that others have a turn in between."""
    store = api.server.services.store
    monkeypatch.setattr(
        handlers_watch, "_PIECE", 1 + max(len(entry.value) for entry in store.list("configmaps").entries)
    )
    response = await api.raw("GET", f"{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1", accept=accept)

    pieces = [piece.splitlines() async for piece in response.body]

    events = [json.loads(line) for piece in pieces for line in piece]
    rows = [event["object"].get("rows", [event])[0]["object"] for event in events]
    assert [len(piece) for piece in pieces] == [2, 2, 1]
    assert "".join(row["metadata"]["name"] for row in rows) == "abcde"
