"""The pods of one node as their runtime has them: lists now and then, and statuses of what has changed.

The kubelet's own calls change pods, too. What a list said before such a call, or while it ran, counts for
nothing: the pod is looked at again.

Source: pkg/kubelet/pleg/generic.go, and pkg/kubelet/kuberuntime (kuberuntime_manager.go, GetPodStatus), 1.36.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import DecodeError

from kubeskew.apimachinery.client.rest import FailureLog
from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.remote.calls import RuntimeCalls
from kubeskew.kubelet.containers.remote.records import STATES, container_of, follow, is_ready, moment
from kubeskew.kubelet.containers.remote.requests import CONTAINER_NAME, NODE, POD_UID
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

log = logging.getLogger(__name__)

_Request = TypeVar("_Request", messages.PodSandboxConfig, messages.ContainerConfig)
_SANDBOXES, _CONTAINERS = "sandboxes", "containers"


class RequestFiles:
    """Keeps the requests by which sandboxes and containers were made, in a file for each."""

    def __init__(self, directory: Path, files: StateFiles) -> None:
        self._directory = directory
        self._files = files

    def keep(self, request: messages.PodSandboxConfig | messages.ContainerConfig, identifier: str) -> None:
        """On disk when it returns."""
        kind = _SANDBOXES if isinstance(request, messages.PodSandboxConfig) else _CONTAINERS
        self._files.write(self._directory / kind / identifier, request.SerializeToString(), synced=True)

    def sandbox(self, identifier: str) -> messages.PodSandboxConfig:
        """Empty if it is not known."""
        return self._read(_SANDBOXES, identifier, messages.PodSandboxConfig())

    def container(self, identifier: str) -> messages.ContainerConfig:
        """Empty if it is not known."""
        return self._read(_CONTAINERS, identifier, messages.ContainerConfig())

    def _read(self, kind: str, identifier: str, empty: _Request) -> _Request:
        """A file of which a part is left counts as none."""
        content = self._files.read(self._directory / kind / identifier) or b""
        try:
            return type(empty).FromString(content)
        except DecodeError:
            return empty

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
    states: tuple[tuple[str, int], ...] | None = ()  # when it was last looked at; None: look again
    changed: int = 0  # the last change: a call of the kubelet's began or ended, or the record was written
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
        self._failures: dict[str, FailureLog] = {}  # of the pods that could not be looked at
        self._changes = 0  # of all pods, so that no two have the same number
        self.runtime_name = ""
        self.relisted_at: float | None = None  # monotonic; None: never
        self.on_change: Callable[[str], None] = lambda _pod_uid: None

    def sandboxes(self) -> list[Sandbox]:
        return [pod.sandbox for pod in self._pods.values() if pod.sandbox is not None]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        pod = self._pods.get(pod_uid)
        return pod.sandbox if pod is not None else None

    def is_unknown(self, pod_uid: str) -> bool:
        """Decides whether the last look at a pod came to nothing: its record may be old, or missing."""
        pod = self._pods.get(pod_uid)
        return pod is not None and pod.states is None

    def last_attempt(self, pod_uid: str, container: str) -> int | None:
        """None if the runtime has had none of that container."""
        pod = self._pods.get(pod_uid)
        return pod.attempts.get(container) if pod is not None else None

    @contextmanager
    def changing(self, pod_uid: str) -> Iterator[None]:
        """Marks calls that change a pod."""
        pod = self._pods.setdefault(pod_uid, _Pod())
        self._note_change(pod)
        pod.under_way += 1
        try:
            yield
        finally:
            self._note_change(pod)
            pod.under_way -= 1
            self._forget_nothing(pod_uid, pod)

    def _forget_nothing(self, uid: str, pod: _Pod) -> None:
        """Drops a pod of which neither the runtime nor a call has anything."""
        if pod.sandbox is None and pod.states == () and not pod.under_way and self._pods.get(uid) is pod:
            del self._pods[uid]
            self._failures.pop(uid, None)

    def _note_change(self, pod: _Pod) -> None:
        self._changes += 1
        pod.changed = self._changes

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
        """Looks at all pods, and calls `on_change` for those that have changed. One that cannot be looked at
        is looked at with the next list. Raises RpcError if there is no list."""
        before = self._changes
        found = await self.listed()
        self.relisted_at = self._clock.monotonic()
        for uid in sorted({*found, *self._pods}):
            listed = found.get(uid)
            if listed is None and uid not in self._pods:  # forgotten meanwhile
                continue
            pod, listed = self._pods.setdefault(uid, _Pod()), listed or Listed()
            if pod.changed > before or pod.under_way or pod.states == listed.states:
                self._forget_nothing(uid, pod)
                continue
            try:
                is_known = await self._look(uid, pod, listed)
            except RpcError as error:
                if error.code is not grpc.StatusCode.NOT_FOUND:  # removed meanwhile
                    self._failures_of(uid).failed(f"cannot look at pod {uid}: {error}")
                continue
            self._failures.pop(uid, None)
            if is_known:
                self.on_change(uid)

    def _failures_of(self, uid: str) -> FailureLog:
        return self._failures.setdefault(uid, FailureLog(log, self._clock))

    async def inspect(self, pod_uid: str) -> None:
        """Looks at one pod, after a call that changed it, until nothing else changes it meanwhile.

        Raises RpcError.
        """
        is_known = False
        while not is_known:
            pod = self._pods.setdefault(pod_uid, _Pod())
            before = pod.changed
            listed = (await self.listed(pod_uid)).get(pod_uid, Listed())
            is_known = pod.changed == before and await self._look(pod_uid, pod, listed)

    def started(
        self, sandbox: Sandbox, identifier: str, request: messages.ContainerConfig, reference: str
    ) -> Container:
        """Writes a container down that runs, and at which nobody can look yet, as it was asked for.

        `reference` is that of its image.
        """
        pod = self._pods.setdefault(sandbox.pod_uid, _Pod())
        pod.states = None
        self._note_change(pod)
        pod.attempts[request.metadata.name] = request.metadata.attempt
        known = next((each for each in sandbox.containers if each.id == identifier), None)
        if known is not None:
            return known
        status = messages.ContainerStatus(
            id=identifier,
            metadata=request.metadata,
            image=messages.ImageSpec(image=request.image.user_specified_image),
            image_ref=reference,
            annotations=request.annotations,
        )
        container = container_of(status, request, self.runtime_name)
        container.started_at = self._clock.now()
        sandbox.containers.append(container)
        return container

    async def _look(self, uid: str, pod: _Pod, listed: Listed) -> bool:
        """Asks for statuses and writes them down all at once; returns False, and has written nothing, if the
        pod has changed meanwhile. Raises RpcError. Unless it returns True, the pod is looked at again."""
        before, pod.states = pod.changed, None
        sandbox = await self._sandbox_status(listed)
        containers = await self._container_statuses(pod, listed) if sandbox is not None else []
        if pod.changed != before:
            return False
        self._note_change(pod)
        pod.sandbox = self._sandbox(pod.sandbox, listed, sandbox) if sandbox is not None else None
        if pod.sandbox is not None:
            for status in containers:
                self._container(pod.sandbox, status)
            ids = {each.id for each in listed.containers}
            pod.sandbox.containers = [each for each in pod.sandbox.containers if each.id in ids]
        for container in listed.containers:
            name, attempt = container.metadata.name, container.metadata.attempt
            pod.attempts[name] = max(attempt, pod.attempts.get(name, 0))
        pod.states = listed.states
        self._forget_nothing(uid, pod)
        return True

    async def _sandbox_status(self, listed: Listed) -> messages.PodSandboxStatus | None:
        """The status of the pod's newest sandbox."""
        if not listed.sandboxes:
            return None
        request = messages.PodSandboxStatusRequest(pod_sandbox_id=listed.sandboxes[0].id)
        status: messages.PodSandboxStatus = (await self._calls.call("PodSandboxStatus", request)).status
        return status

    async def _container_statuses(self, pod: _Pod, listed: Listed) -> list[messages.ContainerStatus]:
        """The statuses of containers that have begun, and of which it is not known how they ended."""
        ended = (
            {each.id for each in pod.sandbox.containers if each.ends_at is not None} if pod.sandbox else set()
        )
        found = []
        for each in listed.containers:
            if each.state == STATES.CONTAINER_CREATED or each.id in ended:
                continue
            request = messages.ContainerStatusRequest(container_id=each.id)
            try:
                found.append((await self._calls.call("ContainerStatus", request)).status)
            except RpcError as error:
                if error.code is not grpc.StatusCode.NOT_FOUND:  # removed meanwhile
                    raise
        return found

    def _sandbox(self, known: Sandbox | None, listed: Listed, status: messages.PodSandboxStatus) -> Sandbox:
        """The record of the pod's newest sandbox."""
        newest = listed.sandboxes[0]
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

    def _container(self, sandbox: Sandbox, status: messages.ContainerStatus) -> None:
        container = next((each for each in sandbox.containers if each.id == status.id), None)
        if container is None:
            container = container_of(status, self._requests.container(status.id), self.runtime_name)
            sandbox.containers.append(container)
        follow(container, status, self._clock.now())
