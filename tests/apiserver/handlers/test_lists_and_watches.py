"""LIST and WATCH: selectors, chunks, revisions, events."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import uvloop
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from until import until

from kubeskew.apiserver.handlers import watch as handlers_watch


@pytest.fixture
async def five(api):
    """Five ConfigMaps a to e; gives their resourceVersions."""
    versions = []
    for name in "abcde":
        labels = {"half": "first" if name < "c" else "second"}
        made = await api.post(MAPS, config_map(name, labels=labels))
        versions.append(made.body["metadata"]["resourceVersion"])
    return versions


def names(answer):
    return "".join(item["metadata"]["name"] for item in answer.body["items"])


@asynccontextmanager
async def of_version(minor, bugs=None, **gates):
    """A server of another minor, and the administrator's way to it."""
    server = await open_server(minor, gates=gates, bugs=bugs or {})
    try:
        yield Caller(server)
    finally:
        await close_server(server)


async def watched(api, target):
    """The events of a watch that ends by itself: type and object."""
    return [event async for event in api.watch(target)]


async def test_list(api, five):
    """A list has every object in order of names; its items have no kind of their own."""
    listed = await api.get(MAPS)

    assert names(listed) == "abcde"
    assert (listed.body["kind"], listed.body["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed.body["metadata"]["resourceVersion"]) >= int(five[-1])
    assert "continue" not in listed.body["metadata"]
    assert "kind" not in listed.body["items"][0]
    assert names(await api.get(MAPS.replace("default", "nowhere"))) == ""


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("labelSelector=half%3Dfirst", "ab"),
        ("labelSelector=half%20notin%20(first)", "cde"),
        ("fieldSelector=metadata.name%3Dc", "c"),
        ("fieldSelector=metadata.name!%3Dc", "abde"),
        ("fieldSelector=metadata.name%3Dc&labelSelector=half%3Dfirst", ""),
    ],
)
async def test_selectors(api, five, selector, expected):
    """Selectors narrow a list."""
    assert names(await api.get(f"{MAPS}?{selector}")) == expected


async def test_bad_selectors(api):
    """Selectors that make no sense are 400."""
    labels = await api.get(f"{MAPS}?labelSelector=!!")
    assert labels.body["message"] == "unable to parse requirement: found '!', expected: identifier"
    fields = await api.get(f"{MAPS}?fieldSelector=spec.nope%3Dx")
    assert fields.status == 400
    assert "spec.nope" in fields.body["message"]


async def test_chunks(api, five):
    """A limited list goes on with its token at the revision it was begun at."""
    first = await api.get(f"{MAPS}?limit=2")
    assert names(first) == "ab"
    assert first.body["metadata"]["remainingItemCount"] == 3
    await api.post(MAPS, config_map("bb"))
    await api.delete(f"{MAPS}/c")

    token = first.body["metadata"]["continue"]
    second = await api.get(f"{MAPS}?limit=2&continue={token}")
    token = second.body["metadata"]["continue"]
    third = await api.get(f"{MAPS}?limit=2&continue={token}")

    assert names(second) + names(third) == "cde"
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]
    assert "continue" not in third.body["metadata"]


async def test_chunks_of_a_selection(api, five):
    """Under a selector nobody counts what remains."""
    page = await api.get(f"{MAPS}?limit=1&labelSelector=half%3Dsecond")

    assert names(page) == "c"
    assert "remainingItemCount" not in page.body["metadata"]
    assert page.body["metadata"]["continue"]


@pytest.mark.parametrize(
    ("query", "found", "remaining"),
    [
        ("limit=2&resourceVersion=0", "abcde", None),
        ("limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan", "abcde", None),
        ("limit=2&resourceVersion={now}&resourceVersionMatch=NotOlderThan", "ab", 3),
        ("limit=2&resourceVersion={now}", "ab", 3),
        ("limit=2&resourceVersion=0&continue={token}", "cde", None),
        ("limit=1&resourceVersion=0&continue={token}&labelSelector=half%3Dsecond", "cde", None),
    ],
)  # fmt: skip
async def test_limits_at_zero(api, five, query, found, remaining):
    """At revision 0 the watch cache answers, which knows no limit."""
    token = (await api.get(f"{MAPS}?limit=2")).body["metadata"]["continue"]
    page = await api.get(f"{MAPS}?{query.format(now=five[4], token=token)}")

    assert names(page) == found
    assert page.body["metadata"].get("remainingItemCount") == remaining


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("limit=1", "b"),
        ("limit=1&resourceVersion={now}", ""),
        ("limit=1&resourceVersion={now}&resourceVersionMatch=Exact", "b"),
        ("resourceVersion={before}&resourceVersionMatch=Exact", ""),
        ("continue={token}", "b"),
        ("continue=nonsense&resourceVersion=1", "b"),
    ],
)  # fmt: skip
async def test_lists_of_one_name(api, five, query, found):
    """A list that can hold only one object, by its name, is answered without limit and continue tokens."""
    token = (await api.get(f"{MAPS}?limit=3")).body["metadata"]["continue"]
    if not found and "now" in query:
        await api.delete(f"{MAPS}/b")
    query = query.format(now=five[4], before=five[0], token=token)
    page = await api.get(f"{MAPS}?fieldSelector=metadata.name%3Db&{query}")

    assert names(page) == found
    assert "continue" not in page.body["metadata"]


