"""The pod resources API on a node's socket: what its containers have for themselves, for monitoring agents.

It serves `PodResourcesLister` of v1, and the one method of v1alpha1.

Sources: pkg/kubelet/apis/podresources, pkg/kubelet/cm (devicemanager, container_manager_linux.go).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from kubeskew.apimachinery.client.workqueue import RateLimit
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints.memory_manager_state import Block
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.deviceplugins.pod_devices import NO_NUMA_NODE, Allocation
from kubeskew.kubelet.dra.claims import ClaimInfo, extended_claim, pod_claims
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import grpc_calls
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.messages import pod_resources_v1_pb2 as v1
from kubeskew.kubelet.protocols.messages import pod_resources_v1alpha1_pb2 as v1alpha1
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import Device

LIST = Unary("v1.PodResourcesLister", "List", v1.ListPodResourcesRequest, v1.ListPodResourcesResponse)
GET_ALLOCATABLE = Unary(
    "v1.PodResourcesLister",
    "GetAllocatableResources",
    v1.AllocatableResourcesRequest,
    v1.AllocatableResourcesResponse,
)
GET = Unary("v1.PodResourcesLister", "Get", v1.GetPodResourcesRequest, v1.GetPodResourcesResponse)
LIST_V1ALPHA1 = Unary(
    "v1alpha1.PodResourcesLister",
    "List",
    v1alpha1.ListPodResourcesRequest,
    v1alpha1.ListPodResourcesResponse,
)
FindClaim = Callable[[str, str], ClaimInfo | None]  # by namespace and name
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

SOCKET = "kubelet.sock"
_CALLS_PER_SECOND, _BURST = 100.0, 10  # calls of all clients together


class DevicesProvider(Protocol):
    """The device plugin manager, as far as this API needs it."""

    def collect(self) -> None: ...

    def devices_of(self, pod_uid: str, container: str) -> Mapping[str, Allocation]: ...

    def healthy_devices(self) -> Mapping[str, Sequence[Device]]: ...


class ManagersProvider(Protocol):
    """The managers of CPUs and memory, as far as this API needs them."""

    def cpus_of(self, pod: str, container: str) -> Sequence[int]: ...

    def memory_of(self, pod: str, container: str) -> Sequence[Block]: ...

    def allocatable_cpus(self) -> Sequence[int]: ...

    def allocatable_memory(self) -> Sequence[Block]: ...


class Lister:
    """Makes the messages for one node."""

    def __init__(
        self,
        features: KubeletFeatures,
        devices: DevicesProvider,
        find_claim: FindClaim,
        managers: ManagersProvider,
    ) -> None:
        self._features = features
        self._devices = devices
        self._find_claim = find_claim
        self._managers = managers

    def pods(self, pods: Iterable[Object]) -> list[v1.PodResources]:
        """Pods are sorted by namespace and name."""
        self._devices.collect()
        ordered = sorted(pods, key=lambda pod: (pod_spec.namespace_of(pod), pod_spec.name_of(pod)))
        return [self.pod(pod) for pod in ordered]

    def pod(self, pod: Object) -> v1.PodResources:
        found = v1.PodResources(name=pod_spec.name_of(pod), namespace=pod_spec.namespace_of(pod))
        for container in self._containers(pod):
            found.containers.append(self._container(pod, container))
        return found

    def allocatable(self) -> v1.AllocatableResourcesResponse:
        """Every healthy device is listed, taken or not."""
        response = v1.AllocatableResourcesResponse(
            cpu_ids=self._managers.allocatable_cpus(),
            memory=map(_memory, self._managers.allocatable_memory()),
        )
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
        place = pod_spec.uid_of(pod), container["name"]
        found = v1.ContainerResources(
            name=container["name"],
            cpu_ids=self._managers.cpus_of(*place),
            memory=map(_memory, self._managers.memory_of(*place)),
        )
        for resource, allocation in self._devices.devices_of(*place).items():
            for device in sorted(allocation.ids):
                nodes = [node for node, ids in allocation.devices.items() if device in ids]
                known = [node for node in nodes if node != NO_NUMA_NODE]
                found.devices.extend(_entries(resource, device, known))
        if self._features.pod_resources_dynamic_resources:
            found.dynamic_resources.extend(map(self._claim, self._claims(pod, container)))
        return found

    def _claims(self, pod: Object, container: Object) -> list[ClaimInfo]:
        """Claims that a container uses are listed, with that of extended resources; none of them if one is
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


