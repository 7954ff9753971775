"""Serves the pod resources API on a node's socket: v1, and the one method of v1alpha1."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.rate_limit import RateLimit
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.podresources.listing import Lister
from kubeskew.kubelet.protocols import calling, pod_resources
from kubeskew.kubelet.protocols.errors import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.pod_resources import v1, v1alpha1

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

SOCKET = "kubelet.sock"
_CALLS_PER_SECOND, _BURST = 100.0, 10  # calls of all clients together


class PodsProvider(Protocol):
    """The node's pods, with their newest statuses."""

    def pods(self) -> list[Object]: ...

    def active_pods(self) -> list[Object]: ...


class PodResourcesServer:
    """The server on one node's socket."""

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
        self._server = calling.new_server()
        pod_resources.LIST.serve(self._server, self._limited(self._list))
        pod_resources.GET_ALLOCATABLE.serve(self._server, self._limited(self._get_allocatable))
        pod_resources.GET.serve(self._server, self._limited(self._get))
        pod_resources.LIST_V1ALPHA1.serve(self._server, self._limited(self._list_v1alpha1))
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
        """Returns all pods, with regular containers only; devices are the only resources."""
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
