"""Objects that have one revision together, by a transaction of etcd's API: each is served as itself."""

import json

from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.storage.records import Author, Change, Event, Key, Transaction, Verb

AUTHOR = Author("", "kube-apiserver", "", "", "")
RESOURCES = ("configmaps", "secrets")


def creation(server, resource: str, name: str) -> Change:
    kind = {"configmaps": "ConfigMap", "secrets": "Secret"}[resource]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"is": name}}
    value = json.dumps({"kind": kind, "apiVersion": "v1", "metadata": metadata}).encode()
    now = server.services.environment.clock.now()
    return Change(Verb.CREATE, Key(resource, "default", name), f"uid-{name}", value, 0, AUTHOR, now)


async def transact(server, changes: list[Change]) -> list[Event]:
    _, events = await server.services.log.transact(Transaction(changes))
    return [*events]


async def test_objects_in_any_form_are_served():
    """White space, other orders of fields or a resourceVersion of its own do not matter."""
    server = await open_server()
    api = Caller(server)
    change = creation(server, "configmaps", "a")
    obj = json.loads(change.value)
    obj["metadata"]["resourceVersion"] = "5"
    value = json.dumps({"data": {"a": "1"}, **obj}, indent=1, sort_keys=True).encode() + b" "
    (event,) = await transact(server, [change._replace(value=value)])
    path = "/api/v1/namespaces/default/configmaps"
    one = (await api.get(f"{path}/a")).body
    listed = [item for item in (await api.get(path)).body["items"] if item["metadata"]["name"] == "a"]
    for found in (one, *listed):
        assert found["data"] == {"a": "1"}
        assert found["metadata"]["resourceVersion"] == str(event.revision)
    assert len(listed) == 1
    answer = await api("PUT", f"{path}/a", {**one, "data": {"a": "2"}})
    assert answer.status == 200
    await close_server(server)


async def test_objects_of_a_revision_are_told_apart():
    """Get, lists, selectors and watches give each its own content, those of deletions as well."""
    server = await open_server()
    api = Caller(server)
    since = server.services.store.revision
    made = await transact(
        server, [creation(server, resource, name) for resource in RESOURCES for name in ("a", "b")]
    )
    revision = str(made[0].revision)
    for resource in RESOURCES:
        path = f"/api/v1/namespaces/default/{resource}"
        for name in ("a", "b"):
            body = (await api.get(f"{path}/{name}")).body
            assert (body["metadata"]["name"], body["metadata"]["resourceVersion"]) == (name, revision)
            selected = (await api.get(f"{path}?labelSelector=is={name}")).body["items"]
            assert [item["metadata"]["uid"] for item in selected] == [f"uid-{name}"]
        listed = (await api.get(path)).body["items"]
        assert {"a", "b"} <= {item["metadata"]["name"] for item in listed}
    await transact(
        server,
        [
            Change(Verb.DELETE, event.key, event.uid, b"", event.revision, AUTHOR, event.time)
            for event in made
        ],
    )
    for resource in RESOURCES:
        path = f"/api/v1/namespaces/default/{resource}?watch=true&resourceVersion={since}&timeoutSeconds=1"
        events = [json.loads(line) for line in (await api.get(path)).raw.splitlines()]
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
        assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]
        assert {event["object"]["kind"] for event in events} == {
            {"configmaps": "ConfigMap", "secrets": "Secret"}[resource]
        }
    await close_server(server)
