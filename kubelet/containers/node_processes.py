"""Runs the programs of one node's containers as time passes."""

import asyncio
import heapq
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.container_process import ContainerProcess
from kubeskew.kubelet.containers.execution.files import FileSystem, Tree
from kubeskew.kubelet.containers.execution.simulating import ProgramEnd
from kubeskew.kubelet.containers.pod_processes import PodProcesses
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.files import StateFiles

_EXACT_STEPS = 100  # after more steps a program runs only once a second


class NodeProcesses:
    """The programs of a node's containers.

    `ended` is called when one ended by itself. Input from outside is kept in `directory`.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        ended: Callable[[Sandbox, Container, ProgramEnd], None],
        files: StateFiles,
    ) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._ended = ended
        self._pods: dict[str, PodProcesses] = {}
        self._agenda: list[tuple[datetime, str]] = []  # a heap: when pods have to run next
        self._planned: dict[str, datetime] = {}
        self._sooner = asyncio.Event()

    async def run(self) -> None:
        """Lets the programs run as time passes, until cancelled."""
        while True:
            self._sooner.clear()
            now = self._clock.now()
            while self._agenda and self._agenda[0][0] <= now:
                moment, uid = heapq.heappop(self._agenda)
                if self._planned.get(uid) == moment:
                    del self._planned[uid]
                    self._pods[uid].advance()
                    await self._clock.sleep(0)
            await self._until_next()

    async def _until_next(self) -> None:
        if not self._agenda:
            await self._sooner.wait()
            return
        seconds = (self._agenda[0][0] - self._clock.now()).total_seconds()
        if seconds <= 0:
            return
        waiting = asyncio.ensure_future(self._sooner.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    def _plan(self, pod: PodProcesses) -> None:
        """Notes when the pod's programs have something to do."""
        due, uid = pod.due_at, pod.sandbox.pod_uid
        if due is None:
            self._planned.pop(uid, None)
            return
        if pod.steps > _EXACT_STEPS:
            due = datetime.fromtimestamp(math.ceil(due.timestamp()), UTC)
        planned = self._planned.get(uid)
        if planned == due:
            return
        self._planned[uid] = due
        heapq.heappush(self._agenda, (due, uid))
        if self._agenda[0] == (due, uid):
            self._sooner.set()

    # -- pods

    def pod(self, sandbox: Sandbox) -> PodProcesses:
        """Returns the pod's processes; after a restart of the kubelet, run up to now."""
        pod = self._pods.get(sandbox.pod_uid)
        if pod is None:
            path = self._directory / f"{sandbox.pod_uid}.jsonl"
            pod = PodProcesses(sandbox, self._clock, path, self._ended, self._plan, self._files)
            self._pods[sandbox.pod_uid] = pod
            pod.restore()
        return pod

    def start(self, sandbox: Sandbox, container: Container) -> None:
        """Begins the container's program."""
        pod = self.pod(sandbox)
        pod.advance()
        pod.add(container)
        pod.advance()

    def container_process(self, sandbox: Sandbox, container: Container) -> ContainerProcess:
        return self.pod(sandbox).container_process(container)

    def recording(self, container_process: ContainerProcess) -> FileSystem:
        """Returns the container's files for a command from outside; `keep_files` then keeps what it
        changed."""
        return self.pod(container_process.sandbox).recording(container_process)

    def keep_files(self, container_process: ContainerProcess) -> None:
        self.pod(container_process.sandbox).keep_files()

    def end_changed(self, sandbox: Sandbox, container: Container) -> None:
        """Takes note that the container's end has changed."""
        pod = self.pod(sandbox)
        pod.container_process(container).tell()
        self._plan(pod)

    def set_volumes(self, sandbox: Sandbox, volumes: Mapping[str, Tree]) -> None:
        self.pod(sandbox).set_volumes(volumes)

    def forget(self, sandbox: Sandbox, container: Container) -> None:
        """Forgets a container that is gone."""
        self.pod(sandbox).forget(container)

    def forget_pod(self, sandbox: Sandbox) -> None:
        pod = self._pods.pop(sandbox.pod_uid, None) or PodProcesses(
            sandbox,
            self._clock,
            self._directory / f"{sandbox.pod_uid}.jsonl",
            self._ended,
            lambda _: None,
            self._files,
        )
        pod.remove()
        self._planned.pop(sandbox.pod_uid, None)
