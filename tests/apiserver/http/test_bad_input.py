"""Bad input gets an answer of upstream's kind: never a 500 of ours, a trace or a hang."""

import json
from typing import Any

import pytest
from server_in_process import MAPS, config_map

from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http.request import Request

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
YAML = "application/yaml"


def nested(levels: int) -> bytes:
    """A ControllerRevision whose data is that many objects inside each other."""
    data = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"metadata":{"name":"deep"},"revision":1,"data":%b}' % data


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"[" * 100_000, "application/json", "exceeded max depth"),
        (b"[" * 100_000 + b"]" * 100_000, "application/json", "exceeded max depth"),
        (b"[" * 280 + b"]" * 280, "application/json", "exceeded max depth"),
        (b"[" * 100_000, YAML, "yaml: exceeded max depth"),
        (b'{"a":' * 100_000, YAML, "yaml: exceeded max depth"),
        (b"- " * 100_000, YAML, "yaml: exceeded max depth"),
        (b"".join(b" " * i + b"a:\n" for i in range(1000)), YAML, "yaml: exceeded max depth"),
        (b"a: &a\n  b: *a\n", YAML, "yaml: anchor 'a' value contains itself"),
        (b"a: *b", YAML, "yaml: unknown anchor 'b' referenced"),
        (b"<<: 5", YAML, "yaml: map merge requires map or sequence of maps as the value"),
        (b"? [a]\n: b", YAML, "yaml: invalid map key"),
        (b"~: a", YAML, 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
        (b"a: \x00", YAML, "yaml: control characters are not allowed"),
        (b"a: 1e999", YAML, "json: unsupported value: +Inf"),
        (b"a: " + b"9" * 5000, YAML, "json: unsupported value: +Inf"),
        (b"9" * 5000, "application/json", "json: cannot unmarshal number into Go value of type float64"),
    ],
)
async def test_hostile_documents(api, body, content_type, text):
    """Depth, size and loops in a body are refused with 400, without harm to the server."""
    answer = await api("POST", MAPS, body, content_type=content_type)

    assert answer.status == 400
    assert text in answer.body["message"]


async def test_documents_that_grow(api):
    """Aliases and merges in YAML may not make gigabytes out of a small body."""
    laughs = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"a%d: &a%d [%b]\n" % (i + 1, i + 1, b",".join([b"*a%d" % i] * 9)) for i in range(12)
    )
    merges = b"a: &a {" + b",".join(b"k%d: 1" % i for i in range(5000)) + b"}\nb:\n" + b"- {<<: *a}\n" * 1000
    for body in (laughs, merges):
        answer = await api("POST", MAPS, body, content_type=YAML)
        assert "yaml: document contains excessive aliasing" in answer.body["message"]


async def test_merges_and_tags(api):
    """Merge keys yield to the map's own keys; tags that are not YAML's own mean nothing."""
    body = b"metadata: {name: a}\nx-: &b {a: '1', b: '2'}\ndata: {<<: *b, b: !mine '3', c: !!binary WA==}\n"
    answer = await api("POST", MAPS, body, content_type=YAML)

    assert answer.body["data"] == {"a": "1", "b": "3", "c": "X"}


async def test_deep_objects(api):
    """An object at the limit of depth can be created, read in all forms and patched; no patch is deeper."""
    assert (await api("POST", REVISIONS, nested(228))).status == 201
    for accept in ("application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        shown = await api.get(f"{REVISIONS}?includeObject=Object", accept=accept)
        assert shown.status == 200
    assert (await api.patch(f"{REVISIONS}/deep", {"metadata": {"labels": {"a": "b"}}})).status == 200

    operation = {"op": "add", "path": "/data" + "/a" * 227, "value": json.loads("[" * 60 + "]" * 60)}
    refused = await api.patch(f"{REVISIONS}/deep", [operation], "json")

    assert (refused.status, refused.body["message"]) == (400, "exceeded max depth")
    assert (await api("POST", REVISIONS, nested(231))).status == 400


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [("/api/v1/namespaces", "Namespace", 422), (JOBS, "Job", 422), (MAPS, "ConfigMap", 422)],
)
async def test_no_name(api, path, kind, code):
    """An object without a name is refused for that, regardless of what its strategy does with names."""
    answer = await api.post(path, {})

    assert answer.status == code
    assert "name or generateName is required" in answer.body["message"]
    assert answer.body["details"]["kind"] == kind


