"""A container runtime of the machine in memory, whose calls take time and fail as a seed draws it.

Each call has its effect at some moment within the time that it takes; one that fails may have had it.
"""

import asyncio
import random

import grpc

from kubeskew.kubelet.containers.remote.calls import SECONDS, RuntimeCalls
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

BILLION = 1_000_000_000


def unavailable():
    return RpcError(grpc.StatusCode.UNAVAILABLE, "drawn")


def absent(identifier):
    return RpcError(grpc.StatusCode.NOT_FOUND, f"{identifier}: not found")


class DrawnCalls:
    """Calls of one node to its runtime. Without a seed they take no time and succeed.

    `refused` has the errors of calls by (verb, id), `before` and `after` what is awaited at a call of a verb,
    before and after its effect.
    """

    endpoint = "unix:///drawn.sock"
    check = RuntimeCalls.check

    def __init__(self, clock, seed=None, *, error_rate=0.15):
        self.clock = clock
        self.drawn = random.Random(seed) if seed is not None else None
        self.error_rate = error_rate
        self.sandboxes, self.containers = {}, {}  # statuses by id
        self.refused, self.before, self.after = {}, {}, {}
        self.made = []  # (verb, id)
        self._ids = 0

    def is_quiet(self):
        """Has calls take no time and succeed from now on."""
        self.drawn = None

    async def call(self, verb, request, seconds=SECONDS):
        identifier = getattr(request, "pod_sandbox_id", "") or getattr(request, "container_id", "")
        self.made.append((verb, identifier))
        if verb in self.before:
            await self.before[verb](request)
        await self._pass(verb)
        if (verb, identifier) in self.refused:
            raise self.refused[verb, identifier]
        answer = getattr(self, verb)(request)
        if verb in self.after:
            await self.after[verb](request)
        await self._pass(verb)
        return answer

    async def _pass(self, verb):
        if self.drawn is None:
            return
        await asyncio.sleep(self.drawn.choice((0, 0.01, 0.1, 1.5)))
        if self.drawn is not None and verb != "Version" and self.drawn.random() < self.error_rate:
            raise unavailable()

    async def close(self):
        pass

    def _made(self, kind):
        self._ids += 1
        return f"{kind}{self._ids}", int(self.clock.now().timestamp()) * BILLION + self._ids

    def _of(self, found, identifier):
        if identifier not in found:
            raise absent(identifier)
        return found[identifier]

    # -- what calls do

    def Version(self, request):  # noqa: N802 - a verb of CRI
        return messages.VersionResponse(
            version="0.1.0", runtime_name="drawn", runtime_version="1", runtime_api_version="v1"
        )

    def Status(self, request):  # noqa: N802
        conditions = [
            messages.RuntimeCondition(type=t, status=True) for t in ("RuntimeReady", "NetworkReady")
        ]
        return messages.StatusResponse(status=messages.RuntimeStatus(conditions=conditions))

    def ImageStatus(self, request):  # noqa: N802
        return messages.ImageStatusResponse(image=messages.Image(id="sha256:1", repo_tags=["busybox"]))

    def ListPodSandbox(self, request):  # noqa: N802
        wanted = dict(request.filter.label_selector)
        items = [
            messages.PodSandbox(
                id=one.id,
                metadata=one.metadata,
                state=one.state,
                created_at=one.created_at,
                labels=one.labels,
            )
            for one in self.sandboxes.values()
            if wanted.items() <= dict(one.labels).items()
        ]
        return messages.ListPodSandboxResponse(items=items)

    def ListContainers(self, request):  # noqa: N802
        wanted = dict(request.filter.label_selector)
        containers = [
            messages.Container(
                id=one.id, pod_sandbox_id=sandbox, metadata=one.metadata, state=one.state,
                created_at=one.created_at, labels=one.labels,
            )
            for sandbox, one in self.containers.values()
            if wanted.items() <= dict(one.labels).items()
        ]  # fmt: skip
        return messages.ListContainersResponse(containers=containers)

    def PodSandboxStatus(self, request):  # noqa: N802
        status = messages.PodSandboxStatus()
        status.CopyFrom(self._of(self.sandboxes, request.pod_sandbox_id))
        return messages.PodSandboxStatusResponse(status=status)

    def ContainerStatus(self, request):  # noqa: N802
        status = messages.ContainerStatus()
        status.CopyFrom(self._of(self.containers, request.container_id)[1])
        return messages.ContainerStatusResponse(status=status)

    def RunPodSandbox(self, request):  # noqa: N802
        identifier, created_at = self._made("s")
        self.sandboxes[identifier] = messages.PodSandboxStatus(
            id=identifier, metadata=request.config.metadata, created_at=created_at,
            labels=request.config.labels, network=messages.PodSandboxNetworkStatus(ip=f"10.0.0.{self._ids}"),
        )  # fmt: skip
        return messages.RunPodSandboxResponse(pod_sandbox_id=identifier)

    def StopPodSandbox(self, request):  # noqa: N802
        if request.pod_sandbox_id in self.sandboxes:
            self.sandboxes[request.pod_sandbox_id].state = messages.PodSandboxState.SANDBOX_NOTREADY
        for sandbox, one in self.containers.values():
            if sandbox == request.pod_sandbox_id:
                self.end(one, 137)
        return messages.StopPodSandboxResponse()

    def RemovePodSandbox(self, request):  # noqa: N802
        self.sandboxes.pop(request.pod_sandbox_id, None)
        gone = [key for key, (sandbox, _) in self.containers.items() if sandbox == request.pod_sandbox_id]
        for key in gone:
            del self.containers[key]
        return messages.RemovePodSandboxResponse()

    def CreateContainer(self, request):  # noqa: N802
        self._of(self.sandboxes, request.pod_sandbox_id)
        identifier, created_at = self._made("c")
        config = request.config
        status = messages.ContainerStatus(
            id=identifier, metadata=config.metadata, created_at=created_at, labels=config.labels,
            annotations=config.annotations, image=messages.ImageSpec(image="busybox"),
        )  # fmt: skip
        self.containers[identifier] = request.pod_sandbox_id, status
        return messages.CreateContainerResponse(container_id=identifier)

    def StartContainer(self, request):  # noqa: N802
        status = self._of(self.containers, request.container_id)[1]
        status.state = messages.ContainerState.CONTAINER_RUNNING
        status.started_at = int(self.clock.now().timestamp()) * BILLION
        return messages.StartContainerResponse()

    def StopContainer(self, request):  # noqa: N802
        if request.container_id in self.containers:
            self.end(self.containers[request.container_id][1], 143)
        return messages.StopContainerResponse()

    def RemoveContainer(self, request):  # noqa: N802
        self.containers.pop(request.container_id, None)
        return messages.RemoveContainerResponse()

    def ReopenContainerLog(self, request):  # noqa: N802
        return messages.ReopenContainerLogResponse()

    def end(self, status, code):
        """Ends a container, as its program does."""
        if status.state != messages.ContainerState.CONTAINER_EXITED:
            status.state = messages.ContainerState.CONTAINER_EXITED
            status.exit_code = code
            status.finished_at = int(self.clock.now().timestamp()) * BILLION