BAD_TOKENS = {
    "abc": "invalid character 'i' looking for beginning of value",
    "a": "illegal base64 data at input byte 0",
    "ab%3D": "illegal base64 data at input byte 2",
    "eyJ2IjoieCJ9": "server does not recognize this encoded version x",
    "eyJ2Ijo1fQ": "json: cannot unmarshal number into Go struct field continueToken.v of type string",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ": "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NX0": "encoded start key empty (version meta.k8s.io/v1)",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi94In0": "../x",
}


@pytest.mark.parametrize("token", BAD_TOKENS)
async def test_bad_tokens(api, token):
    """A token that this server never gave is 400, with what Go says of it."""
    answer = await api.get(f"{MAPS}?continue={token}")
    assert answer.status == 400
    why = f"invalid continue token: continue key is not valid: {BAD_TOKENS[token]}"
    assert answer.body["message"] == why


async def test_fields_of_cluster_scoped_kinds(api):
    """A kind that says which fields may be selected has no namespace if it is not below one."""
    answer = await api.get("/api/v1/namespaces?fieldSelector=metadata.namespace%3Dx")
    assert (answer.status, answer.body["message"]) == (400, "field label not supported: metadata.namespace")


async def test_unreadable_revision_of_a_get(api):
    """A get goes through upstream's cache, which does not say whose fault a bad version is."""
    answer = await api.get("/api/v1/namespaces/default?resourceVersion=abc")
    why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    assert (answer.status, answer.body["message"]) == (500, why)


async def test_expired_token(api, five):
    """A token whose revision is gone is 410 and offers another, which goes on with what is there."""
    first = await api.get(f"{MAPS}?limit=2")
    await api.delete(f"{MAPS}/c")
    store = api.server.services.store
    await store.compact(store.revision)

    gone = await api.get(f"{MAPS}?limit=2&continue={first.body['metadata']['continue']}")
    assert (gone.status, gone.body["reason"]) == (410, "Expired")
    rest = await api.get(f"{MAPS}?continue={gone.body['metadata']['continue']}")
    assert names(rest) == "de"


async def test_revisions(api, five):
    """Exact gives the past, NotOlderThan and 0 the present; the future is 504 after a while."""
    await api.delete(f"{MAPS}/a")

    assert names(await api.get(f"{MAPS}?resourceVersion={five[1]}&resourceVersionMatch=Exact")) == "ab"
    assert (
        names(await api.get(f"{MAPS}?resourceVersion={five[4]}&resourceVersionMatch=NotOlderThan")) == "bcde"
    )
    assert names(await api.get(f"{MAPS}?resourceVersion=0")) == "bcde"
    future = await api.get(f"{MAPS}?resourceVersion=999999")
    assert future.status == 504
    assert future.body["message"].startswith("Timeout: Too large resource version: 999999, current: ")


@pytest.mark.parametrize("query", ["resourceVersionMatch=Exact", "limit=2"])
@pytest.mark.parametrize(
    ("minor", "status", "message", "details"),
    [
        (33, 500, "etcdserver: mvcc: required revision is a future revision", None),
        (34, 504, "Timeout: Too large resource version: 999999, current: ", {"retryAfterSeconds": 1}),
        (36, 504, "Timeout: Too large resource version: 999999, current: ", {"retryAfterSeconds": 1}),
    ],
)
async def test_an_exact_list_of_the_future(query, minor, status, message, details):
    """Up to 1.33 an exact list at a revision to come gets etcd's words as a 500, then 504."""
    async with of_version(minor) as api:
        answer = await api.get(f"{MAPS}?resourceVersion=999999&{query}")
    assert (answer.status, answer.body["message"][: len(message)]) == (status, message)
    found = answer.body.get("details")
    assert (found and {"retryAfterSeconds": found["retryAfterSeconds"]}) == details