async def test_null_bytes_field(api):
    """A null in a map of bytes is an empty value."""
    answer = await api.post(MAPS, config_map("a", binaryData={"k": None}))

    assert answer.status == 201


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dryRun": 5}, "unmarshal number into Go struct field DeleteOptions.dryRun of type []string"),
        ({"preconditions": 5}, "unmarshal number into Go struct field DeleteOptions.preconditions"),
        ({"preconditions": {"uid": 5}}, "unmarshal number into Go struct field Preconditions"),
        ({"gracePeriodSeconds": "1"}, "unmarshal string into Go struct field DeleteOptions.grace"),
        ({"orphanDependents": "x"}, "unmarshal string into Go struct field DeleteOptions.orphan"),
    ],
)  # fmt: skip
async def test_delete_options(api, options, text):
    """DeleteOptions are typed as any other body, in an eviction too."""
    await api.post(MAPS, config_map("a"))

    for answer in (
        await api.delete(f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", **options}),
        await api.delete(MAPS, {"kind": "DeleteOptions", "apiVersion": "v1", **options}),
        await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": options}),
    ):
        assert answer.status == 400
        if answer is not None and "Eviction" not in answer.body["message"]:
            assert text in answer.body["message"]


async def test_grace_beyond_the_calendar(api):
    """A pod whose grace ends after year 9999 gets the last moment there is."""
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await api.post(PODS, {"metadata": {"name": "a"}, "spec": spec})

    answer = await api.delete(f"{PODS}/a?gracePeriodSeconds=9223372036854775807")

    assert answer.status == 200
    assert answer.body["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("kind", "patch"), [("merge", []), ("merge", None), ("json", [{"op": "replace", "path": "", "value": 0}])]
)
async def test_patch_to_something_else(api, kind, patch):
    """A patch that makes no object of the object is 4xx with the reason."""
    await api.post(MAPS, config_map("a"))
    body = b"null" if patch is None else patch

    answer = await api.patch(f"{MAPS}/a", body, kind)

    assert answer.status in {400, 422}
    assert "panic" not in answer.body["message"]


async def test_numbers_out_of_range_in_apply(api):
    """An applied number that the field does not hold wraps."""
    for replicas, said in ((b"2147483648", "Invalid value: -2147483648"), (b"1" * 40, "spec.selector")):
        path = "/apis/apps/v1/namespaces/default/deployments/a?fieldManager=m"
        body = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":%b}}'
        answer = await api("PATCH", path, body % replicas, content_type="application/apply-patch+yaml")
        assert answer.status == 422
        assert said in answer.body["message"]


async def test_apply_next_to_another_version(api):
    """A number that does not fit wraps when the result is converted for another version's manager."""
    event = {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}}
    assert (await api.post("/api/v1/namespaces/default/events", event)).status == 201
    config = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}}

    answer = await api.patch(f"{EVENTS}/a?fieldManager=m", {**config, "deprecatedCount": 2**31}, "apply")

    assert answer.status == 422
    assert answer.body["message"] == (
        'Event "a" is invalid: count: Invalid value: -2147483648: field is immutable'
    )


async def test_apply_to_untyped_live_object(api):
    """A live object that does not fit the schema of lists is reported as upstream does: 500 with why."""
    await api.post(ACCOUNTS, {"metadata": {"name": "a"}, "secrets": [{"uid": "x"}]}, user_agent="")
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}

    answer = await api.patch(f"{ACCOUNTS}/a?fieldManager=m", config, "apply")

    assert answer.status == 500
    assert "omits all key fields" in answer.body["message"]


