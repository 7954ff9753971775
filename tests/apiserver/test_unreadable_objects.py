"""One stored object that cannot be read fails what reads it, in upstream's words; everything else goes on."""

import asyncio

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server

from kubeskew.apiserver.storage.records import DAMAGED, Author, Change, Key, Verb

INITIALIZING = "storage is (re)initializing: failed to list *core.ConfigMap: "
GATE = "AllowUnsafeMalformedObjectDeletion"
UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
CUT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"na'
DECODER = "couldn't get version/kind; json parse error: unexpected end of JSON input"
AUTHOR = Author("somebody", "accident", "", "", "")
EVENTS = "/api/v1/namespaces/default/events"
PATH = "/registry/configmaps/default/bad"
RBAC = "rbac.authorization.k8s.io"
FLOWS = "flowcontrol.apiserver.k8s.io"
RULES = "admissionregistration.k8s.io"
# What every request, or the start, looks at.
LOOKED_AT = {
    f"flowschemas.{FLOWS}": "probes",
    f"prioritylevelconfigurations.{FLOWS}": "workload-low",
    f"clusterroles.{RBAC}": "system:basic-user",
    f"clusterrolebindings.{RBAC}": "system:basic-user",
    f"roles.{RBAC}": "kube-system/extension-apiserver-authentication-reader",
    f"rolebindings.{RBAC}": "kube-system/system::leader-locking-kube-scheduler",
    "apiservices.apiregistration.k8s.io": "v1.apps",
    "customresourcedefinitions.apiextensions.k8s.io": "widgets.example.com",
    f"validatingwebhookconfigurations.{RULES}": "made",
    f"validatingadmissionpolicies.{RULES}": "made",
    "priorityclasses.scheduling.k8s.io": "system-node-critical",
    "namespaces": "kube-public",
    "services": "default/kubernetes",
    "endpoints": "default/kubernetes",
    "pods": "default/made",
    "persistentvolumes": "made",
    "limitranges": "kube-public/made",
    "resourcequotas": "kube-public/made",
    "secrets": "default/made",
    "configmaps": "kube-system/extension-apiserver-authentication",
}


async def put(server, key, value):
    """Store `value` at `key`, regardless of what it is, as damage before the last repair has left it."""
    store = server.services.store
    entry = store.get(key)
    verb, expected = (Verb.UPDATE, entry.revision) if entry else (Verb.CREATE, 0)
    uid, now = entry.uid if entry else "u", server.services.environment.clock.now()
    return await store.write(Change(verb, key, uid, value, expected, AUTHOR, now))


async def damaged_event(server, value):
    """The revision at which an event that was made in namespace default got `value`."""
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    made = {"metadata": {"name": "bad"}, "involvedObject": involved, "reason": "r", "message": "m"}
    assert (await Caller(server).post(EVENTS, made)).status == 201
    return (await put(server, Key("events", "default", "bad"), value)).revision


async def damaged_server(value, minor=36, **gates):
    """A server with the config maps `good` and `bad`, of which one is `value`; its API and the revision."""
    server = await open_server(minor, gates=gates)
    api = Caller(server)
    for name in ("bad", "good"):
        assert (await api.post(MAPS, config_map(name))).status == 201
    event = await put(server, Key("configmaps", "default", "bad"), value)
    return server, api, event.revision


