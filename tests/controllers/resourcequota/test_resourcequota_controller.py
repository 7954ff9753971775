"""The quota controller and admission on a real API server of this process."""

import asyncio

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    Ref,
    dra_refs,
)
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.resourcequota.controller import ResourceQuotaController

pytestmark = pytest.mark.asyncio

DRA = dra_refs(Version(36))
WIDGETS = Ref("example.com", "v1", "widgets", True, "Widget")


def quota(hard, name="q", **spec):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"hard": hard, **spec},
    }


def pod(name, **requests):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
    }


async def used(cluster, name="q"):
    found = await cluster.client.get(RESOURCE_QUOTAS, name, "default")
    return (found.get("status") or {}).get("used") or {}


async def becomes(cluster, quota="q", **expected):
    """Wait until the quota's status says so of these resources (dots as double underscores)."""
    wanted = {name.replace("__", "."): value for name, value in expected.items()}

    async def said():
        found = await used(cluster, quota)
        return all(found.get(name) == value for name, value in wanted.items())

    await cluster.until(said)


async def test_what_is_there_counts_and_what_goes_is_given_back():
    """A new quota is measured; admission charges it; deletes and ends of pods replenish it."""
    async with real_cluster() as cluster:
        client = cluster.client
        await client.create(PODS, pod("before", cpu="100m"))
        await client.create(RESOURCE_QUOTAS, quota({"pods": "2", "requests.cpu": "1", "count/pods": "9"}))
        await becomes(cluster, pods="1", requests__cpu="100m")

        created = await client.create(PODS, pod("after", cpu="200m"))
        assert (await used(cluster))["requests.cpu"] == "300m"
        with pytest.raises(
            StatusError, match="exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
        ):
            await client.create(PODS, pod("more", cpu="1m"))

        await client.delete(PODS, "before", "default", grace_period=0)
        await becomes(cluster, pods="1", requests__cpu="200m")
        await client.update(PODS, {**created, "status": {"phase": "Succeeded"}}, "status")
        await becomes(cluster, pods="0", requests__cpu="0", **{"count/pods": "1"})


@pytest.mark.parametrize("stored_late", [False, True])
async def test_what_comes_while_a_quota_is_measured_counts(stored_late):
    """Pods that admission lets pass before the limits are in effect are counted, also if stored later."""
    async with real_cluster() as cluster:
        client, store = cluster.client, cluster.server.services.store
        update, write, creating, in_effect = client.update, store.write, [], asyncio.Event()

        async def create(name):
            await client.create(PODS, pod(name, cpu="100m"))

        async def late(change):
            if stored_late and change.key.resource == "pods":
                await in_effect.wait()
            return await write(change)

        async def update_late(ref, obj, *rest):
            if ref == RESOURCE_QUOTAS and not creating:
                creating.extend(asyncio.create_task(create(f"p{n}")) for n in range(11))
                await (asyncio.sleep(0.2) if stored_late else asyncio.wait(creating))
            answer = await update(ref, obj, *rest)
            in_effect.set()
            return answer

        store.write, client.update = late, update_late
        await client.create(RESOURCE_QUOTAS, quota({"requests.cpu": "10", "count/pods": "99"}))
        await cluster.until(lambda: creating and all(one.done() for one in creating))
        await create("after")

        await becomes(cluster, requests__cpu="1200m", **{"count/pods": "12"})


async def test_what_is_charged_and_not_stored_yet_is_not_given_back_for_good():
    """A pod that is being stored while another one's use is given back counts in the end."""
    async with real_cluster() as cluster:
        client, store = cluster.client, cluster.server.services.store
        write, given_back = store.write, asyncio.Event()
        await client.create(RESOURCE_QUOTAS, quota({"pods": "10"}))
        await becomes(cluster, pods="0")
        await client.create(PODS, pod("old"))

        async def late(change):
            if change.key.name == "new":
                await given_back.wait()
            return await write(change)

        store.write = late
        creating = asyncio.create_task(client.create(PODS, pod("new")))
        await becomes(cluster, pods="2")
        await client.delete(PODS, "old", "default", grace_period=0)
        await becomes(cluster, pods="0")
        given_back.set()
        await creating

        await becomes(cluster, pods="1")


async def test_use_that_was_measured_too_high_is_put_right():
    """A use that the controller has raised, by an old view of the pods, is counted once more."""
    async with real_cluster() as cluster:
        client = cluster.client
        update, list_objects, wrong, listed = client.update, client.list, [], []

        async def listing(ref, *rest, **options):
            found = await list_objects(ref, *rest, **options)
            listed.extend([ref] if ref == PODS and rest == ("default",) else [])
            return found

        client.list = listing
        await client.create(RESOURCE_QUOTAS, quota({"pods": "8"}))
        await cluster.until(lambda: listed)  # the count that follows the first one

        async def update_wrongly(ref, obj, *rest):
            if ref == RESOURCE_QUOTAS and rest and obj["status"]["hard"] == {"pods": "9"} and not wrong:
                wrong.append("2")
                obj = {**obj, "status": {**obj["status"], "used": {"pods": "2"}}}
            return await update(ref, obj, *rest)

        client.update = update_wrongly
        await client.patch(RESOURCE_QUOTAS, "q", "default", {"spec": {"hard": {"pods": "9"}}})

        await cluster.until(lambda: wrong)
        await becomes(cluster, pods="0")


