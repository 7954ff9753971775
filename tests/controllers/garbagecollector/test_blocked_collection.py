"""The garbage collector next to a resource that the server cannot list, on an API server of this process."""

from dataclasses import replace

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import CONFIG_MAPS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.controllers.garbagecollector import controller as garbage_collector
from kubeskew.controllers.garbagecollector.controller import GarbageCollector

AUTHOR = Author("test", "test", "", "", "")
TEMPLATE = Key("podtemplates", "default", "t")
GOOD = b'{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"t","namespace":"default","uid":"u"}}'


async def write(server, value):
    """Store a pod template, regardless of the value."""
    store = server.services.store
    entry = store.get(TEMPLATE)
    verb, revision, uid = (Verb.UPDATE, entry.revision, entry.uid) if entry else (Verb.CREATE, 0, "u")
    now = server.services.environment.clock.now()
    await store.write(Change(verb, TEMPLATE, uid, value, revision, AUTHOR, now))


async def delete_an_owner(client):
    """Delete the owner of a config map, in the background."""
    body = {"metadata": {"name": "owner", "namespace": "default"}}
    owner = await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **body})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "dependent", "namespace": "default", "ownerReferences": [reference]}
    await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await client.delete(CONFIG_MAPS, "owner", "default")


async def is_gone(client):
    try:
        await client.get(CONFIG_MAPS, "dependent", "default")
    except StatusError as error:
        return error.code == 404
    return False


@pytest.mark.parametrize(("minor", "waits"), [(31, True), (32, False)])
async def test_whether_one_bad_object_stops_all_collection(minor, waits, monkeypatch, caplog):
    """Up to 1.31 nothing is collected while a resource cannot be listed; since then only what is of that
    resource. The controller manager is ready all the same.
    """
    monkeypatch.setattr(garbage_collector, "_INITIAL_SYNC_SECONDS", 0.3)
    caplog.set_level("INFO")
    async with real_cluster(Version(minor), started=False) as cluster:
        await write(cluster.server, b'{"apiVersion": "v9", "kind": "PodTemplate"}')
        environment = replace(cluster.context.environment)
        periods = replace(environment.periods, garbage_collector_discovery=0.2)
        object.__setattr__(environment, "periods", periods)
        collector = GarbageCollector(replace(cluster.context, used=[], environment=environment))
        cluster.controllers = [collector]
        collector.start()
        await cluster.until(lambda: collector.ready)
        await delete_an_owner(cluster.client)
        if waits:
            await cluster.until(lambda: not collector.queue.idle)
            assert not await is_gone(cluster.client)
            await write(cluster.server, GOOD)
        await cluster.until(lambda: is_gone(cluster.client))

    assert ("not all resource monitors could be synced" in caplog.text) is not waits