@pytest.mark.parametrize(
    ("value", "one", "listed"),
    [
        (CUT, ("", DECODER), DECODER),
        (b"[]", ("", "couldn't get version/kind; json parse error: json: cannot unmarshal array"), "array"),
        (
            b'{"apiVersion":"v1","metadata":{"name":"bad"}}',
            ("", "Object 'Kind' is missing in '{\"apiVersion\""),
            "Object 'Kind' is missing",
        ),
        (
            b'{"kind":"ConfigMap","apiVersion":"v9","metadata":{"name":"bad"}}',
            ("", 'no kind "ConfigMap" is registered for version "v9"'),
            'no kind "ConfigMap" is registered',
        ),
        (
            DAMAGED,
            ("InternalError", "Internal error occurred: the stored data is not what was written"),
            f'Internal error occurred: unable to transform key "{PATH}": the stored data is not what',
        ),
    ],
)
async def test_reading_shows_why(value, one, listed):
    """Every read and write of it is 500 with the decoder's words, and so is a list; other objects go on."""
    server, api, _ = await damaged_server(value)
    changed = config_map("bad", data={"a": "b"})
    answers = [
        await api.get(f"{MAPS}/bad"),
        await api.put(f"{MAPS}/bad", changed),
        await api.patch(f"{MAPS}/bad", changed),
        await api.delete(f"{MAPS}/bad"),
        await api.delete(f"{MAPS}/bad?{UNSAFE}=true"),
    ]
    for answer in answers:
        assert (answer.status, answer.body.get("reason", "")) == (500, one[0])
        assert answer.body["message"].startswith(one[1])
    for query in ("?limit=500", "?limit=500&resourceVersion=0"):
        answer = await api.get(MAPS + query)
        assert answer.status == 500
        assert listed in answer.body["message"]
    assert (
        await api.get(f"{MAPS}?limit=1", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    ).status == 500
    assert (await api.delete(f"{MAPS}?limit=9")).status == 500
    refused = await api.get(MAPS)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    text = refused.body["message"].removeprefix(
        "storage is (re)initializing: failed to list *core.ConfigMap: "
    )
    assert listed in text
    assert (await api.post(MAPS, config_map("bad"))).body["reason"] == "AlreadyExists"
    assert (await api.get(f"{MAPS}/good")).status == 200
    assert (await api.post(MAPS, config_map("next"))).status == 201
    assert (await api.get("/readyz")).raw == b"ok"
    await close_server(server)


KUBE_SYSTEM = "/api/v1/namespaces/kube-system/configmaps"
GO_ON = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZ28ifQ"  # behind all, with what is there now


@pytest.mark.parametrize(
    ("minor", "target", "status"),
    [
        (30, MAPS, 500),
        (30, f"{MAPS}?resourceVersion=0", 500),
        (30, f"{MAPS}?resourceVersion={{now}}&limit=5", 500),
        (30, KUBE_SYSTEM, 200),
        (31, MAPS, 429),
        (31, f"{MAPS}?limit=5", 500),
        (31, f"{MAPS}?limit=5&labelSelector=a", 429),
        (31, f"{MAPS}?resourceVersion=0", 429),
        (31, f"{MAPS}?resourceVersion=0&limit=5", 500),
        (31, f"{MAPS}?resourceVersion={{now}}&resourceVersionMatch=Exact", 500),
        (31, f"{MAPS}?resourceVersion={{now}}&limit=5", 500),
        (31, f"{MAPS}?fieldSelector=metadata.name%3Dgood", 429),
        (31, KUBE_SYSTEM, 429),
        (31, f"{KUBE_SYSTEM}?limit=5", 200),
        (31, f"{MAPS}?watch=true", 429),
        (31, f"{KUBE_SYSTEM}?watch=true&resourceVersion={{now}}", 429),
        (31, f"{MAPS}/good", 200),
        (31, f"{MAPS}/good?resourceVersion=0", 200),
        (31, "/api/v1/secrets", 200),
        (34, f"{MAPS}?resourceVersion={{now}}&resourceVersionMatch=Exact", 429),
        (34, f"{MAPS}?resourceVersion={{now}}&resourceVersionMatch=Exact&limit=5", 500),
        (34, f"{MAPS}?resourceVersion={{now}}&limit=5&labelSelector=a", 429),
        (
            34,
            f"{MAPS}?fieldSelector=metadata.name%3Dgood&resourceVersion={{now}}&resourceVersionMatch=Exact",
            200,
        ),
        (34, f"{MAPS}?continue={GO_ON}", 429),
        (34, f"{MAPS}?continue={GO_ON}&limit=5", 200),
    ],
)
async def test_one_object_keeps_the_cache_of_its_resource_empty(minor, target, status):
    """Since 1.31 what a cache answers fails for the whole resource; the rest is read from the store."""
    server, api, revision = await damaged_server(CUT, minor)

    assert (await api.get(target.format(now=revision))).status == status
    await close_server(server)


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (31, "storage is (re)initializing"),
        (32, "storage is (re)initializing"),
        (33, INITIALIZING + DECODER),
        (
            37,
            f"{INITIALIZING}failed to read one or more configmaps from the storage: StorageError: corrupt",
        ),
    ],
)
async def test_the_refusal_asks_for_patience(minor, text):
    """The answer is upstream's 429; since 1.33 it says why."""
    server, api, _ = await damaged_server(CUT, minor)

    refused = await api.get(MAPS)

    assert refused.body["message"].startswith(text) if minor == 37 else refused.body["message"] == text
    assert (refused.body["reason"], refused.body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
    await close_server(server)


async def test_the_cache_fills_once_all_can_be_read():
    """A repaired object lets lists and watches be answered again, also those of other namespaces."""
    server, api, revision = await damaged_server(CUT, 31)
    assert (await api.get(KUBE_SYSTEM)).status == 429
    good = server.services.store.get(Key("configmaps", "default", "good")).value
    await put(server, Key("configmaps", "default", "bad"), good.replace(b'"good"', b'"bad"'))

    listed = await api.get(MAPS)
    kind, _ = await anext(api.watch(f"{MAPS}?watch=true&resourceVersion={revision}"))

    assert [item["metadata"]["name"] for item in listed.body["items"]] == ["bad", "good"]
    assert kind == "MODIFIED"
    await close_server(server)


async def test_watches_waited_for_the_cache():
    """Until 1.30 a watch, or a list at a revision, is answered once all can be read, or its time is over."""
    server, api, revision = await damaged_server(CUT, 30)
    watching = asyncio.create_task(anext(api.watch(f"{MAPS}?watch=true&resourceVersion={revision}")))
    listing = asyncio.create_task(api.get(f"{MAPS}?resourceVersion={revision}"))
    late = await api.get(f"{MAPS}?watch=true&timeoutSeconds=1")
    assert not watching.done()
    assert not listing.done()
    good = server.services.store.get(Key("configmaps", "default", "good")).value
    await put(server, Key("configmaps", "default", "bad"), good.replace(b'"good"', b'"bad"'))

    assert (late.status, late.body["message"]) == (503, "context deadline exceeded")
    assert (await watching)[0] == "MODIFIED"
    assert (await listing).status == 200
    await close_server(server)


@pytest.mark.parametrize("value", [CUT, DAMAGED])
async def test_a_watch_of_a_cache_just_ends(value):
    """A watch ends without an error event at an object that cannot be read, after the events before it."""
    server = await open_server()
    api = Caller(server)
    await api.post(MAPS, config_map("bad"))
    watch = api.watch(f"{MAPS}?watch=true")
    assert (await anext(watch))[0] == "ADDED"
    await api.post(MAPS, config_map("good"))
    await put(server, Key("configmaps", "default", "bad"), value)

    events = [(kind, obj["metadata"]["name"]) async for kind, obj in watch]

    assert events == [("ADDED", "good")]
    await close_server(server)


@pytest.mark.parametrize("value", [CUT, DAMAGED])
@pytest.mark.parametrize("query", ["", "&resourceVersion={before}", "&labelSelector=a%3Db"])
async def test_a_watch_of_the_store_ends_with_an_error_event(value, query):
    """Events have no cache: a watch shows what comes before, then the error as an event, and ends."""
    server = await open_server()
    api = Caller(server)
    revision = await damaged_event(server, value)
    target = f"{EVENTS}?watch=true{query.format(before=revision - 1)}"

    events = [event async for event in api.watch(target)]

    kind, status = events[-1]
    assert (kind, status["code"], status["reason"]) == ("ERROR", 500, "InternalError")
    assert status["message"].startswith("Internal error occurred: ")
    assert [kind for kind, _ in events[:-1] if kind == "ERROR"] == []
    await close_server(server)


@pytest.mark.parametrize("minor", [36, 37])
async def test_with_the_gate_the_key_is_reported(minor):
    """Objects are named, and a list says of each what is wrong with it."""
    server, api, revision = await damaged_server(CUT, minor, **{GATE: True})
    corrupt = (
        f"StorageError: corrupt object, Code: 7, Key: {PATH}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: object not decodable revision={revision}: {DECODER}"
    )

    one, listed = await api.get(f"{MAPS}/bad"), await api.get(f"{MAPS}?limit=9")

    assert (one.status, one.body["reason"]) == (500, "InternalError")
    assert one.body["message"] == f"Internal error occurred: {corrupt}"
    assert (listed.status, listed.body["reason"]) == (500, "StorageReadError")
    causes = [{"reason": "UnexpectedServerResponse", "message": corrupt, "field": PATH}]
    assert listed.body["details"] == {"name": "list", "kind": "configmaps", "causes": causes}
    first = f": {corrupt}" if minor == 37 else ""
    assert listed.body["message"] == f"failed to read one or more configmaps from the storage{first}"
    await close_server(server)


async def test_a_list_reports_a_hundred_objects():
    """Of more than a hundred the first are reported, and that there are more."""
    server, api, _ = await damaged_server(CUT, **{GATE: True})
    for number in range(100):
        await put(server, Key("configmaps", "default", f"worse-{number:03}"), CUT)
    causes = (await api.get(f"{MAPS}?limit=500")).body["details"]["causes"]
    assert len(causes) == 101
    assert causes[-1] == {
        "reason": "FieldValueTooMany",
        "message": "too many errors, the list is truncated",
    }
    await close_server(server)


@pytest.mark.parametrize("value", [CUT, DAMAGED])
async def test_an_unsafe_deletion_removes_what_cannot_be_read(value):
    """With the gate, the option and the verb the object goes, and lists are answered again."""
    server, api, _ = await damaged_server(value, **{GATE: True})
    assert (await api.get(MAPS)).status == 429

    gone = await api.delete(f"{MAPS}/bad?{UNSAFE}=true")

    assert gone.body["status"] == "Success"
    assert gone.body["details"] == {"name": "bad", "kind": "ConfigMap"}
    assert (await api.get(f"{MAPS}/bad")).status == 404
    assert (await api.get(MAPS)).status == 200
    assert (await api.delete(f"{MAPS}/bad?{UNSAFE}=true")).status == 404
    await close_server(server)


async def test_a_watch_of_the_store_reports_an_unsafe_deletion():
    """With the gate, who watches what has no cache is informed that an object went that could not be read."""
    server = await open_server(gates={GATE: True})
    api = Caller(server)
    revision = await damaged_event(server, CUT)
    watch = api.watch(f"{EVENTS}?watch=true&resourceVersion={revision}")

    assert (await api.delete(f"{EVENTS}/bad?{UNSAFE}=true")).body["status"] == "Success"

    (kind, status) = [event async for event in watch][-1]
    assert (kind, status["reason"]) == ("ERROR", "StorageReadError")
    assert status["message"].startswith("saw a DELETED event, but object data is corrupt - ")
    await close_server(server)


@pytest.mark.parametrize(
    ("minor", "code", "said"),
    [
        (36, 422, f"{UNSAFE}: Invalid value: true: is exclusively used to delete corrupt object(s), try"),
        (37, 409, "unsafe deletion is not allowed because the object is decodable from storage"),
    ],
)
async def test_an_unsafe_deletion_spares_what_can_be_read(minor, code, said):
    """The option is refused where there is no need of it."""
    server, api, _ = await damaged_server(CUT, minor, **{GATE: True})
    refused = await api.delete(f"{MAPS}/good", {UNSAFE: True})
    assert refused.status == code
    assert said in refused.body["message"]
    await close_server(server)


async def test_a_dry_run_of_an_unsafe_deletion():
    """Since 1.37 there are dry runs, which leave the object."""
    server, api, _ = await damaged_server(CUT, 37)

    assert (await api.delete(f"{MAPS}/bad", {UNSAFE: True, "dryRun": ["All"]})).body["status"] == "Success"

    assert (await api.get(f"{MAPS}/bad")).status == 500
    await close_server(server)


async def test_an_unsafe_deletion_is_refused():
    """An unsafe deletion needs a verb of its own, goes with no other option, and is of one object."""
    server, api, _ = await damaged_server(CUT, **{GATE: True})
    some = await api.delete(f"{MAPS}?{UNSAFE}=true")
    assert some.status == 422
    assert f"{UNSAFE}: Invalid value: true: is not allowed with DELETECOLLECTION" in some.body["message"]
    for option in ({"gracePeriodSeconds": 0}, {"propagationPolicy": "Orphan"}, {"dryRun": ["All"]}):
        mixed = await api.delete(f"{MAPS}/bad", {UNSAFE: True, **option})
        assert mixed.status == 422
        assert f"cannot be set together with .{next(iter(option))}" in mixed.body["message"]
    role = {
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["delete"]}],
    }
    await api.post(f"/apis/{RBAC}/v1/clusterroles", role)
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": "u"}
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    await api.post(f"/apis/{RBAC}/v1/clusterrolebindings", binding)
    refused = await api.delete(f"{MAPS}/bad?{UNSAFE}=true", impersonate_user="u")
    assert refused.status == 403
    assert 'not permitted to do "unsafe-delete-ignore-read-errors", reason: ' in refused.body["message"]
    await close_server(server)


