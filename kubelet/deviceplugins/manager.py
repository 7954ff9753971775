"""The device plugin manager of one node: registered plugins, their devices, and the allocation to containers.

Plugins register and list their devices. Pods get devices at their admission, before any other check, and keep
them until they are gone; the allocations are in a checkpoint. Topology policy is `none`: where upstream takes
any device of a set, the first by name is taken. As upstream, the tables of devices and of resources are
independent: a resource is known from its plugin's first list of devices, or from the checkpoint, until five
minutes after its plugin left.

Sources: pkg/kubelet/cm/devicemanager/manager.go (genericDeviceUpdateCallback, GetCapacity, Allocate,
devicesToAllocate) and endpoint.go.
"""

import logging
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError, PluginCapacity
from kubeskew.kubelet.deviceplugins import pod_devices
from kubeskew.kubelet.deviceplugins.pod_devices import (
    NO_NUMA_NODE,
    Allocation,
    Allocations,
    UnreadableCheckpointError,
    injected,
)
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles
from kubeskew.kubelet.journal import MarkedChannel
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import device_plugin
from kubeskew.kubelet.protocols.device_plugin import (
    HEALTHY,
    AllocateRequest,
    AllocateResponse,
    DevicePluginOptions,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Channel
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import Device, Empty

GRACE_SECONDS = 300.0  # endpointStopGracePeriod
_PRE_START_SECONDS = 30.0  # KubeletPreStartContainerRPCTimeoutInSecs
log = logging.getLogger(__name__)


class EndpointStoppedError(Exception):
    """The plugin is gone."""


class Endpoint:
    """A plugin of one resource. Without a channel it stands for one that has not registered again yet."""

    def __init__(
        self,
        resource: str,
        clock: Clock,
        channel: Channel | None = None,
        options: DevicePluginOptions | None = None,
    ) -> None:
        self._resource = resource
        self._clock = clock
        self._channel = channel
        self._options = options
        self._stopped_at = None if channel is not None else clock.monotonic()

    @property
    def prefers(self) -> bool:
        """The plugin has GetPreferredAllocation."""
        return self._options is not None and self._options.get_preferred_allocation_available

    @property
    def starts(self) -> bool:
        """The plugin has PreStartContainer."""
        return self._options is not None and self._options.pre_start_required

    def stop(self) -> None:
        self._stopped_at = self._clock.monotonic()

    def grace_expired(self) -> bool:
        """A resource is forgotten five minutes after its plugin left."""
        return self._stopped_at is not None and self._clock.monotonic() - self._stopped_at > GRACE_SECONDS

    # Upstream's calls, but for the last, have no timeout. They raise RpcError or EndpointStoppedError.

    async def preferred(self, available: Collection[str], included: Collection[str], size: int) -> list[str]:
        """Asks the plugin which of the available devices it prefers; it may name too few, or others."""
        request = PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=sorted(available),
            must_include_deviceIDs=sorted(included),
            allocation_size=size,
        )
        answer = await device_plugin.GET_PREFERRED_ALLOCATION.call(self._live(), request)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    async def allocate(self, devices: Collection[str]) -> AllocateResponse:
        request = AllocateRequest()
        request.container_requests.add(devices_ids=sorted(devices))
        return await device_plugin.ALLOCATE.call(self._live(), request)

    async def pre_start(self, devices: Collection[str]) -> None:
        request = PreStartContainerRequest(devices_ids=sorted(devices))
        await device_plugin.PRE_START_CONTAINER.call(self._live(), request, timeout=_PRE_START_SECONDS)

    def _live(self) -> Channel:
        if self._stopped_at is not None or self._channel is None:
            raise EndpointStoppedError(f"endpoint {self._resource} has been stopped")
        return self._channel


class Inventory:
    """The endpoints and devices of a node, in tables by resource."""

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
        """Devices of the resource become unhealthy, because its plugin left."""
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
        """Forgets resources whose plugins left more than five minutes ago, and names them in `removed`."""
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
        """A resource belongs to plugins if it is registered, or allocated to a pod that still runs."""
        return resource in self.healthy or resource in allocated

    def healthy_devices(self) -> dict[str, list[Device]]:
        return {
            resource: [device for name, device in sorted(devices.items()) if name in self.healthy[resource]]
            for resource, devices in sorted(self.devices.items())
            if resource in self.healthy
        }

    def by_numa_node(self, resource: str, devices: Iterable[str]) -> dict[int, tuple[str, ...]]:
        """Groups devices as a checkpoint has them: under each of their NUMA nodes, or under -1."""
        found: dict[int, list[str]] = {}
        for name in sorted(devices):
            known = self.devices.get(resource, {}).get(name)
            nodes = [node.ID for node in known.topology.nodes] if known is not None else []
            for node in nodes or [NO_NUMA_NODE]:
                found.setdefault(node, []).append(name)
        return {node: tuple(names) for node, names in found.items()}

    def health(self, resource: str, device: str) -> str:
        """`Healthy` or `Unhealthy` is what the plugin last reported; a device no longer listed counts as
        healthy."""
        known = self.devices.get(resource, {}).get(device)
        return "Healthy" if known is None or known.health == HEALTHY else "Unhealthy"


