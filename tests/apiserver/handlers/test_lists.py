"""LIST: selectors, chunks, revisions."""

import pytest
from listing import names, of_version, watched
from server_in_process import MAPS, config_map


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
        ("continue={token}", ""),
    ],
)  # fmt: skip
async def test_lists_of_one_name(api, five, query, found):
    """A list that can hold only one object, by its name, is answered without a limit; where a list goes
    on, its name is a selector as others are."""
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
