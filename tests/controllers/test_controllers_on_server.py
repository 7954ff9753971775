"""All controllers together on a real API server of this process."""

import asyncio

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    dra_refs,
)
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version

pytestmark = pytest.mark.asyncio

CLAIMS = dra_refs(Version(36)).claims


def deployment(name="web", replicas=2):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]},
            },
        },
    }


def owned(ref, owner, name, *, block=False, **extra):
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **({"blockOwnerDeletion": True} if block else {}),
    }
    metadata = {"name": name, "namespace": "default", "ownerReferences": [reference]}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, **extra}


def config_map(name, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
    }


@pytest.fixture
async def cluster():
    async with real_cluster() as cluster:
        yield cluster


async def gone(cluster, ref, name, namespace="default"):
    try:
        await cluster.client.get(ref, name, namespace)
    except StatusError as error:
        return error.code == 404
    return False


async def exists(cluster, ref, name, namespace):
    return not await gone(cluster, ref, name, namespace)


async def scaled(cluster, count):
    async def there():
        names = await cluster.names(PODS, "default")
        return (names,) if len(names) == count else None

    return (await cluster.until(there))[0]


async def test_every_namespace_gets_its_account_and_ca(cluster):
    """Service account `default` and the CA's config map, made again when deleted."""
    await cluster.until(lambda: is_there(cluster, SERVICE_ACCOUNTS, "default"))
    await cluster.until(lambda: is_there(cluster, CONFIG_MAPS, "kube-root-ca.crt"))
    await cluster.client.delete(SERVICE_ACCOUNTS, "default", "default")
    await cluster.until(lambda: is_there(cluster, SERVICE_ACCOUNTS, "default"))
    found = await cluster.client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")

    assert found["data"] == {"ca.crt": "CA"}


async def is_there(cluster, ref, name):
    return not await gone(cluster, ref, name)


async def test_a_deployment_makes_pods_and_takes_them_along(cluster):
    """Background deletion: the deployment goes at once, the rest follows."""
    await cluster.client.create(DEPLOYMENTS, deployment())
    await scaled(cluster, 2)
    found = await cluster.client.get(DEPLOYMENTS, "web", "default")

    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"

    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation="Background")
    await scaled(cluster, 0)

    assert await cluster.names(REPLICA_SETS, "default") == []


async def test_a_deleted_pod_is_replaced(cluster):
    """The replica set keeps its number."""
    await cluster.client.create(DEPLOYMENTS, deployment())
    first = await scaled(cluster, 2)
    await cluster.client.delete(PODS, first[0], "default", grace_period=0)

    async def replaced():
        names = await cluster.names(PODS, "default")
        return len(names) == 2 and first[0] not in names

    await cluster.until(replaced)


async def test_orphaning_leaves_the_dependents(cluster):
    """With propagation Orphan the replica set loses its owner and stays, and so do its pods."""
    await cluster.client.create(DEPLOYMENTS, deployment())
    pods = await scaled(cluster, 2)
    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation="Orphan")
    await cluster.until(lambda: gone(cluster, DEPLOYMENTS, "web"))
    (one,) = (await cluster.client.list(REPLICA_SETS, "default"))["items"]

    assert not one["metadata"].get("ownerReferences")
    assert await cluster.names(PODS, "default") == pods


async def test_foreground_deletion_waits_for_blocking_dependents(cluster):
    """The owner stays until the dependent that blocks it is gone."""
    owner = await cluster.client.create(CONFIG_MAPS, config_map("owner"))
    blocker = owned(SECRETS, owner, "blocker", block=True)
    blocker["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.client.create(SECRETS, blocker)
    await cluster.client.create(SECRETS, owned(SECRETS, owner, "other"))
    await cluster.client.delete(CONFIG_MAPS, "owner", "default", propagation="Foreground")
    await cluster.until(lambda: gone(cluster, SECRETS, "other"))
    held = await cluster.client.get(CONFIG_MAPS, "owner", "default")

    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]

    await cluster.client.patch(SECRETS, "blocker", "default", {"metadata": {"finalizers": None}})
    await cluster.until(lambda: gone(cluster, CONFIG_MAPS, "owner"))

    assert await gone(cluster, SECRETS, "blocker")


