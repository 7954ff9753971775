"""Objects and questions that the tests of several workload controllers share."""

from kubeskew.apimachinery.client.refs import EVENTS, PODS

LABELS = {"app": "web"}


def template(image="img:1", labels=None, **spec):
    return {
        "metadata": {"labels": labels or LABELS},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


def workload(ref, name, **spec):
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template(), **spec},
    }


async def pods_by_name(cluster):
    items = (await cluster.client.list(PODS, "ns"))["items"]
    return {item["metadata"]["name"]: item for item in items}


async def pod_names(cluster):
    return sorted(await pods_by_name(cluster))


async def events_of(cluster, controller):
    await controller.recorder.flush()
    items = (await cluster.client.list(EVENTS, "ns"))["items"]
    return [(item["type"], item["reason"], item["message"]) for item in items]