class Allocator:
    """Allocates devices; `allocated` holds those taken by the allocations and by those under way.

    Until `sources_ready`, while a starting kubelet admits the pods that it found, containers that run
    (`running`: pod UID and name) keep their devices, and nothing is taken back.
    """

    def __init__(
        self,
        inventory: Inventory,
        allocations: Allocations,
        clock: Clock,
        metrics: KubeletMetrics,
        active_pods: Callable[[], set[str]],
        no_containers: str,
        *,
        forgets_pending: bool = False,
        leaves_mapped: bool = False,
    ) -> None:
        """`forgets_pending`: devices for which a plugin is being asked become free when others are taken back
        (pull request 137534). `leaves_mapped`: what the pod's status maps to a claim is not asked of plugins.
        """
        self._leaves_mapped = leaves_mapped
        self._forgets_pending = forgets_pending
        self._pending: dict[str, set[str]] = {}  # devices for which plugins are being asked
        self.allocations = allocations
        self.allocated = allocations.by_resource()
        self.running: Collection[tuple[str, str]] = ()
        self.sources_ready = False
        self._inventory = inventory
        self._clock = clock
        self._metrics = metrics
        self._active_pods = active_pods
        self._no_containers = no_containers
        self._reusable_of = ""  # the pod under admission
        self._reusable: dict[str, set[str]] = {}  # devices of its init containers, free for later ones

    def restore(self, allocations: Allocations) -> None:
        self.allocations, self.allocated = allocations, allocations.by_resource()

    async def allocate(self, pod: Object, container: Object) -> bool:
        """Allocates what a container requests, init containers first; returns whether there was anything.

        Raises DeviceError; earlier allocations stay until the pod is gone.
        """
        pod_uid, name = pod_spec.uid_of(pod), container["name"]
        if pod_uid != self._reusable_of:
            self._reusable_of, self._reusable = pod_uid, {}
        given = await self._allocate(pod, container)
        leaves = not is_sidecar(container) and name in map(_resource_name, pod_spec.init_containers(pod))
        for resource, allocation in self.allocations.of_container(pod_uid, name).items():
            before = self._reusable.get(resource, set())
            self._reusable[resource] = before | allocation.ids if leaves else before - allocation.ids
        return given

    def collect(self) -> None:
        """Takes back the devices of pods that are gone."""
        if not self.sources_ready:
            return
        gone = self.allocations.pods() - self._active_pods()
        if gone:
            self.allocations.delete(gone)
            self._recount()

    def _free(self, resource: str, devices: Collection[str]) -> None:
        self._pending[resource].difference_update(devices)
        self._recount()

    def _recount(self) -> None:
        self.allocated = self.allocations.by_resource()
        for resource, devices in ({} if self._forgets_pending else self._pending).items():
            self.allocated.setdefault(resource, set()).update(devices)

    async def _allocate(self, pod: Object, container: Object) -> bool:
        pod_uid, mapped = pod_spec.uid_of(pod), pod_spec.mapped_resources(pod) if self._leaves_mapped else ()
        given = collected = False
        for resource, required in wanted(container):
            if (container["name"], resource) in mapped:
                continue
            if not self._inventory.offers(resource, self.allocated):
                continue
            if not collected:
                self.collect()
                collected = True
            devices = await self._choose(pod_uid, container["name"], resource, required)
            if devices:
                given = True
                pending = self._pending.setdefault(resource, set())
                pending.update(devices)
                try:
                    await self._give(pod_uid, container["name"], resource, devices)
                finally:
                    pending.difference_update(devices)
        return given

    async def _give(self, pod_uid: str, container: str, resource: str, devices: Collection[str]) -> None:
        endpoint = self._inventory.endpoints.get(resource)
        if endpoint is None:
            self._free(resource, devices)
            raise DeviceError(f"unknown Device Plugin {resource}")
        began = self._clock.monotonic()
        try:
            response = await endpoint.allocate(devices)
        except (RpcError, EndpointStoppedError) as error:
            self._free(resource, devices)
            raise DeviceError(str(error)) from error
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.device_plugin_alloc_duration.labels(resource).observe(seconds)
        if not response.container_responses:
            raise DeviceError(f"no containers return in allocation response {self._no_containers}")
        by_node = self._inventory.by_numa_node(resource, devices)
        allocation = Allocation(by_node, response.container_responses[0])
        self.allocations.insert(pod_uid, container, resource, allocation)

    async def _choose(self, pod_uid: str, container: str, resource: str, required: int) -> set[str]:
        """Chooses the devices to ask the plugin for; none if the container has what it needs. Raises
        DeviceError."""
        known = self.allocations.get(pod_uid, container, resource)
        if known is not None and len(known.ids) != required:
            raise DeviceError(
                f'pod "{pod_uid}" container "{container}" changed request for resource "{resource}" '
                f"from {len(known.ids)} to {required}"
            )
        if not self.sources_ready and (pod_uid, container) in self.running:
            return set()
        healthy = self._inventory.healthy.get(resource)
        if healthy is None:
            raise DeviceError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if known is not None and not known.ids <= healthy:
            text = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"
            raise DeviceError(f"{text} {resource}")
        if known is not None or not required:
            return set()
        return await self._pick(resource, required)

    async def _pick(self, resource: str, required: int) -> set[str]:
        """Takes `required` free devices: reusable ones first, then those that the plugin prefers. Raises
        DeviceError."""
        picked: set[str] = set()

        def take(devices: Collection[str]) -> bool:
            new = sorted(set(devices) - picked)[: required - len(picked)]
            self.allocated.setdefault(resource, set()).update(new)
            picked.update(new)
            return len(picked) == required

        if take(self._reusable.get(resource, ())):
            return picked
        available = self._inventory.healthy[resource] - self.allocated[resource]
        missing = required - len(picked)
        if len(available) < missing:
            raise DeviceError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        preferred = await self._preferred(resource, available | picked, picked, required)
        if not take(preferred & available):
            take(available)
        return picked

    async def _preferred(self, resource: str, among: set[str], included: set[str], size: int) -> set[str]:
        endpoint: Endpoint | None = self._inventory.endpoints.get(resource)
        if endpoint is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.prefers:
            return set()
        try:
            return set(await endpoint.preferred(among, included, size))
        except (RpcError, EndpointStoppedError) as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            raise DeviceError(text) from error