async def test_an_object_of_an_absent_owner_is_collected(cluster):
    """An owner that never was, or is another object of that name by now, does not keep anything."""
    ghost = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"},
    }
    await cluster.client.create(SECRETS, owned(SECRETS, ghost, "lost"))
    await cluster.until(lambda: gone(cluster, SECRETS, "lost"))


async def test_one_living_owner_is_enough(cluster):
    """The reference to the owner that is gone is removed, the object stays."""
    first = await cluster.client.create(CONFIG_MAPS, config_map("first"))
    second = await cluster.client.create(CONFIG_MAPS, config_map("second"))
    shared = owned(SECRETS, first, "shared")
    shared["metadata"]["ownerReferences"] += owned(SECRETS, second, "")["metadata"]["ownerReferences"]
    await cluster.client.create(SECRETS, shared)
    await cluster.client.delete(CONFIG_MAPS, "first", "default")

    async def one_left():
        found = await cluster.client.get(SECRETS, "shared", "default")
        return [reference["name"] for reference in found["metadata"]["ownerReferences"]] == ["second"]

    await cluster.until(one_left)


async def test_the_description_of_the_root_ca_comes_back(cluster):
    """Whoever takes it away is overruled; another text is left alone."""
    name = "kube-root-ca.crt"
    await cluster.until(lambda: exists(cluster, CONFIG_MAPS, name, "default"))

    async def described(text):
        body = {"metadata": {"annotations": {"kubernetes.io/description": text}}}
        await cluster.client.patch(CONFIG_MAPS, name, "default", body)
        await asyncio.sleep(0.3)
        found = await cluster.client.get(CONFIG_MAPS, name, "default")
        return found["metadata"]["annotations"]["kubernetes.io/description"]

    assert await described("mine") == "mine"
    assert (await described(None)).startswith("Contains a CA bundle")


async def test_a_namespace_is_emptied_and_goes(cluster):
    """Everything in it is deleted; what has a finalizer is reported in the conditions and waited for."""
    await cluster.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tmp"}}
    )
    held = config_map("held", namespace="tmp", finalizers=["example.com/hold"])
    await cluster.client.create(CONFIG_MAPS, held)
    await cluster.client.create(CONFIG_MAPS, config_map("free", namespace="tmp"))
    await cluster.client.delete(NAMESPACES, "tmp")

    async def reported():
        found = await cluster.client.get(NAMESPACES, "tmp")
        conditions = found["status"].get("conditions", ())
        return {condition["type"]: condition for condition in conditions if condition["status"] == "True"}

    conditions = await cluster.until(reported)

    assert conditions["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert conditions["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )

    await cluster.client.patch(CONFIG_MAPS, "held", "tmp", {"metadata": {"finalizers": None}})
    await cluster.until(lambda: gone(cluster, NAMESPACES, "tmp", ""))


