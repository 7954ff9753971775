"""Reads get of upstream's watch cache what each release gave."""

import json

import pytest
from listing import gather, names, of_version
from server_in_process import MAPS, config_map

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.security import web_tokens
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.generic import revisions
from kubeskew.apiserver.watch_cache_features import Read, Source

CACHED, STORED = Source.CACHE, Source.STORE
OLDER, EXACT = "NotOlderThan", "Exact"
# Reads that the cache answers: whole lists, limited ones, those of one name, these with a limit.
ALWAYS = {Read.ANY: "wlso", Read.NOT_OLDER: "ws"}
SINCE_31 = {Read.NEWEST: "wlso", Read.ANY: "wlso", Read.NOT_OLDER: "wlso"}
SNAPSHOTS = {
    Read.LIMITED_AT: "wl",
    Read.EXACT: "wl",
    Read.CONTINUED: "wlso",
    Read.CONTINUED_NOW: "wlso",
}


@pytest.mark.parametrize(
    ("minor", "gates", "cached"),
    [
        (26, {}, ALWAYS),
        (30, {}, ALWAYS),
        (30, {"ConsistentListFromCache": True}, ALWAYS | {Read.NEWEST: "ws"}),
        (31, {}, SINCE_31),
        (31, {"ConsistentListFromCache": False}, SINCE_31 | {Read.NEWEST: ""}),
        (32, {}, SINCE_31),
        (33, {}, SINCE_31),
        (33, {"ListFromCacheSnapshot": True}, SINCE_31 | SNAPSHOTS),
        (34, {}, SINCE_31 | SNAPSHOTS),
        (35, {"ListFromCacheSnapshot": False}, SINCE_31),
        (36, {}, SINCE_31 | SNAPSHOTS),
        (37, {}, SINCE_31 | SNAPSHOTS),
    ],
)
def test_what_the_cache_answers(minor, gates, cached):
    """Each read is answered by the cache or by the store, as release and gates say."""
    features = Features.of(FeatureGates(Version(minor), gates, {})).reads
    ways = {"w": (False, False), "l": (True, False), "s": (False, True), "o": (True, True)}
    found = {
        read: "".join(
            letter
            for letter, (limited, single) in ways.items()
            if features.source(read, limited=limited, single=single) is CACHED
        )
        for read in Read
    }
    assert found == {read: cached.get(read, "") for read in Read}


@pytest.fixture
def no_waiting(monkeypatch):
    """Whoever waits for a revision gives up at once."""
    monkeypatch.setattr(revisions, "WAIT_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("minor", "path", "waits"),
    [
        (30, f"{MAPS}?resourceVersion=999", True),
        (30, f"{MAPS}?resourceVersion=999&resourceVersionMatch={OLDER}&limit=1", False),
        (31, f"{MAPS}?resourceVersion=999&resourceVersionMatch={OLDER}&limit=1", True),
        (36, f"{MAPS}?resourceVersion=999&limit=1", True),
        (36, f"{MAPS}?resourceVersion=999&limit=1&fieldSelector=metadata.name%3Da", False),
        (36, f"{MAPS}?resourceVersion=999&fieldSelector=metadata.name%3Da", True),
        (36, "/api/v1/configmaps?resourceVersion=999&limit=1&fieldSelector=metadata.name%3Da", True),
        (36, f"{MAPS}/a?resourceVersion=999", True),
        (36, f"{MAPS.replace('configmaps', 'events')}/a?resourceVersion=999", False),
        (36, f"{MAPS.replace('configmaps', 'events')}?resourceVersion=999", False),
    ],
)
async def test_reads_of_the_future(no_waiting, minor, path, waits):
    """A cache waits for a revision and says when to come again; the store answers at once and does not."""
    async with of_version(minor) as api:
        answer = await api.get(path)
    assert (answer.status, answer.body["reason"]) == (504, "Timeout")
    assert answer.body["details"].get("retryAfterSeconds") == (1 if waits else None)
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("minor", "query", "status"),
    [
        (30, "", 500),
        (30, "&limit=1", 400),
        (32, "", 500),
        (32, f"&resourceVersionMatch={EXACT}", 400),
        (32, f"&resourceVersionMatch={OLDER}&limit=1", 500),
        (33, "", 400),
        (36, "", 400),
    ],
)
async def test_what_is_no_revision(minor, query, status):
    """Up to 1.32 a list that the cache answers does not say whose fault a bad revision is."""
    async with of_version(minor) as api:
        answer = await api.get(f"{MAPS}?resourceVersion=abc{query}")
    assert answer.status == status
    assert answer.body["message"].startswith("invalid resource version: ") == (status == 400)


async def _maps(api):
    made = [await api.post(MAPS, config_map(name)) for name in "abc"]
    return [answer.body["metadata"]["resourceVersion"] for answer in made]


def _start(answer):
    return json.loads(web_tokens.decode(answer.body["metadata"]["continue"]))["start"]


