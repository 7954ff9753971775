"""Finds the container of a pod that a request means.

Source: pkg/registry/core/pod/strategy.go (validateContainer), 1.36.
"""

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.nodes.services import NodeServices

PODS = GroupResource("", "pods")
_PARTS = ("initContainers", "containers", "ephemeralContainers")


async def pod_of(services: NodeServices, namespace: str, name: str) -> Object:
    """Returns the pod as it is now; raises 404."""
    await services.store.refresh()
    pod = services.core_object("pods", namespace, name)
    if pod is None:
        raise errors.not_found(PODS, name)
    return pod


def container_of(pod: Object, asked: str) -> str:
    """Returns the container asked for, or the only one. Raises 400."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    every = [container["name"] for part in _PARTS for container in spec.get(part) or ()]
    if asked:
        if asked not in every:
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    text = f"a container name must be specified for pod {name}"
    if containers:
        text += f", choose one of: [{' '.join(every)}]"
    raise errors.bad_request(text)