async def test_limits_may_change():
    """Another spec is taken over, with what is used of it; objects of any resource are counted."""
    async with real_cluster() as cluster:
        client = cluster.client
        await client.create(RESOURCE_QUOTAS, quota({"count/deployments.apps": "1"}))
        await cluster.until(lambda: used(cluster))
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
        await client.create(DEPLOYMENTS, deployment)
        assert await used(cluster) == {"count/deployments.apps": "1"}
        pods = cluster.informers.informer(PODS)
        await cluster.until(lambda: len(pods.list("default")) == 2)

        body = {
            "spec": {"hard": {"count/replicasets.apps": "5", "pods": "5", "count/deployments.apps": None}}
        }
        await client.patch(RESOURCE_QUOTAS, "q", "default", body)

        await becomes(cluster, pods="2", **{"count/replicasets.apps": "1"})
        assert "count/deployments.apps" not in await used(cluster)


async def test_services_are_charged_by_type():
    """A service that gives its node ports up gives them back."""
    async with real_cluster() as cluster:
        client = cluster.client
        await client.create(RESOURCE_QUOTAS, quota({"services.nodeports": "1", "configmaps": "5"}))
        await becomes(cluster, **{"services.nodeports": "0", "configmaps": "1"})
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": "default"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        }
        await client.create(SERVICES, service)
        assert (await used(cluster))["services.nodeports"] == "1"

        await client.patch(SERVICES, "s", "default", {"spec": {"type": "ClusterIP"}})

        await becomes(cluster, **{"services.nodeports": "0"})


async def test_concurrent_creates_and_deletes_never_exceed():
    """While pods come and go, with the controller at work, never more exist than the quota allows."""
    async with real_cluster() as cluster:
        client = cluster.client
        await client.create(RESOURCE_QUOTAS, quota({"pods": "4"}))
        await becomes(cluster, pods="0")

        async def come_and_go(number):
            await client.create(PODS, pod(f"p{number}"))
            return len((await client.list(PODS, "default"))["items"])

        answers = await asyncio.gather(*map(come_and_go, range(20)), return_exceptions=True)

        there = [answer for answer in answers if isinstance(answer, int)]
        refused = {answer.reason for answer in answers if isinstance(answer, StatusError)}
        assert (len(there), max(there), refused) == (4, 4, {"Forbidden"})
        for item in (await client.list(PODS, "default"))["items"]:
            await client.delete(PODS, item["metadata"]["name"], "default", grace_period=0)
        await becomes(cluster, pods="0")


async def test_devices_count_for_what_their_class_is_called_when_they_are_counted():
    """A claim counts for the name that its class has then; a new name alone has nothing counted again."""
    async with real_cluster() as cluster:
        client = cluster.client
        names = ("requests.example.com/gpu", "gpu.deviceclass.resource.k8s.io/devices")
        await client.create(RESOURCE_QUOTAS, quota(dict.fromkeys(names, "10")))
        device_class = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {},
        }
        await client.create(DRA.device_classes, device_class)
        request = {
            "name": "r",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        }
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        }
        await client.create(DRA.claims, claim)
        await becomes(cluster, **dict(zip(names, ("0", "2"), strict=True)))
        (controller,) = (each for each in cluster.controllers if isinstance(each, ResourceQuotaController))
        await cluster.until(lambda: not controller.recounting)

        body = {"spec": {"extendedResourceName": "example.com/gpu"}}
        await client.patch(DRA.device_classes, "gpu", "", body)
        await client.create(RESOURCE_QUOTAS, quota(dict.fromkeys(names, "10"), "later"))
        await becomes(cluster, "later", **dict(zip(names, ("2", "2"), strict=True)))
        assert await used(cluster) == dict(zip(names, ("0", "2"), strict=True))

        await client.patch(RESOURCE_QUOTAS, "q", "default", {"spec": {"hard": dict.fromkeys(names, "9")}})

        await becomes(cluster, **dict(zip(names, ("2", "2"), strict=True)))
        more = {**request, "exactly": {**request["exactly"], "count": 9}}
        spec = {"devices": {"requests": [more]}}
        with pytest.raises(
            StatusError, match=r"exceeded quota.*requests.example.com/gpu=9.*limited"
        ) as refused:
            await client.create(DRA.claims, {**claim, "metadata": {"name": "d"}, "spec": spec}, "default")
        assert refused.value.reason == "Forbidden"

        await client.delete(DRA.device_classes, "gpu")
        await client.patch(RESOURCE_QUOTAS, "q", "default", {"spec": {"hard": dict.fromkeys(names, "8")}})
        await becomes(cluster, **dict(zip(names, ("0", "2"), strict=True)))


async def test_custom_resources_are_counted():
    """A quota may limit what is not defined yet; once it is, its objects are counted."""
    async with real_cluster() as cluster:
        client = cluster.client
        await client.create(RESOURCE_QUOTAS, quota({"count/widgets.example.com": "1", "configmaps": "9"}))
        await becomes(cluster, configmaps="1")
        assert "count/widgets.example.com" not in await used(cluster)
        schema = {"openAPIV3Schema": {"type": "object"}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

        await becomes(cluster, **{"count/widgets.example.com": "0"})

        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"namespace": "default"}}
        await client.create(WIDGETS, {**widget, "metadata": {"name": "a", "namespace": "default"}})
        with pytest.raises(StatusError, match="exceeded quota"):
            await client.create(WIDGETS, {**widget, "metadata": {"name": "b", "namespace": "default"}})
        await client.delete(WIDGETS, "a", "default")
        await becomes(cluster, **{"count/widgets.example.com": "0"})
        assert (await client.list(CONFIG_MAPS, "default"))["items"]
