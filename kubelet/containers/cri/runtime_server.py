"""CRI's RuntimeService over a container runtime: what kubelets call to run their pods.

A container is created in the records first, and becomes one of the runtime when it is started. A runtime has
one sandbox per pod: when a pod gets another, the containers of the one before keep their last status.

Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto and pkg/kubelet/kuberuntime, 1.31 … 1.36; the texts of
errors are containerd's (from memory).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import grpc

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.containers.cri import conversion
from kubeskew.kubelet.containers.cri.log_files import LogFiles
from kubeskew.kubelet.containers.cri.records import ContainerRecord, Records, SandboxRecord
from kubeskew.kubelet.containers.runtime_faults import RuntimeFaults
from kubeskew.kubelet.containers.runtime_service import (
    OWN_STATUS,
    CommandTimeoutError,
    ContainerRuntimeError,
    ContainerStats,
    ImageService,
    RuntimeHandler,
    RuntimeService,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.device_managers import ContainerDevices, InjectionError
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

NAME, VERSION = "containerd", "2.1.0+kubeskew"  # as nodes show them
_STATES = messages.ContainerState
_FOREVER = 1e9
_NOTHING = ContainerStats(0.0, 0, 0, processes=0)


class Streaming(Protocol):
    """Makes the URLs at which streams of commands and ports are served."""

    def exec_url(self, sandbox: Sandbox, container: Container, request: messages.ExecRequest) -> str: ...

    def attach_url(self, sandbox: Sandbox, container: Container, request: messages.AttachRequest) -> str: ...

    def port_forward_url(self, sandbox: Sandbox, request: messages.PortForwardRequest) -> str: ...


# The annotations that say how a container of a pod is acted, by the pod's sandbox and the container's name.
Acted = Callable[[messages.PodSandboxConfig, str], Awaitable[Mapping[str, str]]]


async def not_acted(_sandbox: messages.PodSandboxConfig, _container: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The node of the service, and its kubelet.

    `here` leads from a path of the kubelet's to the one that this process has for it. `inject` resolves the
    names of CDI devices, or raises InjectionError.
    """

    inject: Callable[[Sequence[str]], ContainerDevices]
    here: conversion.HostPath = Path
    acted: Acted = not_acted


