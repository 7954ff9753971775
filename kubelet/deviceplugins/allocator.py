"""Allocates devices to containers: which ones, and the plugin's answer for them.

pkg/kubelet/cm/devicemanager/manager.go (Allocate, devicesToAllocate), with topology policy `none`. Where
upstream takes any device of a set, the first by name is taken.
"""

from collections.abc import Callable, Collection, Iterator

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.deviceplugins.allocations import Allocation, Allocations
from kubeskew.kubelet.deviceplugins.endpoint import Endpoint, EndpointStoppedError
from kubeskew.kubelet.deviceplugins.inventory import Inventory
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols.errors import RpcError


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
        """Begins with the allocations of a checkpoint."""
        self.allocations, self.allocated = allocations, allocations.by_resource()

    async def allocate(self, pod: Object, container: Object) -> bool:
        """Allocates what a container requests, init containers first; returns whether there was anything.

        Raises DeviceError; earlier allocations stay until the pod is gone.
        """
        pod_uid, name = pod_spec.uid_of(pod), container["name"]
        if pod_uid != self._reusable_of:
            self._reusable_of, self._reusable = pod_uid, {}
        given = await self._allocate(pod, container)
        leaves = not is_sidecar(container) and name in map(_name, pod_spec.init_containers(pod))
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
            self._count_anew()

    def _free(self, resource: str, devices: Collection[str]) -> None:
        self._pending[resource].difference_update(devices)
        self._count_anew()

    def _count_anew(self) -> None:
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
        """Returns the devices to ask the plugin for; none if the container has what it needs."""
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
        """Takes so many free devices and returns them."""
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
    """Yields (resource, amount) of a container's limits; requests of extended resources are the same."""
    limits = (container.get("resources") or {}).get("limits") or {}
    for resource in sorted(limits):
        yield resource, Quantity.parse(str(limits[resource])).value()


def _name(container: Object) -> str:
    return str(container["name"])
