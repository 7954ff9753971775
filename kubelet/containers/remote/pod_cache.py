"""The pods of one node as their runtime has them: lists now and then, and statuses of what has changed.

The kubelet's own calls change pods, too. What a list said before such a call, or while it ran, counts for
nothing: the pod is looked at again.

Source: pkg/kubelet/pleg/generic.go, and pkg/kubelet/kuberuntime (kuberuntime_manager.go, GetPodStatus), 1.36.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import grpc

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.remote.calls import RuntimeCalls
from kubeskew.kubelet.containers.remote.records import STATES, container_of, follow, is_ready, moment
from kubeskew.kubelet.containers.remote.requests import CONTAINER_NAME, NODE, POD_UID
from kubeskew.kubelet.containers.sandbox import Sandbox
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_SANDBOXES, _CONTAINERS = "sandboxes", "containers"


class RequestFiles:
    """Keeps the requests by which sandboxes and containers were made, in a file for each."""

    def __init__(self, directory: Path, files: StateFiles) -> None:
        self._directory = directory
        self._files = files

    def keep(self, request: messages.PodSandboxConfig | messages.ContainerConfig, identifier: str) -> None:
        """On disk when it returns."""
        kind = _SANDBOXES if isinstance(request, messages.PodSandboxConfig) else _CONTAINERS
        self._files.write(self._directory / kind / identifier, request.SerializeToString())

    def sandbox(self, identifier: str) -> messages.PodSandboxConfig:
        """Empty if it is not known."""
        content = self._files.read(self._directory / _SANDBOXES / identifier) or b""
        return messages.PodSandboxConfig.FromString(content)

    def container(self, identifier: str) -> messages.ContainerConfig:
        """Empty if it is not known."""
        content = self._files.read(self._directory / _CONTAINERS / identifier) or b""
        return messages.ContainerConfig.FromString(content)

    def drop(self, identifiers: Sequence[str]) -> None:
        for kind in (_SANDBOXES, _CONTAINERS):
            for identifier in identifiers:
                self._files.remove(self._directory / kind / identifier)

    def kept(self) -> list[Path]:
        """The files that are there now."""
        return [
            path for kind in (_SANDBOXES, _CONTAINERS) for path in sorted((self._directory / kind).glob("*"))
        ]

    def drop_files(self, paths: Sequence[Path], used: Collection[str]) -> None:
        """Drops those of `paths` that are about nothing in `used`."""
        for path in paths:
            if path.name not in used:
                self._files.remove(path)


class Listed(NamedTuple):
    """A pod in the runtime's lists."""

    sandboxes: tuple[messages.PodSandbox, ...] = ()  # the newest first
    containers: tuple[messages.Container, ...] = ()

    @property
    def states(self) -> tuple[tuple[str, int], ...]:
        return (
            *((each.id, int(each.state)) for each in self.sandboxes),
            *((each.id, int(each.state)) for each in self.containers),
        )


@dataclass(slots=True)
class _Pod:
    """A pod: its record, and what is behind it."""

    sandbox: Sandbox | None = None
    states: tuple[tuple[str, int], ...] = ()  # when it was last looked at
    changes: int = 0  # calls of the kubelet's that began or ended
    under_way: int = 0  # of these, those that have not ended
    attempts: dict[str, int] = field(default_factory=dict)  # the highest of each container


