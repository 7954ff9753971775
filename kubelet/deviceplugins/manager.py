"""The device plugin manager of one node (pkg/kubelet/cm/devicemanager/manager.go).

Plugins register and list their devices. Pods get devices at their admission, before any other check, and keep
them until they are gone. The allocations are in a checkpoint. See `inventory.py` for the devices,
`allocator.py` for allocating, `serving.py` for the sockets.
"""

import logging
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError, PluginCapacity
from kubeskew.kubelet.deviceplugins import checkpoint
from kubeskew.kubelet.deviceplugins.allocations import Allocation, Allocations, injected
from kubeskew.kubelet.deviceplugins.allocator import Allocator, wanted
from kubeskew.kubelet.deviceplugins.checkpoint import CheckpointError
from kubeskew.kubelet.deviceplugins.endpoint import Endpoint, EndpointStoppedError
from kubeskew.kubelet.deviceplugins.inventory import Inventory
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles
from kubeskew.kubelet.journal.marking import MarkedChannel
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import device_plugin
from kubeskew.kubelet.protocols.device_plugin import ListAndWatchResponse
from kubeskew.kubelet.protocols.errors import RpcError
from kubeskew.kubelet.protocols.message_sockets import Channel
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import Device, Empty

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManagerDependencies:
    """The parts of the kubelet that the manager uses and notifies."""

    active_pods: Callable[[], set[str]]
    capacity_changed: Callable[[], None]
    health_changed: Callable[[Collection[str]], None]  # called with pods' UIDs


