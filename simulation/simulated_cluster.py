"""A simulated cluster for the code of others: operators, drivers and tests that speak to an API server.

    cluster = SimulatedCluster(seed=7, version="1.35")
    cluster.run(story(cluster))

Code in it has the cluster's virtual time and its event loop. Any client that is built on asyncio reaches the
API server by the kubeconfig.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.cluster import config
from kubeskew.conformance.controls import LocalControl
from kubeskew.simulation.loop import SimulatedLoop
from kubeskew.simulation.processes import Process
from kubeskew.simulation.runs import STATE, collecting_in_turns, digest, process_logs, running_site

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, object]]


class NotRunningError(RuntimeError):
    """The cluster was asked for a property that there is only while it runs."""


class UserProcess:
    """A program of the user's in a simulation: it can be killed, as by SIGKILL, and started again."""

    def __init__(self, name: str, number: int, work: Work) -> None:
        self.name = name
        self._number = number
        self._work = work
        self._process: Process | None = None
        self._task: asyncio.Task[object] | None = None
        self.start()

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done() and self._lives()

    def _lives(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Starts it, for the first time or after its end."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        self.check()
        self._process = Process(-self._number, self.name, Path(f"{self.name}.log"))
        self._task = self._process.spawn(self._run(), name=self.name)

    async def _run(self) -> object:
        return await self._work()

    def kill(self) -> None:
        """Ends it at once: none of its callbacks runs any more, not even a `finally`."""
        if self._process is not None:
            self._process.end()

    async def stop(self) -> None:
        """Cancels it, and waits until it has ended."""
        if self._task is not None and self.alive:
            self._task.cancel()
            await asyncio.wait([self._task])

    def check(self) -> None:
        """Raises the exception that it has ended with, if it was not killed or cancelled."""
        task = self._task
        if task is not None and self._lives() and task.done() and not task.cancelled():
            task.result()

    def log(self) -> str:
        file = Path(f"{self.name}.log")
        return file.read_text() if file.exists() else ""


class SimulatedCluster:
    """A cluster in one event loop. `run` starts it, runs a coroutine next to it, and ends it."""

    def __init__(self, seed: int = 0, **cluster: Any) -> None:
        """`cluster` has the keys of a cluster file: version, nodes, featureGates, ….

        Raises ClusterError for a cluster that cannot be.
        """
        self.seed = seed
        self._cluster = {"nodes": [{"name": "node-1"}], **cluster}
        self._spec = config.parse(dict(self._cluster), "the simulated cluster")
        self._control: LocalControl | None = None
        self._client: APIClient | None = None
        self._processes: list[UserProcess] = []
        self._ran = False
        self.log_hash = ""  # of all that was written, once it has run; the same seed gives the same
        self.failures: Sequence[str] = ()  # exceptions that no task has handled

    # -- what it is reached by

    @property
    def control(self) -> LocalControl:
        """Scenarios steer a cluster with this control."""
        if self._control is None:
            raise NotRunningError("there is a cluster only inside of run()")
        return self._control

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig lies in the working directory of the simulation."""
        return self.control.kubeconfig

    @property
    def url(self) -> str:
        """The URL is that of the first API server."""
        return load_kubeconfig(self.kubeconfig).server

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return (self.kubeconfig.parent / "admin.token").read_text().strip()

    @property
    def client(self) -> APIClient:
        """The client is the administrator's."""
        if self._client is None:
            raise NotRunningError("there is a client only inside of run()")
        return self._client

    # -- what is done to it

    async def upgrade(self, to: str, *components: str, force: bool = False) -> None:
        """Moves components (all, in upstream's order) to a newer release."""
        await self.control.upgrade(to, components, force=force)

    async def downgrade(self, to: str, *components: str, force: bool = False) -> None:
        """Moves components (all, in upstream's order) to an older release."""
        await self.control.downgrade(to, components, force=force)

    async def gates(self, gates: Mapping[str, bool | None], *components: str) -> None:
        """Sets feature gates of components (of all); None unsets one."""
        await self.control.gates(gates, components)

    async def restart(self, component: str) -> None:
        """Stops a component, if it runs, and starts it."""
        await self.control.restart(component)

    async def kill(self, component: str) -> None:
        """Ends a component as by SIGKILL; it stays down until `restart`."""
        await self.control.kill(component)

    async def fault(self, **body: Any) -> str:
        """Injects a fault, as by the scenario operation `fault`; returns its id."""
        return await self.control.set_fault(body)

    async def clear_faults(self, name: str = "all") -> None:
        """Takes a fault away, or all."""
        await self.control.clear_faults(name)

    def start(self, name: str, work: Work) -> UserProcess:
        """Runs `work()` as a process of its own, with a log of its own, next to the cluster's."""
        if self._control is None:
            raise NotRunningError("a process runs only inside of run()")
        if name in {process.name for process in self._processes}:
            raise ValueError(f"there is a process {name} already; start() it again")
        process = UserProcess(name, len(self._processes) + 1, work)
        self._processes.append(process)
        return process

    # -- running

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Starts the cluster, runs the coroutine to its end, ends all, and returns its result.

        Raises the exception of the coroutine, or else that of one of its processes.
        """
        try:
            self._check_place()
        except RuntimeError:
            story.close()
            raise
        self._ran = True
        loop, outside = SimulatedLoop(), [*logging.getLogger().handlers]
        with (
            collecting_in_turns(),
            process_logs(*outside),
            running_site(loop, self.seed, self._spec.servers) as (site, platform),
        ):
            self._control = LocalControl(STATE, platform, lambda _: None)
            try:
                return loop.run_until_complete(self._live(story))
            finally:
                self.failures = [*loop.failures]
                self.log_hash = digest(*site.storage.all())
                self._control = self._client = None

    def _check_place(self) -> None:
        if self._ran:
            raise RuntimeError("a simulated cluster runs once: make another one")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise RuntimeError(
            "a simulated cluster has an event loop of its own: call run() from a plain function, "
            "not from a coroutine"
        )

    async def _live(self, story: Coroutine[Any, Any, T]) -> T:
        control = self.control
        try:
            try:
                await control.start(self._cluster)
                self._client = control.client()
            except BaseException:
                story.close()
                raise
            result = await story
            for process in self._processes:
                process.check()
            return result
        finally:
            for process in self._processes:
                await process.stop()
            if self._client is not None:
                await self._client.close()
            await control.stop()
