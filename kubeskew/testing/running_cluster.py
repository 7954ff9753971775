"""A running cluster for a test: every call returns when its effect is complete."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, user_agent
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.cli.events import EventFilter, check_verbs, events_since
from kubeskew.cluster.change_plan import release
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.faults import ClusterFaults
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.state import StateDir, write_secret
from kubeskew.conformance.errors import UnservedKindError
from kubeskew.conformance.evidence.rows import Row, evidence
from kubeskew.kubelet.node.config import NodeLayout
from kubeskew.testing import kubectl
from kubeskew.testing.client import Client
from kubeskew.testing.event_loop import EventLoop

T = TypeVar("T")

__tracebackhide__ = True  # pytest then shows the line of the test
QUIET_SECONDS = 10.0
_POLL_SECONDS = 0.05
_UNLOGGED_SECONDS = 0.5  # until a condition is checked again if the log has no new entry
_UNSETTLED = (AssertionError, KeyError, IndexError, StatusError, UnservedKindError, kubectl.KubectlError)


class InvariantError(AssertionError):
    """An invariant of a control plane was broken in the cluster."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`kubectl` is the user's choice of the binary."""

    loop: EventLoop
    platform: Platform
    kubectl: str = ""


class RunningCluster:
    """Cluster of processes for one test; `namespace` is the test's own, and the kubeconfig's default."""

    def __init__(self, directory: Path, surroundings: Surroundings, namespace: str) -> None:
        self.state_dir = directory
        self.namespace = namespace
        self.kubeconfig = directory.parent / f"{directory.name}-{namespace}.kubeconfig"
        self._around = surroundings
        self._directory = StateDir(directory)
        self._cluster = Cluster(self._directory, surroundings.platform, lambda _: None)
        self._client: Client | None = None
        self._forks: list[RunningCluster] = []
        self._write_kubeconfig()
        self.began = self.revision  # newer entries are of this test

    def _write_kubeconfig(self) -> None:
        document = yaml.safe_load(self._directory.kubeconfig.read_text())
        for entry in document["contexts"]:
            entry["context"]["namespace"] = self.namespace
        write_secret(self.kubeconfig, yaml.safe_dump(document))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._around.loop.run(work)

    # -- access

    @property
    def url(self) -> str:
        return load_kubeconfig(self.kubeconfig).server

    @property
    def client(self) -> Client:
        """Acts as the administrator, with the test's namespace as default."""
        if self._client is None:
            self._client = self._run(self._connected())
        return self._client

    async def _connected(self) -> Client:
        platform = self._around.platform
        agent = user_agent("kubeskew-test", DEFAULT_VERSION)
        client = APIClient.from_kubeconfig(self.kubeconfig, agent, clock=platform.clock, dial=platform.dial)
        return Client(self._around.loop, client, self.namespace)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """kubectl runs in the test's namespace; its failure is a KubectlError."""
        binary = kubectl.find(self._around.kubectl)
        return kubectl.run(binary, arguments, self.kubeconfig, self.state_dir / "kubectl", stdin)

    # -- changes

    def upgrade(self, to: str = "", *components: str, force: bool = False) -> None:
        """Components (all, in upstream's order) move to a newer release; by default to the minor after the
        first API server's.
        """
        self._run(self._move(to, components, downgrade=False, force=force))

    def downgrade(self, to: str = "", *components: str, force: bool = False) -> None:
        """Components (all, in upstream's order) move to an older release; by default to the minor before the
        first API server's.
        """
        self._run(self._move(to, components, downgrade=True, force=force))

    async def _move(self, to: str, components: Sequence[str], *, downgrade: bool, force: bool) -> None:
        if not to:
            server = self._directory.load().of_kind("apiserver")[0]
            to = f"1.{Version.parse(server.version).minor + (-1 if downgrade else 1)}"
        await self._cluster.move(release(to), components, downgrade=downgrade, force=force)

    def gates(self, gates: Mapping[str, bool | None], *components: str) -> None:
        """Components are all by default; None unsets a gate."""
        self._run(self._cluster.set_gates(gates, components))

    def kill(self, component: str) -> None:
        """Sends SIGKILL; the component stays down until `restart`."""
        self._run(self._cluster.kill(component))

    def restart(self, component: str) -> None:
        self._run(self._cluster.restart(component))

    def fault(self, **body: Any) -> str:
        """Arguments are those of the scenario operation `fault`; the id of the fault is returned."""
        (name,) = self._run(ClusterFaults(self._cluster).set(body))
        return name

    def clear_faults(self, name: str = "all") -> None:
        self._run(ClusterFaults(self._cluster).clear(name))

    def fork(self, at: int | None = None) -> "RunningCluster":
        """Copies this cluster as it is now, or as it was at revision `at`.

        The fork ends with the test.
        """
        directory = self.state_dir.with_name(
            f"{self.state_dir.name}-{self.namespace}-fork-{len(self._forks) + 1}"
        )
        revision = self.revision if at is None else at
        self._run(self._cluster.fork(revision, StateDir(directory)))
        self._run(Cluster(StateDir(directory), self._around.platform, lambda _: None).up(None))
        branch = RunningCluster(directory, self._around, self.namespace)
        self._forks.append(branch)
        return branch

    def rewind(self, to: int) -> None:
        self._run(self._cluster.rewind(to))
        self._run(self._cluster.up(None))
        self.began = min(self.began, to)

    # -- state

    @property
    def versions(self) -> dict[str, str]:
        return {name: process.version for name, process in self._directory.load().components().items()}

    def node(self, name: str) -> NodeLayout:
        """Directories are those of sockets, of CDI specs and of the kubelet's files."""
        state = self._directory.load()
        if name not in state.nodes:
            raise UserError(f"there is no node {name}; there are {', '.join(state.nodes)}")
        sockets = Path(state.runtime_dir) if state.runtime_dir else None
        return NodeLayout.under(self._directory.kubelet_root(), name, sockets)

    @property
    def revision(self) -> int:
        return self._run(self._newest())

    async def _newest(self) -> int:
        reader = await self._around.platform.storage.reader(self._directory.storage_url)
        try:
            return await reader.revision()
        finally:
            await reader.close()

    def events(
        self,
        resource: str | None = None,
        *,
        namespace: str = "",
        name: str = "",
        user: str = "",
        verb: str = "",
        component: str = "",
        since: int | None = None,
    ) -> list[Row]:
        """Events are writes and component events since the test began, or since a revision, as of `kubeskew
        events -o json`.
        """
        components = [component] if component else []
        chosen = EventFilter(namespace, name, user, check_verbs([verb]), components)
        return self._run(self._events(self.began if since is None else since, resource, chosen))

    async def _events(self, since: int, resource: str | None, chosen: EventFilter) -> list[Row]:
        async with aclosing(events_since(self._directory.storage_url, since, resource)) as found:
            return [row async for row in found if chosen.takes(row)]

    def eventually(self, holds: Callable[[], T], seconds: float = 30.0) -> T:
        """Calls `holds` after each write until its result is true, and returns that.

        Errors of requests and absent objects count as not true. Raises AssertionError after `seconds`.
        """
        clock = self._around.platform.clock
        deadline = clock.now() + timedelta(seconds=seconds)
        while True:
            seen, why = self.revision, "it returned what is false"
            try:
                if result := holds():
                    return result
            except (*_UNSETTLED, *CONNECTION_ERRORS) as error:
                why = f"{type(error).__name__}: {error}"
            if clock.now() > deadline:
                raise AssertionError(f"waited in vain for {seconds:g} s; at last: {why}")
            self._run(self._change_after(seen))

    async def _change_after(self, revision: int) -> None:
        """Waits for the next entry of the log, at most _UNLOGGED_SECONDS: not every change is in the log."""
        clock = self._around.platform.clock
        deadline = clock.monotonic() + _UNLOGGED_SECONDS
        while await self._newest() == revision and clock.monotonic() < deadline:
            await clock.sleep(_POLL_SECONDS)

    def check(self, quiet_for: float = QUIET_SECONDS) -> None:
        """Checks the invariants as `kubeskew check` does. Raises InvariantError for those that this test
        broke.

        Final states are checked only if nothing has changed for `quiet_for` seconds.
        """
        found = self._run(self._judged(quiet_for))
        if found:
            raise InvariantError("; ".join(found))

    async def _judged(self, quiet_for: float) -> list[str]:
        from kubeskew.conformance.invariants.judgement import (
            is_at_rest,  # they import the scheduler, too
            judge,
        )

        platform = self._around.platform
        reader = await platform.storage.reader(self._directory.storage_url)
        try:
            log = await evidence(reader.events())
        finally:
            await reader.close()
        at_rest = is_at_rest(log, platform.clock.now(), quiet_for)
        found = await judge(self._directory, platform, log, lambda _: None, at_rest=at_rest)
        own = [each for each in found if each.revision > self.began]
        return [f"{each.code} at revision {each.revision}: {each.message}" for each in own]

    # -- the end

    def close(self) -> None:
        for branch in self._forks:
            branch.close()
            branch.stop()
        self._forks = []
        if self._client is not None:
            self._client.close()
            self._client = None
        self.kubeconfig.unlink(missing_ok=True)

    def stop(self) -> None:
        """Logs and data stay in the state directory."""
        self._run(self._cluster.down())
