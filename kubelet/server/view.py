"""The view that the server has of its node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.container_process import ContainerProcess
from kubeskew.kubelet.containers.runtime import FakeRuntime
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.features import KubeletFeatures


class ServerError(Exception):
    """An answer that is not a success: a status and plain text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class EndedUsage:
    """Keeps what containers had used when they were last seen, so that a node's counter never falls."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._total = 0.0

    def core_seconds(self, running: Mapping[str, float]) -> float:
        """Returns the core seconds of all that ran before; `running` has those of each container now."""
        self._total += sum(used for name, used in self._seen.items() if name not in running)
        self._seen = dict(running)
        return self._total


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. `pods` returns those the kubelet knows, each with its newest status."""

    name: str
    clock: Clock
    runtime: FakeRuntime
    pods: Callable[[], list[Object]]
    features: KubeletFeatures
    load: Callable[[Object], Any]  # awaitable: loads the files of the pod's volumes
    since: datetime  # when its kubelet started
    capacity: Mapping[str, str]
    ended: EndedUsage = field(default_factory=EndedUsage)

    def pod(self, namespace: str, name: str) -> Object | None:
        found = (namespace, name)
        return next(
            (pod for pod in self.pods() if (pod_spec.namespace_of(pod), pod_spec.name_of(pod)) == found), None
        )

    async def running(self, namespace: str, name: str, container: str) -> ContainerProcess:
        """Returns a running container. Raises ServerError as exec and attach do."""
        pod = self.pod(namespace, name)
        if pod is None:
            raise ServerError(404, "pod does not exist")
        sandbox = self.runtime.sandbox(pod_spec.uid_of(pod))
        latest = sandbox.latest(container) if sandbox is not None else None
        if sandbox is None or latest is None or not latest.running(self.clock.now()):
            raise ServerError(500, f'container not found ("{container}")')
        return await self.container_process(pod, sandbox, latest)

    async def container_process(
        self, pod: Object, sandbox: Sandbox, container: Container
    ) -> ContainerProcess:
        await self.load(pod)
        return self.runtime.container_process(sandbox, container)