@pytest.mark.parametrize("resource", LOOKED_AT)
@pytest.mark.parametrize("value", [CUT, DAMAGED], ids=["cut", "altered"])
async def test_the_server_goes_on(tmp_path, resource, value):
    """With one unreadable object of a kind that it looks at, a server starts, is ready, reads, writes."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'events.db'}"
    namespace, _, name = LOOKED_AT[resource].rpartition("/")
    key = Key(resource, namespace, name)
    server = await open_server(url=url)
    await put(server, key, value)
    await check_serving(Caller(server), "running")
    await close_server(server)

    again = await open_server(url=url)
    assert again.services.store.get(key).value == value
    await check_serving(Caller(again), "restarted")
    await close_server(again)


async def check_serving(api, name):
    assert (await api.get("/readyz")).raw == b"ok"
    assert (await api.post(MAPS, config_map(name))).status == 201
    user = Caller(api.server, None)
    assert (await user.get("/version")).status == 200
    assert (await user.get(MAPS)).status == 403
    assert (await api.get("/apis/apps/v1/namespaces/default/deployments")).status == 200


async def test_a_damaged_namespace_is_named():
    """Writes into it are refused, naming what cannot be read; other namespaces go on."""
    server = await open_server()
    api = Caller(server)
    event = await put(server, Key("namespaces", "", "kube-public"), CUT)
    refused = await api.post("/api/v1/namespaces/kube-public/configmaps", config_map("a"))
    assert refused.status == 500
    why = f"namespaces kube-public cannot be read: object not decodable revision={event.revision}: {DECODER}"
    assert refused.body["message"] == f"Internal error occurred: {why}"
    assert (await api.post(MAPS, config_map("a"))).status == 201
    await close_server(server)


@pytest.mark.parametrize("value", [CUT, DAMAGED], ids=["cut", "altered"])
async def test_services_are_made_next_to_one_that_cannot_be_read(value):
    """New services get addresses and node ports; those of services that can be read stay taken."""
    server = await open_server()
    api = Caller(server)
    services = "/api/v1/namespaces/default/services"
    wanted = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}
    first = await api.post(services, {"metadata": {"name": "first"}, "spec": wanted})
    await put(server, Key("services", "default", "bad"), value)
    second = await api.post(
        services, {"metadata": {"name": "second"}, "spec": {**wanted, "ports": [{"port": 80}]}}
    )
    assert second.status == 201
    assert second.body["spec"]["clusterIP"] != first.body["spec"]["clusterIP"]
    assert second.body["spec"]["ports"][0]["nodePort"]
    third = await api.post(services, {"metadata": {"name": "third"}, "spec": wanted})
    assert third.status == 422
    assert "provided port is already allocated" in third.body["message"]
    await close_server(server)
