"""Keeps the devices that plugins offer on one node, healthy or not, and the node's capacity from them.

pkg/kubelet/cm/devicemanager/manager.go (genericDeviceUpdateCallback, GetCapacity). As upstream, the tables
are independent: a resource is known from its plugin's first list of devices, or from the checkpoint, until
five minutes after its plugin left.
"""

from collections.abc import Collection, Iterable, Mapping

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.device_managers import PluginCapacity
from kubeskew.kubelet.deviceplugins.allocations import NO_NUMA_NODE
from kubeskew.kubelet.deviceplugins.endpoint import Endpoint
from kubeskew.kubelet.protocols.device_plugin import HEALTHY
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import Device


class Inventory:
    """The tables by resource."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.endpoints: dict[str, Endpoint] = {}
        self.devices: dict[str, dict[str, Device]] = {}  # as last listed; kept when the plugin leaves
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}

    def restore(self, resources: Iterable[str]) -> None:
        """Restores resources of a checkpoint; their devices are not available until their plugins register
        again."""
        for resource in resources:
            self.healthy[resource], self.unhealthy[resource] = set(), set()
            self.endpoints[resource] = Endpoint(resource, self._clock)

    def connected(self, resource: str, endpoint: Endpoint) -> None:
        self.endpoints[resource] = endpoint

    def disconnected(self, resource: str) -> None:
        """Makes the devices of a resource unavailable whose plugin left."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return
        lost = self.healthy.get(resource, set())
        if resource in self.healthy:
            self.healthy[resource] = set()
        self.unhealthy.setdefault(resource, set()).update(lost)
        endpoint.stop()

    def replace(self, resource: str, devices: Collection[Device]) -> set[str]:
        """Replaces the plugin's list; returns the devices that are new or whose health changed."""
        before = self.devices.get(resource, {})
        now = {device.ID: device for device in devices}
        self.devices[resource] = now
        self.healthy[resource] = {name for name, device in now.items() if device.health == HEALTHY}
        self.unhealthy[resource] = {name for name in now if name not in self.healthy[resource]}
        return {
            name for name, device in now.items() if name not in before or before[name].health != device.health
        }

    def capacity(self) -> PluginCapacity:
        """Returns the node's capacity; forgets resources whose plugins went too long ago."""
        capacity: dict[str, int] = {}
        allocatable: dict[str, int] = {}
        removed: list[str] = []
        for resource in sorted({*self.healthy, *self.unhealthy}):
            endpoint = self.endpoints.get(resource)
            if endpoint is None or endpoint.grace_expired():
                for table in (self.endpoints, self.healthy, self.unhealthy):
                    table.pop(resource, None)
                removed.append(resource)
                continue
            healthy = self.healthy.get(resource)
            if healthy is not None:
                allocatable[resource] = len(healthy)
            capacity[resource] = len(healthy or ()) + len(self.unhealthy.get(resource, ()))
        return PluginCapacity(capacity, allocatable, removed)

    def offers(self, resource: str, allocated: Mapping[str, Collection[str]]) -> bool:
        """Returns whether a resource belongs to plugins: registered, or allocated to a pod that still
        runs."""
        return resource in self.healthy or resource in allocated

    def healthy_devices(self) -> dict[str, list[Device]]:
        """Returns the healthy devices by resource, sorted."""
        return {
            resource: [device for name, device in sorted(devices.items()) if name in self.healthy[resource]]
            for resource, devices in sorted(self.devices.items())
            if resource in self.healthy
        }

    def by_numa_node(self, resource: str, devices: Iterable[str]) -> dict[int, tuple[str, ...]]:
        """Returns the devices as a checkpoint has them: under each of their NUMA nodes, or under -1."""
        found: dict[int, list[str]] = {}
        for name in sorted(devices):
            known = self.devices.get(resource, {}).get(name)
            nodes = [node.ID for node in known.topology.nodes] if known is not None else []
            for node in nodes or [NO_NUMA_NODE]:
                found.setdefault(node, []).append(name)
        return {node: tuple(names) for node, names in found.items()}

    def health(self, resource: str, device: str) -> str:
        """Returns `Healthy` or `Unhealthy` as the plugin last reported; a device no longer listed counts
        as healthy."""
        known = self.devices.get(resource, {}).get(device)
        return "Healthy" if known is None or known.health == HEALTHY else "Unhealthy"
