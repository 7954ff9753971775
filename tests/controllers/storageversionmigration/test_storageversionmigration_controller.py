"""Storage version migrations: every object is written once more, and the migration says how it went."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, Ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.controllers.garbagecollector.controller import GarbageCollector
from kubeskew.controllers.storageversionmigration.controller import StorageVersionMigrationController
from kubeskew.controllers.storageversionmigration.features import MigrationFeatures

AUTHOR = Author("test", "test", "", "", "")
GATES = {"StorageVersionMigrator": True, "InformerResourceVersion": True}
MAP = Key("configmaps", "default", "old")
STORED = (
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"old","namespace":"default","uid":"u"},'
    b'"gone":1}'
)


@asynccontextmanager
async def migrating(release, gates=None):
    """A server of a release with migrations, its garbage collector and its migrator."""
    version = Version.parse(release)
    ref = MigrationFeatures.of(FeatureGates(version, GATES)).ref
    config = {ref.api_version: True}
    gates = {**GATES, **(gates or {})}
    async with real_cluster(version, gates, started=False, runtime_config=config) as made:
        kinds = (GarbageCollector, StorageVersionMigrationController)
        made.controllers = [kind(replace(made.context, used=[])) for kind in kinds]
        made.ref = ref
        made.informers.start()
        for controller in made.controllers:
            controller.start()
        yield made


@pytest.fixture(params=["1.30", "1.31", "1.34", "1.35", "1.36", "1.37"])
async def cluster(request):
    async with migrating(request.param) as made:
        yield made


async def store(cluster, value):
    """Store a config map as an older server has written it; returns the revision."""
    now = cluster.environment.clock.now()
    change = Change(Verb.CREATE, MAP, "u", value, 0, AUTHOR, now)
    return (await cluster.server.services.store.write(change)).revision


async def migrate(cluster, resource="configmaps", group="", version="v1", name="m"):
    wanted = {"group": group, "resource": resource}
    if cluster.ref.version == "v1alpha1":
        wanted["version"] = version
    await cluster.client.create(cluster.ref, {"metadata": {"name": name}, "spec": {"resource": wanted}})


async def ended(cluster, name="m"):
    """The conditions of a migration that has ended, by type."""

    async def found():
        migration = await cluster.client.get(cluster.ref, name)
        listed = {each["type"]: each for each in (migration.get("status") or {}).get("conditions") or ()}
        over = any(listed.get(kind, {}).get("status") == "True" for kind in ("Succeeded", "Failed"))
        runs = listed.get("Running", {}).get("status") == "True"
        return listed if over and not runs else None

    return await cluster.until(found)


async def touch(cluster):
    """Let the garbage collector learn of something newer, as its bookmarks do each minute."""
    metadata = {"name": "touch", "namespace": "default"}
    await cluster.client.create(CONFIG_MAPS, {"metadata": metadata})


async def until_revised(cluster, name="m"):
    async def revised():
        return ((await cluster.client.get(cluster.ref, name)).get("status") or {}).get("resourceVersion")

    await cluster.until(revised)


async def test_what_is_stored_otherwise_is_written_again(cluster):
    """An object with a field that the server does not know loses it; one that is as it should be stays."""
    await touch(cluster)
    revision = await store(cluster, STORED)
    before = await cluster.client.get(CONFIG_MAPS, "touch", "default")
    await migrate(cluster)
    await until_revised(cluster)
    await cluster.client.delete(CONFIG_MAPS, "touch", "default")
    await touch(cluster)
    conditions = await ended(cluster)
    assert conditions["Succeeded"]["reason"] == "StorageVersionMigrationSucceeded"
    assert conditions["Running"]["status"] == "False"
    entry = cluster.server.services.store.get(MAP)
    assert entry.revision > revision
    assert b"gone" not in entry.value
    assert b"managedFields" not in entry.value
    assert (
        before["metadata"]["uid"]
        != (await cluster.client.get(CONFIG_MAPS, "touch", "default"))["metadata"]["uid"]
    )


async def test_a_resource_that_is_not_served_fails_at_once(cluster):
    """A migration of nothing says that discovery does not have it."""
    await migrate(cluster, "nothings", "example.com")
    failed = (await ended(cluster))["Failed"]
    explains = cluster.ref.version != "v1alpha1" or cluster.environment.version.minor > 30
    assert failed["reason"] == "StorageVersionMigrationFailed"
    assert failed.get("message", "") == ("resource does not exist in discovery" if explains else "")


def definition(storage):
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
        for name in ("v1", "v2")
    ]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": versions}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


@pytest.mark.parametrize(("release", "forgets"), [("1.35", False), ("1.36", True), ("1.37", True)])
async def test_a_definition_forgets_the_versions_that_nothing_is_stored_in(release, forgets):
    """After the migration of a custom resource, its definition lists one version, since 1.36."""
    gates = {"CRDObservedGenerationTracking": True} if release == "1.35" else {}
    async with migrating(release, gates) as cluster:
        client, widgets = cluster.client, Ref("example.com", "v1", "widgets", True, "Widget")
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition("v1"))
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        await cluster.until(lambda: created(client, widgets, widget))
        made = await client.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        await client.update(CUSTOM_RESOURCE_DEFINITIONS, {**made, "spec": definition("v2")["spec"]})
        await cluster.until(lambda: lists(cluster, "v1", "v2"))
        await migrate(cluster, "widgets", "example.com", "v1")
        await until_revised(cluster)
        await cluster.until(lambda: created(client, widgets, {**widget, "metadata": {"name": "touch"}}))
        await ended(cluster)
        await cluster.until(lambda: lists(cluster, *([] if forgets else ["v1"]), "v2"))
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        said = {each["type"]: each.get("message") for each in found["status"]["conditions"]}
        expected = "The migration has succeeded and the stored versions have been updated"
        assert said.get("StorageMigrating") == (expected if forgets else None)
        key = Key("widgets.example.com", "default", "w")
        assert b"example.com/v2" in cluster.server.services.store.get(key).value


async def lists(cluster, *versions):
    found = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    return found["status"].get("storedVersions") == [*versions]


async def created(client, ref, obj):
    try:
        await client.create(ref, obj, "default")
    except StatusError as error:
        return error.code == 409
    return True


@pytest.mark.parametrize("release", ["1.31", "1.36", "1.37"])
async def test_one_migration_of_a_resource_runs_after_the_other(release):
    """Two migrations of one resource end both; since 1.36 each has run by itself."""
    async with migrating(release) as cluster:
        await store(cluster, STORED)
        for name in ("m", "n"):
            await migrate(cluster, name=name)
        for name in ("m", "n"):
            await until_revised(cluster, name)
        await touch(cluster)
        for name in ("m", "n"):
            assert "Succeeded" in await ended(cluster, name)