class RuntimeServer:
    """The service of one node. Call `load` first, and let `run` follow the containers."""

    def __init__(
        self,
        runtime: RuntimeService,
        images: ImageService,
        records: Records,
        streaming: Streaming,
        surroundings: Surroundings,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._records = records
        self._streaming = streaming
        self._surroundings = surroundings
        self._clock = clock
        self._entropy = entropy
        self._listeners: list[asyncio.Queue[messages.ContainerEventResponse]] = []
        self._waiting: dict[str, list[asyncio.Event]] = {}  # by the pod's UID, of those who wait for a change
        self._logs = LogFiles(runtime)
        runtime.on_change = self._changed

    async def load(self) -> None:
        """Takes up what runs. Raises ContainerRuntimeError."""
        await self._runtime.load()
        self._records.load()
        await self._adopt()
        for record in self._records.containers.values():
            found = self._running(record)
            if found is not None:
                self._follow_log(record, *found)

    async def _adopt(self) -> None:
        """Makes records of what an emulated kubelet has started: its pods go on."""
        known = {record.runtime_id for record in self._records.containers.values()}
        self._forget_removed()
        for sandbox in self._runtime.sandboxes():
            if sandbox.id not in self._records.sandboxes:
                created_at = conversion.nanoseconds(sandbox.created_at)
                request = conversion.adopted_sandbox(sandbox)
                self._records.keep_sandbox(SandboxRecord(sandbox.id, request, created_at))
            directory = self._records.sandboxes[sandbox.id].request.log_directory
            for container in sandbox.containers:
                if container.id in known or container.id in self._records.removed:
                    continue
                asked = conversion.adopted_container(sandbox, container)
                image = await self._images.image(container.image)
                started_at = conversion.nanoseconds(container.started_at)
                status = conversion.created_container(
                    container.id, asked, f"{directory}/{asked.log_path}", started_at, image
                )
                conversion.follow(status, container, self._clock.now())
                self._records.keep_container(
                    ContainerRecord(container.id, sandbox.id, asked, status, container.id)
                )

    async def run(self) -> None:
        """Follows the containers until cancelled; they go on. Ends at once where nothing has to be."""
        await self._runtime.run()

    async def close(self) -> None:
        """Writes no output any more."""
        await self._logs.close()

    def serve(self, server: Server, faults: RuntimeFaults | None = None) -> None:
        """Adds the service's methods to a gRPC server; calls of them meet the faults first."""
        methods: Mapping[str, Callable[[Any], Any]] = {
            "Version": self.version,
            "Status": self.status,
            "RuntimeConfig": self.runtime_config,
            "UpdateRuntimeConfig": self.update_runtime_config,
            "RunPodSandbox": self.run_pod_sandbox,
            "StopPodSandbox": self.stop_pod_sandbox,
            "RemovePodSandbox": self.remove_pod_sandbox,
            "PodSandboxStatus": self.pod_sandbox_status,
            "ListPodSandbox": self.list_pod_sandbox,
            "CreateContainer": self.create_container,
            "StartContainer": self.start_container,
            "StopContainer": self.stop_container,
            "RemoveContainer": self.remove_container,
            "ContainerStatus": self.container_status,
            "ListContainers": self.list_containers,
            "UpdateContainerResources": self.update_container_resources,
            "UpdatePodSandboxResources": self.update_pod_sandbox_resources,
            "ReopenContainerLog": self.reopen_container_log,
            "ExecSync": self.exec_sync,
            "Exec": self.exec,
            "Attach": self.attach,
            "PortForward": self.port_forward,
            "ContainerStats": self.container_stats,
            "ListContainerStats": self.list_container_stats,
            "PodSandboxStats": self.pod_sandbox_stats,
            "ListPodSandboxStats": self.list_pod_sandbox_stats,
            "ListMetricDescriptors": self.list_metric_descriptors,
            "ListPodSandboxMetrics": self.list_pod_sandbox_metrics,
        }
        for verb, method in cri.RUNTIME_METHODS.items():
            handle = methods[verb] if faults is None else self._faulty(faults, verb, methods[verb])
            method.serve(server, handle)
        cri.CONTAINER_EVENTS.serve(server, self.container_events)

    def _faulty(
        self, faults: RuntimeFaults, verb: str, handle: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        async def answered(request: Any) -> Any:
            return await faults.call(verb, lambda: handle(request), *self._pod_of(verb, request))

        return answered

    def _pod_of(self, verb: str, request: Any) -> tuple[str, str]:
        """(namespace, name) of the pod that a request is about; empty for none."""
        if verb == "RunPodSandbox":
            return request.config.metadata.namespace, request.config.metadata.name
        container = _by_prefix(self._records.containers, getattr(request, "container_id", ""))
        identifier = container.sandbox if container is not None else getattr(request, "pod_sandbox_id", "")
        sandbox = _by_prefix(self._records.sandboxes, identifier)
        metadata = sandbox.request.metadata if sandbox is not None else messages.PodSandboxMetadata()
        return metadata.namespace, metadata.name

    # -- the runtime itself

    async def version(self, _request: messages.VersionRequest) -> messages.VersionResponse:
        return messages.VersionResponse(
            version="0.1.0", runtime_name=NAME, runtime_version=VERSION, runtime_api_version="v1"
        )

    async def status(self, _request: messages.StatusRequest) -> messages.StatusResponse:
        ready = [
            messages.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")
        ]
        return messages.StatusResponse(
            status=messages.RuntimeStatus(conditions=ready),
            runtime_handlers=[_handler(each) for each in OWN_STATUS.handlers],
            features=messages.RuntimeFeatures(
                supplemental_groups_policy=OWN_STATUS.supplemental_groups_policy or False
            ),
        )

    async def runtime_config(self, _request: messages.RuntimeConfigRequest) -> messages.RuntimeConfigResponse:
        linux = messages.LinuxRuntimeConfiguration(cgroup_driver=messages.CgroupDriver.CGROUPFS)
        return messages.RuntimeConfigResponse(linux=linux)

    async def update_runtime_config(
        self, _request: messages.UpdateRuntimeConfigRequest
    ) -> messages.UpdateRuntimeConfigResponse:
        """Takes no note of the pod CIDR: the node's network has its own."""
        return messages.UpdateRuntimeConfigResponse()

    # -- sandboxes

    async def run_pod_sandbox(self, request: messages.RunPodSandboxRequest) -> messages.RunPodSandboxResponse:
        before = self._runtime.sandbox(request.config.metadata.uid)
        if before is not None:
            self._keep_last_statuses(before.id)
        with _refusals():
            config = conversion.sandbox_config(request.config, self._surroundings.here)
            sandbox = await self._runtime.run_pod_sandbox(config)
        created_at = conversion.nanoseconds(sandbox.created_at)
        self._records.keep_sandbox(SandboxRecord(sandbox.id, request.config, created_at))
        return messages.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    async def stop_pod_sandbox(
        self, request: messages.StopPodSandboxRequest
    ) -> messages.StopPodSandboxResponse:
        """Stops what is there; one that is gone has been stopped."""
        record = self._records.sandboxes.get(request.pod_sandbox_id)
        sandbox = self._sandbox(record) if record is not None else None
        if record is not None and sandbox is not None:
            await self._runtime.stop_pod_sandbox(sandbox)
            self._announce(record.id, messages.ContainerEventType.CONTAINER_STOPPED_EVENT)
        return messages.StopPodSandboxResponse()

    async def remove_pod_sandbox(
        self, request: messages.RemovePodSandboxRequest
    ) -> messages.RemovePodSandboxResponse:
        record = self._records.sandboxes.get(request.pod_sandbox_id)
        if record is None:
            return messages.RemovePodSandboxResponse()
        sandbox = self._sandbox(record)
        if sandbox is not None:
            await self._runtime.stop_pod_sandbox(sandbox)
            await self._runtime.remove_pod_sandbox(record.pod_uid)
        for container in self._records.containers_of(record.id):
            self._records.drop_container(container.id)
        self._records.drop_sandbox(record.id)
        self._forget_removed()
        return messages.RemovePodSandboxResponse()

    async def pod_sandbox_status(
        self, request: messages.PodSandboxStatusRequest
    ) -> messages.PodSandboxStatusResponse:
        record = self._sandbox_record(request.pod_sandbox_id)
        return messages.PodSandboxStatusResponse(
            status=self._sandbox_status(record),
            containers_statuses=[
                self._status(container) for container in self._records.containers_of(record.id)
            ],
            timestamp=conversion.nanoseconds(self._clock.now()),
        )

    async def list_pod_sandbox(
        self, request: messages.ListPodSandboxRequest
    ) -> messages.ListPodSandboxResponse:
        wanted = request.filter
        listed = [
            status
            for status in map(self._sandbox_status, self._records.sandboxes.values())
            if (not wanted.id or status.id.startswith(wanted.id))
            and (not wanted.HasField("state") or status.state == wanted.state.state)
            and conversion.selects(wanted.label_selector, status.labels)
        ]
        return messages.ListPodSandboxResponse(items=map(conversion.listed_sandbox, listed))

    async def update_pod_sandbox_resources(
        self, request: messages.UpdatePodSandboxResourcesRequest
    ) -> messages.UpdatePodSandboxResourcesResponse:
        """Tells containerd's plugins of a pod's resources; there are none here."""
        self._sandbox_record(request.pod_sandbox_id)
        return messages.UpdatePodSandboxResourcesResponse()

    # -- containers

    async def create_container(
        self, request: messages.CreateContainerRequest
    ) -> messages.CreateContainerResponse:
        sandbox = self._sandbox_record(request.pod_sandbox_id)
        config = request.config
        image = await self._images.image(config.image.image) or await self._images.image(
            config.image.user_specified_image
        )
        if image is None:
            text = f"failed to create containerd container: image {config.image.image!r}: not found"
            raise RpcError(grpc.StatusCode.NOT_FOUND, text.replace("'", '"'))
        self._injected(config)
        identifier = (self._entropy.uid() + self._entropy.uid()).replace("-", "")
        path = Path(sandbox.request.log_directory, config.log_path).as_posix() if config.log_path else ""
        now = conversion.nanoseconds(self._clock.now())
        status = conversion.created_container(identifier, config, path, now, image)
        self._records.keep_container(ContainerRecord(identifier, sandbox.id, config, status))
        self._announce(identifier, messages.ContainerEventType.CONTAINER_CREATED_EVENT)
        return messages.CreateContainerResponse(container_id=identifier)

    async def start_container(
        self, request: messages.StartContainerRequest
    ) -> messages.StartContainerResponse:
        record = self._container_record(request.container_id)
        sandbox = self._sandbox(self._sandbox_record(record.sandbox))
        if record.runtime_id or sandbox is None:
            state = _STATES.Name(self._status(record).state)
            text = f"failed to set starting state for container {record.id!r}: container is in {state} state"
            raise RpcError(grpc.StatusCode.UNKNOWN, text.replace("'", '"'))
        with _refusals():
            config = conversion.container_config(
                *(record.id, record.request, self._surroundings.here, self._injected(record.request)),
                await self._acted(record),
            )
            container = await self._runtime.start_container(sandbox, config)
        record.runtime_id = container.id
        conversion.follow(record.status, container, self._clock.now())
        if container.reason == "StartError":
            self._records.keep_container(record)
            raise RpcError(grpc.StatusCode.UNKNOWN, container.message)
        self._records.keep_container(record)
        self._follow_log(record, sandbox, container)
        self._announce(record.id, messages.ContainerEventType.CONTAINER_STARTED_EVENT)
        return messages.StartContainerResponse()

    async def stop_container(self, request: messages.StopContainerRequest) -> messages.StopContainerResponse:
        """Returns once the container has ended; one that is gone has been stopped."""
        record = self._records.containers.get(request.container_id)
        found = self._running(record) if record is not None else None
        if record is not None and found is not None:
            self._runtime.stop_container(*found, float(request.timeout))
            await self._until_ended(*found)
            self._announce(record.id, messages.ContainerEventType.CONTAINER_STOPPED_EVENT)
        return messages.StopContainerResponse()

    async def remove_container(
        self, request: messages.RemoveContainerRequest
    ) -> messages.RemoveContainerResponse:
        record = self._records.containers.get(request.container_id)
        if record is None:
            return messages.RemoveContainerResponse()
        found = self._running(record)
        if found is not None:
            self._runtime.stop_container(*found, 0.0)
            await self._until_ended(*found)
        self._records.drop_container(record.id)
        self._announce(record.id, messages.ContainerEventType.CONTAINER_DELETED_EVENT)
        return messages.RemoveContainerResponse()

    async def container_status(
        self, request: messages.ContainerStatusRequest
    ) -> messages.ContainerStatusResponse:
        record = self._container_record(request.container_id)
        return messages.ContainerStatusResponse(status=self._status(record))

    async def list_containers(
        self, request: messages.ListContainersRequest
    ) -> messages.ListContainersResponse:
        wanted = request.filter
        listed = [
            conversion.listed_container(status, record.sandbox)
            for record in self._records.containers.values()
            for status in (self._status(record),)
            if (not wanted.id or status.id.startswith(wanted.id))
            and (not wanted.HasField("state") or status.state == wanted.state.state)
            and (not wanted.pod_sandbox_id or record.sandbox.startswith(wanted.pod_sandbox_id))
            and conversion.selects(wanted.label_selector, status.labels)
        ]
        return messages.ListContainersResponse(containers=listed)

    async def update_container_resources(
        self, request: messages.UpdateContainerResourcesRequest
    ) -> messages.UpdateContainerResourcesResponse:
        record = self._container_record(request.container_id)
        found = self._running(record)
        if found is not None:
            with _refusals():
                annotations = {**record.request.annotations, **await self._acted(record)}
                await self._runtime.update_resources(*found, conversion.resources(request.linux), annotations)
        record.status.resources.linux.MergeFrom(request.linux)
        self._records.keep_container(record)
        return messages.UpdateContainerResourcesResponse()

    async def reopen_container_log(
        self, request: messages.ReopenContainerLogRequest
    ) -> messages.ReopenContainerLogResponse:
        record = self._container_record(request.container_id)
        found = self._running(record)
        if found is None:
            raise RpcError(grpc.StatusCode.UNKNOWN, "container is not running")
        with _refusals():
            await self._runtime.reopen_log(*found)
        self._logs.reopen(record.runtime_id)
        return messages.ReopenContainerLogResponse()

    # -- within containers

    async def exec_sync(self, request: messages.ExecSyncRequest) -> messages.ExecSyncResponse:
        sandbox, container = self._must_run(request.container_id)
        seconds = float(request.timeout) or _FOREVER
        try:
            with _refusals():
                result = await self._runtime.exec_sync(sandbox, container, [*request.cmd], seconds)
        except CommandTimeoutError:
            text = (
                f"failed to exec in container: timeout {request.timeout}s exceeded: context deadline exceeded"
            )
            raise RpcError(grpc.StatusCode.DEADLINE_EXCEEDED, text) from None
        return messages.ExecSyncResponse(
            stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code
        )

    async def exec(self, request: messages.ExecRequest) -> messages.ExecResponse:
        found = self._must_run(request.container_id)
        return messages.ExecResponse(url=self._streaming.exec_url(*found, request))

    async def attach(self, request: messages.AttachRequest) -> messages.AttachResponse:
        found = self._must_run(request.container_id)
        return messages.AttachResponse(url=self._streaming.attach_url(*found, request))

    async def port_forward(self, request: messages.PortForwardRequest) -> messages.PortForwardResponse:
        record = self._sandbox_record(request.pod_sandbox_id)
        sandbox = self._sandbox(record)
        if sandbox is None or not sandbox.ready:
            raise RpcError(grpc.StatusCode.UNKNOWN, f'sandbox container "{record.id}" is not running')
        return messages.PortForwardResponse(url=self._streaming.port_forward_url(sandbox, request))

    # -- use

    async def container_stats(
        self, request: messages.ContainerStatsRequest
    ) -> messages.ContainerStatsResponse:
        record = self._container_record(request.container_id)
        return messages.ContainerStatsResponse(stats=self._stats(record))

    async def list_container_stats(
        self, request: messages.ListContainerStatsRequest
    ) -> messages.ListContainerStatsResponse:
        wanted = request.filter
        stats = [
            self._stats(record)
            for record in self._records.containers.values()
            if self._running(record) is not None
            and (not wanted.id or record.id == wanted.id)
            and (not wanted.pod_sandbox_id or record.sandbox == wanted.pod_sandbox_id)
            and conversion.selects(wanted.label_selector, record.request.labels)
        ]
        return messages.ListContainerStatsResponse(stats=stats)

    async def pod_sandbox_stats(
        self, request: messages.PodSandboxStatsRequest
    ) -> messages.PodSandboxStatsResponse:
        record = self._sandbox_record(request.pod_sandbox_id)
        return messages.PodSandboxStatsResponse(stats=self._sandbox_stats(record))

    async def list_pod_sandbox_stats(
        self, request: messages.ListPodSandboxStatsRequest
    ) -> messages.ListPodSandboxStatsResponse:
        wanted = request.filter
        stats = [
            self._sandbox_stats(record)
            for record in self._records.sandboxes.values()
            if (not wanted.id or record.id == wanted.id)
            and conversion.selects(wanted.label_selector, record.request.labels)
        ]
        return messages.ListPodSandboxStatsResponse(stats=stats)

    async def list_metric_descriptors(
        self, _request: messages.ListMetricDescriptorsRequest
    ) -> messages.ListMetricDescriptorsResponse:
        return messages.ListMetricDescriptorsResponse()

    async def list_pod_sandbox_metrics(
        self, _request: messages.ListPodSandboxMetricsRequest
    ) -> messages.ListPodSandboxMetricsResponse:
        return messages.ListPodSandboxMetricsResponse()

    # -- events

    async def container_events(
        self, _request: messages.GetEventsRequest
    ) -> AsyncIterator[messages.ContainerEventResponse]:
        """Yields what happens to containers from now on."""
        queue: asyncio.Queue[messages.ContainerEventResponse] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue)

    def _changed(self, pod_uid: str) -> None:
        """Notes and announces the containers of a pod that have ended by themselves."""
        sandbox = self._runtime.sandbox(pod_uid)
        for record in self._records.containers_of(sandbox.id) if sandbox is not None else ():
            if record.status.state == _STATES.CONTAINER_RUNNING and self._running(record) is None:
                self._status(record)
                self._announce(record.id, messages.ContainerEventType.CONTAINER_STOPPED_EVENT)
        for changed in self._waiting.get(pod_uid, ()):
            changed.set()

    def _announce(self, identifier: str, kind: messages.ContainerEventType) -> None:
        if not self._listeners:
            return
        container = self._records.containers.get(identifier)
        sandbox = self._records.sandboxes.get(container.sandbox if container is not None else identifier)
        event = messages.ContainerEventResponse(
            container_id=identifier,
            container_event_type=kind,
            created_at=conversion.nanoseconds(self._clock.now()),
        )
        if sandbox is not None:
            event.pod_sandbox_status.CopyFrom(self._sandbox_status(sandbox))
            event.containers_statuses.extend(map(self._status, self._records.containers_of(sandbox.id)))
        for queue in self._listeners:
            queue.put_nowait(event)

    def _injected(self, config: messages.ContainerConfig) -> ContainerDevices:
        names = [device.name for device in config.CDI_devices]
        try:
            return self._surroundings.inject(names)
        except InjectionError as error:
            raise_unknown(str(error), error)

    async def _acted(self, record: ContainerRecord) -> Mapping[str, str]:
        of_pod = self._sandbox_record(record.sandbox).request
        return await self._surroundings.acted(of_pod, record.request.metadata.name)

    def _follow_log(self, record: ContainerRecord, sandbox: Sandbox, container: Container) -> None:
        if record.status.log_path:
            self._logs.follow(sandbox, container, self._surroundings.here(record.status.log_path))

    # -- records and what the runtime has of them

    def _forget_removed(self) -> None:
        kept = {one.id for each in self._runtime.sandboxes() for one in each.containers}
        self._records.forget_removed(kept)

    def _sandbox_record(self, identifier: str) -> SandboxRecord:
        record = _by_prefix(self._records.sandboxes, identifier)
        if record is None:
            text = f"an error occurred when try to find sandbox {identifier!r}: not found"
            raise RpcError(grpc.StatusCode.NOT_FOUND, text.replace("'", '"'))
        found: SandboxRecord = record
        return found

    def _container_record(self, identifier: str) -> ContainerRecord:
        record = _by_prefix(self._records.containers, identifier)
        if record is None:
            text = f"an error occurred when try to find container {identifier!r}: not found"
            raise RpcError(grpc.StatusCode.NOT_FOUND, text.replace("'", '"'))
        found: ContainerRecord = record
        return found

    def _sandbox(self, record: SandboxRecord) -> Sandbox | None:
        """None if the runtime has another sandbox for the pod, or none."""
        sandbox = self._runtime.sandbox(record.pod_uid)
        return sandbox if sandbox is not None and sandbox.id == record.id else None

    def _container(self, record: ContainerRecord) -> tuple[Sandbox, Container] | None:
        """None if the runtime does not have it: it was not started, or has been forgotten."""
        of_pod = self._records.sandboxes.get(record.sandbox)
        sandbox = self._sandbox(of_pod) if of_pod is not None else None
        if sandbox is None or not record.runtime_id:
            return None
        found = next((one for one in sandbox.containers if one.id == record.runtime_id), None)
        return (sandbox, found) if found is not None else None

    def _running(self, record: ContainerRecord) -> tuple[Sandbox, Container] | None:
        found = self._container(record)
        return found if found is not None and found[1].running(self._clock.now()) else None

    def _must_run(self, identifier: str) -> tuple[Sandbox, Container]:
        record = self._container_record(identifier)
        found = self._running(record)
        if found is None:
            state = _STATES.Name(self._status(record).state)
            raise RpcError(grpc.StatusCode.UNKNOWN, f"container is in {state} state")
        return found

    def _sandbox_status(self, record: SandboxRecord) -> messages.PodSandboxStatus:
        return conversion.sandbox_status(record.id, record.request, self._sandbox(record), record.created_at)

    def _status(self, record: ContainerRecord) -> messages.ContainerStatus:
        """The status now; what has ended is kept, so that it stays when the runtime forgets it."""
        before = record.status.state
        found = self._container(record)
        if found is not None:
            conversion.follow(record.status, found[1], self._clock.now())
        elif before == _STATES.CONTAINER_RUNNING:  # lost with the runtime's own records
            record.status.state = _STATES.CONTAINER_UNKNOWN
        if record.status.state != before:
            self._records.keep_container(record)
        return record.status

    def _keep_last_statuses(self, sandbox: str) -> None:
        for record in self._records.containers_of(sandbox):
            self._status(record)

    async def _until_ended(self, sandbox: Sandbox, container: Container) -> None:
        """Waits for a container whose end may be known beforehand, or comes as a change."""
        changed = asyncio.Event()
        waiting = self._waiting.setdefault(sandbox.pod_uid, [])
        waiting.append(changed)
        try:
            while container.running(self._clock.now()):
                if container.ends_at is not None:
                    await self._clock.sleep((container.ends_at - self._clock.now()).total_seconds())
                else:
                    await changed.wait()
                changed.clear()
        finally:
            waiting.remove(changed)
            if not waiting:
                self._waiting.pop(sandbox.pod_uid, None)

    def _stats(self, record: ContainerRecord) -> messages.ContainerStats:
        found = self._running(record)
        used = self._runtime.stats(*found) if found is not None else _NOTHING
        return conversion.container_stats(record.status, used, self._clock.now())

    def _sandbox_stats(self, record: SandboxRecord) -> messages.PodSandboxStats:
        running = [one for one in self._records.containers_of(record.id) if self._running(one) is not None]
        stats = [self._stats(one) for one in running]
        at = conversion.nanoseconds(self._clock.now())

        def total(values: Sequence[int]) -> messages.UInt64Value:
            return messages.UInt64Value(value=sum(values))

        linux = messages.LinuxPodSandboxStats(
            cpu=messages.CpuUsage(
                timestamp=at,
                usage_core_nano_seconds=total([one.cpu.usage_core_nano_seconds.value for one in stats]),
                usage_nano_cores=total([one.cpu.usage_nano_cores.value for one in stats]),
            ),
            memory=messages.MemoryUsage(
                timestamp=at,
                working_set_bytes=total([one.memory.working_set_bytes.value for one in stats]),
            ),
            containers=stats,
        )
        attributes = messages.PodSandboxAttributes(
            id=record.id,
            metadata=record.request.metadata,
            labels=record.request.labels,
            annotations=record.request.annotations,
        )
        return messages.PodSandboxStats(attributes=attributes, linux=linux)


def _by_prefix(records: Mapping[str, Any], identifier: str) -> Any:
    """The record of an id, or of the only one that begins with it, as containerd takes shortened ids."""
    if identifier in records:
        return records[identifier]
    found = [record for name, record in records.items() if identifier and name.startswith(identifier)]
    return found[0] if len(found) == 1 else None


@contextlib.contextmanager
def _refusals() -> Any:
    """Raises the runtime's refusal, whose text is whole, as gRPC's Unknown: containerd has no code for it."""
    try:
        yield
    except CommandTimeoutError:
        raise
    except ContainerRuntimeError as error:
        raise_unknown(str(error), error)


def raise_unknown(text: str, error: Exception) -> NoReturn:
    raise RpcError(grpc.StatusCode.UNKNOWN, text) from error


def _handler(handler: RuntimeHandler) -> messages.RuntimeHandler:
    features = messages.RuntimeHandlerFeatures(
        recursive_read_only_mounts=handler.recursive_read_only_mounts,
        user_namespaces=handler.user_namespaces,
    )
    return messages.RuntimeHandler(name=handler.name, features=features)