async def test_zero_time(api):
    """Go's zero time is no time, and year one stays readable everywhere."""
    event = {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}}
    times = {"firstTimestamp": "0001-01-01T00:00:00Z", "lastTimestamp": "0001-01-01T00:00:01Z"}
    made = await api.post("/api/v1/namespaces/default/events", {**event, **times})

    assert made.body.get("firstTimestamp") is None
    assert made.body["lastTimestamp"] == times["lastTimestamp"]
    for path in (EVENTS, f"{EVENTS}/a", "/api/v1/namespaces/default/events"):
        table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        assert (await api.get(path)).status == 200
        assert (await api.get(path, accept=table)).status == 200


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        (f"{MAPS}?limit=-1", 200, ""),
        (f"{MAPS}?limit=1_000", 400, 'strconv.ParseInt: parsing "1_000": invalid syntax'),
        (f"{MAPS}?limit=%205", 400, 'strconv.ParseInt: parsing " 5": invalid syntax'),
        (f"{MAPS}?limit=%D9%A3", 400, "invalid syntax"),
        (f"{MAPS}?limit=9223372036854775808", 400, "value out of range"),
        (f"{MAPS}?limit={'9' * 5000}", 400, "value out of range"),
        (f"{MAPS}?resourceVersion={'9' * 5000}", 400, "value out of range"),
        (f"{MAPS}?resourceVersion=%D9%A3", 400, "invalid syntax"),
        (f"{MAPS}?timeout=0", 200, ""),
        (f"{MAPS}?timeout=soon", 400, "invalid timeout specified in the request URL"),
        ("/kubeskew/v1/components?since=%C2%B2", 400, "invalid syntax"),
        ("/kubeskew/v1/components?since=99999999999999999999999", 400, "value out of range"),
        (f"{MAPS}?watch=1&resourceVersion={'9' * 5000}", 500, "value out of range"),
    ],
)
async def test_numbers_in_queries(api, target, status, text):
    """Numbers are read as Go reads them: ASCII digits, no spaces or underscores, 64 bits."""
    answer = await api.get(target)

    assert answer.status == status
    assert text in (answer.body.get("message") or "")


async def test_watch_for_ages(api):
    """A watch may ask for more seconds than a timer has."""
    await api.post(MAPS, config_map("a"))
    response = await api.raw("GET", f"{MAPS}?watch=1&timeoutSeconds=9223372036854775807")

    assert response.status == 200
    assert b"ADDED" in await anext(response.body)
    await response.body.aclose()


async def test_revisions_in_writes(api):
    """A new object names no revision; one that is no number is 500 with Go's words, as upstream."""
    assert (await api.post(MAPS, config_map("a", resourceVersion="0"))).status == 201
    assert (await api.post(MAPS, config_map("b", resourceVersion="x"))).status == 201
    refused = await api.post(MAPS, config_map("c", resourceVersion="5"))
    text = "resourceVersion should not be set on objects to be created"
    assert (refused.status, refused.body["message"]) == (500, text)
    invalid = await api.post(MAPS, config_map("C_", resourceVersion="5"))
    assert invalid.status == 422

    for revision, why in (
        ("x", "invalid syntax"),
        ("\u0663", "invalid syntax"),
        ("9" * 30, "value out of range"),
    ):
        answer = await api.put(f"{MAPS}/a", config_map("a", resourceVersion=revision))
        message = f'strconv.ParseUint: parsing "{revision}": {why}'
        assert (answer.status, answer.body["message"]) == (500, message)


async def test_methods_below_watch(api):
    """Only GET watches."""
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await api(method, "/api/v1/watch/pods", {})
        assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed")


async def test_metrics_of_what_is_not_there(api):
    """Paths and methods that clients make up do not become label sets."""
    for i in range(20):
        await api.get(f"/apis/made-up-{i}/v1/things")
        await api.get(f"{PODS}/a/made-up-{i}")
        await api(f"MADEUP{i}", "/version")
    text = (await api.get("/metrics")).raw

    assert b"made-up" not in text
    assert b"MADEUP" not in text
    assert b'verb="OTHER"' in text


async def test_large_bodies_leave_room(api, monkeypatch):
    """A large body is read in a thread, so that other requests go on."""
    import asyncio

    from kubeskew.apiserver.registry.requests.scope import MAX_BODY_BYTES

    used: list[Any] = []

    async def to_thread(work):
        used.append(work)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    assert (await api.post(MAPS, config_map("a"))).status == 201
    assert not used
    answer = await api.post(MAPS, config_map("b", data={"k": "x" * 2 * 2**18}))

    assert answer.status == 201
    assert used
    assert MAX_BODY_BYTES == 3 * 2**20


async def test_broken_body(server):
    """A body that breaks off is 400 (nobody may be there to read that), and no trace."""
    from server_in_process import ADMIN

    from kubeskew.apiserver.http.request import BodyBrokenError

    async def broken(limit: int) -> bytes:
        raise BodyBrokenError("Connection lost")

    request = Request.of("POST", MAPS, {"content-type": "application/json"}, b"", ADMIN)
    request.read_body = broken
    response = await server.handle(request)

    assert response.status == 400


def test_generations_are_bounded_by_bytes():
    """Large entries end a generation before many are there."""
    kept: TwoGenerationCache[int, bytes] = TwoGenerationCache(100, lambda _, value: len(value), 10)
    for i in range(50):
        kept.put(i, b"123456")

    assert len(kept) <= 4
    assert kept.get(49) == b"123456"
