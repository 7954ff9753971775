"""Lists the resources of pods and of the node for the pod resources API (pkg/kubelet/apis/podresources,
cm/devicemanager).

CPUs and memory are not listed: with policy `none` no container has any of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.deviceplugins.allocations import NO_NUMA_NODE, Allocation
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.pod_claims import extended_claim, pod_claims
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import Device
from kubeskew.kubelet.protocols.pod_resources import v1

FindClaim = Callable[[str, str], ClaimInfo | None]  # by namespace and name


class DevicesProvider(Protocol):
    """The device plugin manager, as far as this API needs it."""

    def collect(self) -> None:
        """Takes back the devices of pods that are gone."""
        ...

    def devices_of(self, pod_uid: str, container: str) -> Mapping[str, Allocation]: ...

    def healthy_devices(self) -> Mapping[str, Sequence[Device]]: ...


class Lister:
    """Makes the messages for one node."""

    def __init__(self, features: KubeletFeatures, devices: DevicesProvider, find_claim: FindClaim) -> None:
        self._features = features
        self._devices = devices
        self._find_claim = find_claim

    def pods(self, pods: Iterable[Object]) -> list[v1.PodResources]:
        """Returns the resources of pods, by namespace and name."""
        self._devices.collect()
        ordered = sorted(pods, key=lambda pod: (pod_spec.namespace_of(pod), pod_spec.name_of(pod)))
        return [self.pod(pod) for pod in ordered]

    def pod(self, pod: Object) -> v1.PodResources:
        found = v1.PodResources(name=pod_spec.name_of(pod), namespace=pod_spec.namespace_of(pod))
        for container in self._containers(pod):
            found.containers.append(self._container(pod, container))
        return found

    def allocatable(self) -> v1.AllocatableResourcesResponse:
        """Returns every healthy device, taken or not."""
        response = v1.AllocatableResourcesResponse()
        for resource, devices in self._devices.healthy_devices().items():
            for device in devices:
                nodes = [node.ID for node in device.topology.nodes]
                response.devices.extend(_entries(resource, device.ID, nodes))
        return response

    def _containers(self, pod: Object) -> Iterator[Object]:
        if self._features.pod_resources_of_sidecars:
            yield from filter(is_sidecar, pod_spec.init_containers(pod))
        yield from pod_spec.containers(pod)

    def _container(self, pod: Object, container: Object) -> v1.ContainerResources:
        found = v1.ContainerResources(name=container["name"])
        for resource, allocation in self._devices.devices_of(pod_spec.uid_of(pod), container["name"]).items():
            for device in sorted(allocation.ids):
                nodes = [node for node, ids in allocation.devices.items() if device in ids]
                known = [node for node in nodes if node != NO_NUMA_NODE]
                found.devices.extend(_entries(resource, device, known))
        if self._features.pod_resources_dynamic_resources:
            found.dynamic_resources.extend(map(self._claim, self._claims(pod, container)))
        return found

    def _claims(self, pod: Object, container: Object) -> list[ClaimInfo]:
        """Returns the claims that a container uses, the extended-resource claim included; none if one is
        missing."""
        extended = self._features.extended_resources
        try:
            names = {claim.entry: claim.claim for claim in pod_claims(pod, extended=False)}
        except DeviceError:
            return []
        uses = (container.get("resources") or {}).get("claims") or []
        used = [name for entry, name in names.items() if name for use in uses if use["name"] == entry]
        claim_status = extended_claim(pod) if extended else None
        for mapping in (claim_status or {}).get("requestMappings") or []:
            if claim_status is not None and mapping["containerName"] == container["name"]:
                used.append(claim_status["resourceClaimName"])
                break
        found = [self._find_claim(pod_spec.namespace_of(pod), name) for name in used]
        known = [info for info in found if info is not None]
        return known if len(known) == len(found) else []

    def _claim(self, info: ClaimInfo) -> v1.DynamicResource:
        found = v1.DynamicResource(claim_name=info.name, claim_namespace=info.namespace)
        for driver, devices in info.devices.items():
            cdi_ids: list[str] = []
            for device in devices:
                # Upstream's list grows with each device of a driver.
                cdi_ids += device.cdi_ids
                entry = found.claim_resources.add(
                    driver_name=driver, pool_name=device.pool, device_name=device.device
                )
                for cdi_id in cdi_ids:
                    entry.cdi_devices.add(name=cdi_id)
                if device.share_id and self._features.pod_resources_of_shares:
                    entry.share_id = device.share_id
        return found


def _entries(resource: str, device: str, numa_nodes: Sequence[int]) -> Iterator[v1.ContainerDevices]:
    """Yields an entry per device and NUMA node that it is near to."""
    if not numa_nodes:
        yield v1.ContainerDevices(resource_name=resource, device_ids=[device])
    for node in numa_nodes:
        topology = v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)])
        yield v1.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)