async def test_an_exact_list_of_the_future_that_no_cache_answers():
    """Without snapshots in the cache the storage says at once that the revision is too large."""
    async with of_version(34, ListFromCacheSnapshot=False) as api:
        answer = await api.get(f"{MAPS}?resourceVersion=999999&resourceVersionMatch=Exact")
    assert answer.status == 504
    assert answer.body["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }


async def test_every_kept_revision_can_be_listed_and_watched(server, api, five):
    """An exact list has what there was at a revision, a watch what came behind it, unless it is compacted."""
    await api.delete(f"{MAPS}/b")
    kept = [int(revision) for revision in five]
    for count, revision in enumerate(kept, 1):
        exact = await api.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")
        assert names(exact) == "abcde"[:count]
        assert exact.body["metadata"]["resourceVersion"] == str(revision)
        lines = await watched(api, f"{MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=1")
        assert [kind for kind, _ in lines] == ["ADDED"] * (5 - count) + ["DELETED"]
    await server.services.store.compact(kept[2])
    for revision in kept[:2]:
        gone = await api.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")
        assert (gone.status, gone.body["reason"]) == (410, "Expired")
        assert gone.body["message"] == "The resourceVersion for the provided list is too old."
        [(kind, error)] = await watched(api, f"{MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=1")
        assert (kind, error["code"]) == ("ERROR", 410)
        assert error["message"] == f"too old resource version: {revision} ({kept[2]})"
    assert names(await api.get(f"{MAPS}?resourceVersion={kept[2]}&resourceVersionMatch=Exact")) == "abc"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("resourceVersionMatch=Exact", 422, "is forbidden unless resourceVersion is provided"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, 'resourceVersionMatch "exact" is forbidden'),
        ("resourceVersion=5&resourceVersionMatch=Bogus", 422, 'Unsupported value: "Bogus"'),
        ("resourceVersion=abc", 400, "invalid resource version: resourceVersion: Invalid value"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("watch=true&resourceVersion=abc", 500, "strconv.ParseUint"),
        ("watch=true&sendInitialEvents=true", 422, "requires setting resourceVersionMatch to NotOlderThan"),
    ],
)  # fmt: skip
async def test_bad_options(api, query, status, text):
    """Options that contradict each other get upstream's answer."""
    answer = await api.get(f"{MAPS}?{query}")

    assert answer.status == status
    assert text in answer.body["message"]


async def gather(api, target, count):
    """The first `count` events of a watch, as (type, name)."""
    events = []
    async for kind, obj in api.watch(target):
        events.append((kind, obj["metadata"].get("name")))
        if len(events) == count:
            return events
    return events


async def test_watch_from_a_revision(api, five):
    """A watch tells what happened since, in order, and goes on with what happens."""
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
    ("bug", "path", "heard"),
    [
        (False, "/api/v1/watch/namespaces/a?", ["ADDED", "MODIFIED"]),
        (True, "/api/v1/watch/namespaces/a?", ["ADDED"]),
        (True, "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Da&", ["ADDED", "MODIFIED"]),
        (True, "/api/v1/watch/namespaces?labelSelector=own&", ["ADDED", "MODIFIED"]),
    ],
)
async def test_watches_of_one_namespace(bug, path, heard):
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

    assert seen == heard


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
    target = f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1"
    events = []
    async for kind, _ in api.watch(target):
        events.append(kind)
        if kind == "BOOKMARK":
            await api.post(MAPS, config_map("late"))
    assert events == ["BOOKMARK", "ADDED"]


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
        target = f"{MAPS}?watch=1&timeoutSeconds=2&allowWatchBookmarks=1"
        watches = (gather(Caller(server), target, 10) for _ in range(20))
        try:
            return [[kind for kind, _ in events] for events in await asyncio.gather(*watches)]
        finally:
            await close_server(server)

    with asyncio.Runner(loop_factory=_LateClock) as runner:
        assert runner.run(seen()) == [["BOOKMARK"] if last < 2.0 else []] * 20


async def test_watch_ends(api):
    """A watch ends after its timeout, and when the server stops."""
    events = [kind async for kind, _ in api.watch(f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1")]
    assert "BOOKMARK" not in events

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