def wanted(container: Object) -> Iterator[tuple[str, int]]:
    """Pairs (resource, amount) come from the limits alone; requests of extended resources are the same."""
    limits = (container.get("resources") or {}).get("limits") or {}
    for resource in sorted(limits):
        yield resource, Quantity.parse(str(limits[resource])).value()


def _resource_name(container: Object) -> str:
    return str(container["name"])


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
        """True means that no kubelet ran here before; as upstream, the directory that one leaves shows it."""
        return self._is_new

    def restore(self, running: Collection[tuple[str, str]]) -> None:
        """Restores what the last kubelet left. `running`: (pod UID, container) of running containers."""
        self._files.make_directory(self._directory, 0o750)
        self._allocator.running = running
        try:
            found = pod_devices.read_checkpoint(self._files, self._directory)
        except UnreadableCheckpointError as error:
            log.error(pod_devices.UNREADABLE.format(error=error))
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
        """Called when the resource's plugin left, or its stream of devices ended."""
        self._inventory.disconnected(resource)
        self._surroundings.capacity_changed()

    def listed(self, resource: str, response: ListAndWatchResponse) -> None:
        changed = self._inventory.replace(resource, response.devices)
        if self._features.resource_health and changed:
            held = self._allocator.allocations
            by_name = self._features.health_by_device_name
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
        """A container that has all its devices keeps them without a call of the plugin."""
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
        return self._allocator.allocations.of_container(pod_uid, container)

    def healthy_devices(self) -> Mapping[str, list[Device]]:
        return self._inventory.healthy_devices()

    def collect(self) -> None:
        self._allocator.collect()

    def _save(self) -> None:
        registered = {name: sorted(devices) for name, devices in sorted(self._inventory.healthy.items())}
        pod_devices.write_checkpoint(self._files, self._directory, self._allocator.allocations, registered)
