"""Publishes what the driver has on each node, in objects of a definition of its own.

The objects are of the driver's group, named after the node, in its namespace, and go with the Node.

Source: KEP-3063 as drafted, "Implementing a plugin for node resources".
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, NODES, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"  # where the driver's account is
_LOOK_SECONDS = 0.5
_DEVICE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "memory": {"type": "string"},
        "claims": {"type": "array", "items": {"type": "string"}},
    },
}
_SCHEMA = {"type": "object", "properties": {"devices": {"type": "array", "items": _DEVICE}}}


def capacity_ref(driver: str) -> Ref:
    """Returns where the driver publishes its capacity."""
    return Ref(driver, "v1alpha1", "nodecapacities", True, "NodeCapacity")


def definition(driver: str) -> Object:
    """Returns the definition of the driver's objects."""
    ref = capacity_ref(driver)
    names = {"plural": ref.plural, "singular": "nodecapacity", "kind": ref.kind}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SCHEMA}}}
    version = {"name": ref.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{ref.plural}.{ref.group}"},
        "spec": {"group": ref.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


class CapacityPublisher:
    """Keeps the objects as the nodes have it, until cancelled."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        driver: str,
        hardware: Callable[[], Mapping[str, Sequence[Object]]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._driver = driver
        self._ref = capacity_ref(driver)
        self._hardware = hardware
        self._published: dict[str, list[Object]] = {}
        self._failure = ""

    async def run(self) -> None:
        """Looks at the driver's own devices; the API server is asked only when these have changed."""
        defined = False
        while True:
            try:
                if not defined:
                    await self._define()
                    defined = True
                for node, devices in self._hardware().items():
                    if self._published.get(node) != devices:
                        await self._publish(node, list(devices))
                self._failure = ""
            except (StatusError, *CONNECTION_ERRORS) as error:
                if str(error) != self._failure:
                    log.info("capacity is not published yet: %s", error)
                self._failure = str(error)
            await self._clock.sleep(_LOOK_SECONDS)

    async def _define(self) -> None:
        try:
            await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(self._driver))
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise

    async def _publish(self, node: str, devices: list[Object]) -> None:
        owner = await self._client.get(NODES, node)
        reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]}
        metadata = {"name": node, "namespace": NAMESPACE, "ownerReferences": [reference]}
        made = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, "metadata": metadata}
        try:
            await self._client.create(self._ref, {**made, "spec": {"devices": devices}})
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise
            stored = await self._client.get(self._ref, node, NAMESPACE)
            metadata = {**stored["metadata"], "ownerReferences": [reference]}
            changed = {**stored, "metadata": metadata, "spec": {"devices": devices}}
            await self._client.update(self._ref, changed)
        self._published[node] = devices