def _memory(block: Block) -> v1.ContainerMemory:
    nodes = [v1.NUMANode(ID=node) for node in block["numaAffinity"]]
    topology = v1.TopologyInfo(nodes=nodes)
    return v1.ContainerMemory(memory_type=block["type"], size=block["size"], topology=topology)


def _entries(resource: str, device: str, numa_nodes: Sequence[int]) -> Iterator[v1.ContainerDevices]:
    """A device that is near to several NUMA nodes has an entry for each."""
    if not numa_nodes:
        yield v1.ContainerDevices(resource_name=resource, device_ids=[device])
    for node in numa_nodes:
        topology = v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)])
        yield v1.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)


class PodsProvider(Protocol):
    """The node's pods, with their newest statuses."""

    def pods(self) -> list[Object]: ...

    def active_pods(self) -> list[Object]: ...


class PodResourcesServer:
    def __init__(
        self,
        directory: Path,
        pods: PodsProvider,
        lister: Lister,
        features: KubeletFeatures,
        clock: Clock,
        metrics: KubeletMetrics,
    ) -> None:
        self._directory = directory
        self._pods = pods
        self._lister = lister
        self._features = features
        self._metrics = metrics
        self._limit = RateLimit(clock, _CALLS_PER_SECOND, _BURST) if features.pod_resources_limited else None
        self._server: Server | None = None

    async def start(self) -> None:
        """Starts to listen; raises OSError if the socket cannot be made."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        socket = self._directory / SOCKET
        socket.unlink(missing_ok=True)
        self._server = grpc_calls.new_server()
        LIST.serve(self._server, self._limited(self._list))
        GET_ALLOCATABLE.serve(self._server, self._limited(self._get_allocatable))
        GET.serve(self._server, self._limited(self._get))
        LIST_V1ALPHA1.serve(self._server, self._limited(self._list_v1alpha1))
        self._server.listen(socket)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def _list(self, _: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:
        self._metrics.pod_resources_requests.labels("v1").inc()
        self._metrics.pod_resources_lists.labels("v1").inc()
        pods = (
            self._pods.active_pods() if self._features.pod_resources_list_active_pods else self._pods.pods()
        )
        return v1.ListPodResourcesResponse(pod_resources=self._lister.pods(pods))

    async def _get_allocatable(self, _: v1.AllocatableResourcesRequest) -> v1.AllocatableResourcesResponse:
        self._metrics.pod_resources_requests.labels("v1").inc()
        self._metrics.pod_resources_get_allocatables.labels("v1").inc()
        return self._lister.allocatable()

    async def _get(self, request: v1.GetPodResourcesRequest) -> v1.GetPodResourcesResponse:
        self._metrics.pod_resources_requests.labels("v1").inc()
        self._metrics.pod_resources_gets.labels("v1").inc()
        if not self._features.pod_resources_get:
            raise self._get_failed("PodResources API Get method disabled")
        wanted = (request.pod_namespace, request.pod_name)
        for pod in self._pods.pods():
            if (pod_spec.namespace_of(pod), pod_spec.name_of(pod)) == wanted:
                return v1.GetPodResourcesResponse(pod_resources=self._lister.pod(pod))
        raise self._get_failed(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")

    def _get_failed(self, text: str) -> RpcError:
        self._metrics.pod_resources_get_errors.labels("v1").inc()
        return RpcError(grpc.StatusCode.UNKNOWN, text)

    async def _list_v1alpha1(self, _: v1alpha1.ListPodResourcesRequest) -> v1alpha1.ListPodResourcesResponse:
        """Only regular containers are listed, and devices as their only resources."""
        self._metrics.pod_resources_requests.labels("v1alpha1").inc()
        response = v1alpha1.ListPodResourcesResponse()
        pods = [{**pod, "spec": {**pod["spec"], "initContainers": []}} for pod in self._pods.pods()]
        for found in self._lister.pods(pods):
            entry = response.pod_resources.add(name=found.name, namespace=found.namespace)
            for container in found.containers:
                message = entry.containers.add(name=container.name)
                for devices in container.devices:
                    message.devices.add(resource_name=devices.resource_name, device_ids=devices.device_ids)
        return response

    def _limited(
        self, handle: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        limit = self._limit
        if limit is None:
            return handle

        async def limited(request: Request) -> Response:
            if not limit.allows():
                raise RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
            return await handle(request)

        return limited