async def test_pods_hold_up_a_namespace(cluster):
    """Other objects stay while pods are left, of which the conditions tell once their time is up."""
    await cluster.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tmp"}}
    )
    await cluster.until(lambda: exists(cluster, SERVICE_ACCOUNTS, "default", "tmp"))
    spec = {
        "nodeName": "silent",
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": "img:1"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "tmp"}, "spec": spec}
    await cluster.client.create(PODS, pod)
    await cluster.client.create(CONFIG_MAPS, config_map("kept", namespace="tmp"))
    await cluster.client.delete(NAMESPACES, "tmp")

    async def told():
        found = await cluster.client.get(NAMESPACES, "tmp")
        conditions = found["status"].get("conditions", ())
        return {condition["type"]: (condition["status"], condition["message"]) for condition in conditions}

    first = await cluster.until(told)

    async def late():
        conditions = await told()
        return conditions["NamespaceDeletionContentFailure"][0] == "True" and conditions

    last = await cluster.until(late)

    removed = ("False", "All content successfully removed")
    failure = (
        "Failed to delete all resource types, 1 remaining: "
        "unexpected items still remain in namespace: tmp for gvr: /v1, Resource=pods"
    )
    assert first["NamespaceContentRemaining"] == last["NamespaceContentRemaining"] == removed
    assert first["NamespaceDeletionContentFailure"][0] == "False"
    assert last["NamespaceDeletionContentFailure"] == ("True", failure)
    assert await exists(cluster, CONFIG_MAPS, "kept", "tmp")

    await cluster.client.delete(PODS, "p", "tmp", grace_period=0)
    await cluster.until(lambda: gone(cluster, NAMESPACES, "tmp", ""))


async def test_claims_come_and_go_with_their_pod(cluster):
    """A template's claim is made for the pod, named in its status, and collected after it."""
    templates = dra_refs(Version(36)).claim_templates
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await cluster.client.create(
        templates,
        {
            "apiVersion": templates.api_version,
            "kind": templates.kind,
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": spec},
        },
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
    }
    await cluster.until(lambda: is_there(cluster, SERVICE_ACCOUNTS, "default"))
    await cluster.client.create(PODS, pod)

    async def named():
        found = await cluster.client.get(PODS, "p", "default")
        return found.get("status", {}).get("resourceClaimStatuses")

    (status,) = await cluster.until(named)

    assert await cluster.names(CLAIMS, "default") == [status["resourceClaimName"]]

    await cluster.client.delete(PODS, "p", "default", grace_period=0)
    await cluster.until(lambda: gone(cluster, CLAIMS, status["resourceClaimName"]))


async def test_controllers_come_to_rest(cluster):
    """Controllers write nothing more once every object is as it should be."""
    bound = deployment()
    bound["spec"]["template"]["spec"]["nodeName"] = "n"
    await cluster.client.create(DEPLOYMENTS, bound)
    await cluster.client.create(
        SERVICES,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
    )
    await cluster.client.create(
        NODES,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True}},
    )
    for name in await scaled(cluster, 2):
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready}
        await cluster.client.patch(PODS, name, "default", {"status": status}, subresource="status")

    async def available():
        found = await cluster.client.get(DEPLOYMENTS, "web", "default")
        found_slices = await cluster.client.list(ENDPOINT_SLICES, "default", "kubernetes.io/service-name=web")
        ready = [endpoint for slice_ in found_slices["items"] for endpoint in slice_.get("endpoints") or ()]
        return found.get("status", {}).get("availableReplicas") == 2 and len(ready) == 2

    await cluster.until(available)

    async def quiet():
        before = (await cluster.client.list(PODS))["metadata"]["resourceVersion"]
        await asyncio.sleep(0.5)
        return before == (await cluster.client.list(PODS))["metadata"]["resourceVersion"]

    await cluster.until(quiet)


async def test_a_deletion_during_a_change_of_version_is_noticed(cluster):
    """The deletion of an object while its resource is not watched is noticed when the watch resumes."""
    owner = await cluster.client.create(CONFIG_MAPS, config_map("owner"))
    await cluster.client.create(SECRETS, owned(SECRETS, owner, "dependent"))
    collector = next(
        controller for controller in cluster.controllers if controller.name == "garbage-collector-controller"
    )
    await cluster.until(lambda: collector._graph.node(owner["metadata"]["uid"]))
    collector._monitors.remove(CONFIG_MAPS)
    await collector._own.pop(CONFIG_MAPS).stop()
    await cluster.client.delete(CONFIG_MAPS, "owner", "default")
    await collector._discover()
    await cluster.until(lambda: gone(cluster, SECRETS, "dependent"))


async def test_the_garbage_collector_follows_nothing_that_is_followed_already(cluster):
    """The garbage collector uses the informers that other controllers have, and has its own of the rest
    only.
    """
    collector = next(
        controller for controller in cluster.controllers if controller.name == "garbage-collector-controller"
    )

    assert [ref for ref in collector._own if cluster.informers.existing(ref)] == []
    pod = await cluster.client.create(
        PODS,
        {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    )
    await cluster.until(lambda: collector._graph.node(pod["metadata"]["uid"]))