@pytest.mark.parametrize(
    ("minor", "first", "second"), [(30, "a\0", "b\0"), (31, "/a\0", "b\0"), (34, "/a\0", "/b\0")]
)
async def test_where_tokens_go_on(minor, first, second):
    """The start of a token begins with a slash where the cache gave it; both can be continued."""
    async with of_version(minor) as api:
        await _maps(api)
        page = await api.get(f"{MAPS}?limit=1")
        following = await api.get(f"{MAPS}?limit=1&continue={page.body['metadata']['continue']}")
        rest = await api.get(f"{MAPS}?continue={following.body['metadata']['continue']}")
    assert (_start(page), _start(following)) == (first, second)
    assert names(page) + names(following) + names(rest) == "abc"


async def test_a_selected_namespace_is_forgotten_where_its_list_goes_on(api):
    """A token of a namespace that a selector chose begins with the namespace called as the object, as
    upstream's do.
    """
    await _maps(api)
    selected = "/api/v1/configmaps?limit=2&fieldSelector=metadata.namespace%3Ddefault"
    page = await api.get(selected)
    assert (_start(page), names(page)) == ("/b\0", "ab")
    again = await api.get(f"{selected}&continue={page.body['metadata']['continue']}")
    assert (_start(again), names(again)) == ("/default/b\0", "ab")


@pytest.mark.parametrize(("minor", "goes_on"), [(30, True), (31, False), (36, False)])
async def test_the_end_of_what_an_index_finds(minor, goes_on):
    """Since 1.31 pods of a node are found by an index, which knows whether another one follows."""
    pods = "/api/v1/namespaces/default/pods"
    async with of_version(minor) as api:
        for name, node in zip("abcd", ("one", "one", "two", "one"), strict=True):
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            made = await api.post(pods, {"metadata": {"name": name}, "spec": spec})
            assert made.status == 201, made.raw
        found = [
            await api.get(f"{pods}?fieldSelector=spec.nodeName%3D{node}&limit={limit}")
            for node, limit in (("one", 2), ("two", 1))
        ]
    assert [names(page) for page in found] == ["ab", "c"]
    assert ["continue" in page.body["metadata"] for page in found] == [True, goes_on]


@pytest.mark.parametrize(("minor", "left"), [(27, ""), (28, "bc"), (36, "bc")])
async def test_deletions_of_a_collection_have_a_limit(minor, left):
    """Since 1.28 what is deleted at a revision is what there was, for the server sets a limit."""
    async with of_version(minor) as api:
        first, *_ = await _maps(api)
        gone = await api.delete(
            f"{MAPS}?resourceVersion={first}", {"kind": "DeleteOptions", "apiVersion": "v1"}
        )
        assert gone.status == 200, gone.raw
        assert names(await api.get(MAPS)) == left


@pytest.mark.parametrize(("minor", "marked"), [(31, False), (32, True), (33, False), (34, True), (36, True)])
@pytest.mark.parametrize("revision", ["", "0"])
async def test_where_initial_events_end(minor, marked, revision):
    """With WatchList, watches of what is there that take bookmarks learn where that ends."""
    target = f"{MAPS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={revision}"
    async with of_version(minor) as api:
        await _maps(api)
        events = await gather(api, target, 10)
    assert [kind for kind, _ in events] == ["ADDED"] * 3 + ["BOOKMARK"] * marked


@pytest.mark.parametrize(("minor", "metadata"), [(32, {"creationTimestamp": None}), (34, {})])
async def test_the_object_of_a_bookmark(minor, metadata):
    """A bookmark has what Go writes of the kind's struct: up to 1.33 a time that is none, too."""
    target = "/apis/apps/v1/deployments?watch=true&timeoutSeconds=1&allowWatchBookmarks=true"
    async with of_version(minor) as api:
        [(kind, found)] = [event async for event in api.watch(target)]
    metadata_of_end = {"resourceVersion": found["metadata"]["resourceVersion"]}
    metadata_of_end["annotations"] = {"k8s.io/initial-events-end": "true"}
    template = {"metadata": metadata, "spec": {"containers": None}}
    spec = {"replicas": 0, "selector": None, "strategy": {}, "template": template}
    head = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata_of_end | metadata}
    assert (kind, found) == ("BOOKMARK", head | {"spec": spec, "status": {}})


@pytest.mark.parametrize("kind", ["configmaps", "events"])
async def test_a_watch_of_the_future(api, no_waiting, kind):
    """A watch that wants the state of a revision to come gets an event that says so."""
    path = MAPS.replace("configmaps", kind)
    wish = f"sendInitialEvents=true&resourceVersionMatch={OLDER}"
    [(type_, error)] = [event async for event in api.watch(f"{path}?watch=true&{wish}&resourceVersion=999")]
    assert (type_, error["code"], error["reason"]) == ("ERROR", 504, "Timeout")
    assert error["details"]["retryAfterSeconds"] in (range(1, 4) if kind == "events" else (1,))


async def test_a_bad_byte_in_a_token(api):
    """A character that does not print is reported by its number, as Go does."""
    answer = await api.get(f"{MAPS}?continue=jg")
    why = r"invalid character '\u008e' looking for beginning of value"
    assert answer.body["message"].endswith(why)