class DevicePluginManager:
    """Implements `DevicePlugins`, and handles registered plugins. Call `restore` first."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        features: KubeletFeatures,
        metrics: KubeletMetrics,
        surroundings: ManagerDependencies,
        files: StateFiles = UNJOURNALLED,
    ) -> None:
        """The checkpoint is in `directory`."""
        self._directory = directory
        self._files = files
        self._clock = clock
        self._features = features
        self._surroundings = surroundings
        self._inventory = Inventory(clock)
        self._allocator = Allocator(
            self._inventory,
            Allocations(),
            clock,
            metrics,
            surroundings.active_pods,
            features.empty_allocate_response,
            forgets_pending=features.forgets_pending_devices,
            leaves_mapped=features.mapped_resources_are_claims,
        )
        self._is_new = not directory.is_dir()

    @property
    def is_new(self) -> bool:
        """Returns whether no kubelet ran here before; as upstream, by the directory that one leaves."""
        return self._is_new

    def restore(self, running: Collection[tuple[str, str]]) -> None:
        """Restores what the last kubelet left. `running`: (pod UID, container) of running containers."""
        self._files.make_directory(self._directory, 0o750)
        self._allocator.running = running
        try:
            found = checkpoint.read(self._files, self._directory)
        except CheckpointError as error:
            log.error(checkpoint.UNREADABLE.format(error=error))
            return
        if found is not None:
            allocations, resources = found
            self._allocator.restore(allocations)
            self._inventory.restore(resources)

    # -- plugins

    def clean(self, directory: Path) -> None:
        """Removes the sockets of an earlier kubelet: plugins take that as a sign to register again."""
        for path in directory.iterdir():
            try:
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
            except OSError as error:
                log.error("cannot remove %s: %s", path, error)

    async def connected(self, resource: str, channel: Channel) -> None:
        """Takes on a plugin; raises DeviceError if it does not answer GetDevicePluginOptions."""
        try:
            options = await device_plugin.GET_OPTIONS.call(channel, Empty())
        except RpcError as error:
            raise DeviceError(f"failed to get device plugin options: {error}") from error
        self._inventory.connected(
            resource, Endpoint(resource, self._clock, MarkedChannel(channel, self._files), options)
        )

    def disconnected(self, resource: str) -> None:
        """Handles that the resource's plugin left, or its stream of devices ended."""
        self._inventory.disconnected(resource)
        self._surroundings.capacity_changed()

    def listed(self, resource: str, response: ListAndWatchResponse) -> None:
        """Handles the plugin's list of devices."""
        changed = self._inventory.replace(resource, response.devices)
        if self._features.resource_health and changed:
            held = self._allocator.allocations
            by_name = self._features.health_by_name
            self._surroundings.health_changed(
                held.first_with(changed) if by_name else held.holders(resource, changed)
            )
        self._save()
        self._surroundings.capacity_changed()

    # -- pods

    async def admit(self, pod: Object) -> None:
        for container in [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]:
            await self._allocate(pod, container)

    async def _allocate(self, pod: Object, container: Object) -> None:
        if await self._allocator.allocate(pod, container):
            self._save()

    def sources_ready(self) -> None:
        self._allocator.sources_ready = True

    def allocated_for(self, pod: Object) -> Mapping[str, int]:
        if not self._allocator.allocations.has_pod(pod_spec.uid_of(pod)):
            return {}
        return {resource: len(devices) for resource, devices in self._allocator.allocated.items()}

    async def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """Returns the container's devices; a container that has all keeps them without a call of the
        plugin."""
        pod_uid, name = pod_spec.uid_of(pod), container["name"]
        lacks = False
        for resource, amount in wanted(container):
            if not amount or not self._inventory.offers(resource, self._allocator.allocated):
                continue
            await self._pre_start(pod_uid, name, resource)
            # A pod found running by a restarted kubelet may have been admitted without devices.
            known = self._allocator.allocations.get(pod_uid, name, resource)
            lacks |= known is None and pod_uid in self._surroundings.active_pods()
        if lacks:
            await self._allocate(pod, container)
        found = injected(self._allocator.allocations.of_container(pod_uid, name))
        return found if self._features.device_plugin_cdi else replace(found, cdi_ids=())

    async def _pre_start(self, pod_uid: str, container: str, resource: str) -> None:
        endpoint = self._inventory.endpoints.get(resource)
        if endpoint is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.starts:
            return
        known = self._allocator.allocations.get(pod_uid, container, resource)
        if known is None:
            raise DeviceError(
                f"no devices found allocated in local cache for pod {pod_uid}, container {container}, "
                f"resource {resource}"
            )
        try:
            await endpoint.pre_start(known.ids)
        except (RpcError, EndpointStoppedError) as error:
            raise DeviceError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def add_health(self, pod: Object, status: Object) -> None:
        """Adds the health of devices, only to regular containers, as upstream."""
        if not self._features.resource_health:
            return
        for container in status.get("containerStatuses") or []:
            allocations = self.devices_of(pod_spec.uid_of(pod), container["name"])
            if allocations:
                container["allocatedResourcesStatus"] = [
                    {"name": resource, "resources": self._health(resource, allocation.ids)}
                    for resource, allocation in allocations.items()
                ]

    def _health(self, resource: str, devices: Collection[str]) -> list[Object]:
        return [
            {"resourceID": device, "health": self._inventory.health(resource, device)}
            for device in sorted(devices)
        ]

    # -- what there is

    def capacity(self) -> PluginCapacity:
        found = self._inventory.capacity()
        if found.removed:
            self._save()
        return found

    def devices_of(self, pod_uid: str, container: str) -> Mapping[str, Allocation]:
        """Returns the container's allocations by resource."""
        return self._allocator.allocations.of_container(pod_uid, container)

    def healthy_devices(self) -> Mapping[str, list[Device]]:
        """Returns the healthy devices by resource."""
        return self._inventory.healthy_devices()

    def collect(self) -> None:
        """Takes back the devices of pods that are gone."""
        self._allocator.collect()

    def _save(self) -> None:
        registered = {name: sorted(devices) for name, devices in sorted(self._inventory.healthy.items())}
        checkpoint.write(self._files, self._directory, self._allocator.allocations, registered)