class PodCache:
    """The records of one node's pods by UID."""

    def __init__(
        self, calls: RuntimeCalls, requests: RequestFiles, node: str, address: str, clock: Clock
    ) -> None:
        """`node` is the label of the node's pods, `address` what pods of its network have."""
        self._calls = calls
        self._requests = requests
        self._node = node
        self._address = address
        self._clock = clock
        self._pods: dict[str, _Pod] = {}
        self.runtime_name = ""
        self.relisted_at: float | None = None  # monotonic; None: never
        self.on_change: Callable[[str], None] = lambda _pod_uid: None

    def sandboxes(self) -> list[Sandbox]:
        return [pod.sandbox for pod in self._pods.values() if pod.sandbox is not None]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        pod = self._pods.get(pod_uid)
        return pod.sandbox if pod is not None else None

    def last_attempt(self, pod_uid: str, container: str) -> int | None:
        """None if the runtime has had none of that container."""
        pod = self._pods.get(pod_uid)
        return pod.attempts.get(container) if pod is not None else None

    @contextmanager
    def changing(self, pod_uid: str) -> Iterator[None]:
        """Marks calls that change a pod."""
        pod = self._pods.setdefault(pod_uid, _Pod())
        pod.changes += 1
        pod.under_way += 1
        try:
            yield
        finally:
            pod.changes += 1
            pod.under_way -= 1

    # -- looking

    async def listed(self, pod_uid: str = "", container: str = "") -> dict[str, Listed]:
        """The node's pods in the runtime's lists, by UID; or one of them, with all or some containers."""
        wanted = {NODE: self._node, **({POD_UID: pod_uid} if pod_uid else {})}
        sandboxes = messages.ListPodSandboxRequest(filter=messages.PodSandboxFilter(label_selector=wanted))
        named = {**wanted, **({CONTAINER_NAME: container} if container else {})}
        containers = messages.ListContainersRequest(filter=messages.ContainerFilter(label_selector=named))
        found: dict[str, Listed] = {}
        for each in (await self._calls.call("ListPodSandbox", sandboxes)).items:
            known = found.get(each.metadata.uid, Listed())
            found[each.metadata.uid] = known._replace(sandboxes=(*known.sandboxes, each))
        for one in (await self._calls.call("ListContainers", containers)).containers:
            known = found.get(one.labels[POD_UID], Listed())
            found[one.labels[POD_UID]] = known._replace(containers=(*known.containers, one))
        return {
            uid: Listed(
                tuple(sorted(each.sandboxes, key=lambda one: (-one.created_at, one.id))),
                tuple(sorted(each.containers, key=lambda one: (one.created_at, one.id))),
            )
            for uid, each in sorted(found.items())
        }

    async def relist(self) -> None:
        """Looks at all pods, and calls `on_change` for those that have changed. Raises RpcError."""
        before = {uid: pod.changes for uid, pod in self._pods.items()}
        found = await self.listed()
        self.relisted_at = self._clock.monotonic()
        for uid in sorted({*found, *self._pods}):
            pod = self._pods.setdefault(uid, _Pod())
            listed = found.get(uid, Listed())
            if pod.changes != before.get(uid, 0) or pod.under_way or pod.states == listed.states:
                continue
            try:
                await self._look(uid, pod, listed)
            except RpcError as error:
                if error.code is not grpc.StatusCode.NOT_FOUND:  # removed meanwhile
                    raise
                continue
            self.on_change(uid)

    async def inspect(self, pod_uid: str) -> None:
        """Looks at one pod, after a call that changed it. Raises RpcError."""
        pod = self._pods.setdefault(pod_uid, _Pod())
        await self._look(pod_uid, pod, (await self.listed(pod_uid)).get(pod_uid, Listed()))

    async def _look(self, uid: str, pod: _Pod, listed: Listed) -> None:
        changes = pod.changes
        sandbox = await self._sandbox(pod.sandbox, listed)
        for container in listed.containers:
            if sandbox is not None:
                await self._container(sandbox, container)
            name, attempt = container.metadata.name, container.metadata.attempt
            pod.attempts[name] = max(attempt, pod.attempts.get(name, 0))
        if sandbox is not None:
            ids = {each.id for each in listed.containers}
            if pod.changes == changes:
                sandbox.containers = [each for each in sandbox.containers if each.id in ids]
        pod.sandbox = sandbox
        if pod.changes == changes:
            pod.states = listed.states
        if sandbox is None and not pod.under_way and not listed.containers:
            self._pods.pop(uid, None)

    async def _sandbox(self, known: Sandbox | None, listed: Listed) -> Sandbox | None:
        """The record of the pod's newest sandbox."""
        if not listed.sandboxes:
            return None
        newest = listed.sandboxes[0]
        request = messages.PodSandboxStatusRequest(pod_sandbox_id=newest.id)
        status = (await self._calls.call("PodSandboxStatus", request)).status
        sandbox = known or Sandbox(
            pod_uid=newest.metadata.uid,
            namespace=newest.metadata.namespace,
            name=newest.metadata.name,
            id=newest.id,
            ip="",
            created_at=moment(newest.created_at),
        )
        of_node = status.linux.namespaces.options.network == messages.NamespaceMode.NODE
        sandbox.id, sandbox.created_at = newest.id, moment(newest.created_at)
        sandbox.hostname = self._requests.sandbox(newest.id).hostname
        sandbox.ready = is_ready(status)
        if sandbox.ready:  # afterwards its address is still the pod's
            sandbox.ip = self._address if of_node else status.network.ip
        return sandbox

    async def _container(self, sandbox: Sandbox, listed: messages.Container) -> None:
        known = next((each for each in sandbox.containers if each.id == listed.id), None)
        if listed.state == STATES.CONTAINER_CREATED or (known is not None and known.ends_at is not None):
            return
        request = messages.ContainerStatusRequest(container_id=listed.id)
        try:
            status = (await self._calls.call("ContainerStatus", request)).status
        except RpcError as error:
            if error.code is grpc.StatusCode.NOT_FOUND:  # removed meanwhile
                return
            raise
        container = next((each for each in sandbox.containers if each.id == listed.id), None)
        if container is None:
            container = container_of(status, self._requests.container(listed.id), self.runtime_name)
            sandbox.containers.append(container)
        follow(container, status, self._clock.now())
