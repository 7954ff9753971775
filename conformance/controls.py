"""The clusters that scenarios run on: one of our own, or one that a kubeconfig points to."""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.client.refs import NAMESPACES
from kubeskew.apimachinery.client.rest import APIClient, user_agent
from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apimachinery.known_names import all_names, did_you_mean, meant
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.storage.factory import Reader
from kubeskew.apiserver.storage.records import Entry, Place
from kubeskew.cluster import config, drivers, kubelet_files
from kubeskew.cluster.change_plan import release
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.faults import ClusterFaults, added, having
from kubeskew.cluster.faults import load as load_faults
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import log_lines_behind
from kubeskew.cluster.state import Process, StateDir
from kubeskew.conformance import programs
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.conformance.evidence.nodes import NodeRecords, PreparedClaim
from kubeskew.conformance.evidence.rows import evidence, rows
from kubeskew.conformance.invariants.invariant import Violation
from kubeskew.conformance.invariants.judgement import judge
from kubeskew.conformance.storage.nodes import KeptNode, kept_nodes


class LocalControl:
    """A cluster of our own in a state directory that is removed with it, unless `keep`."""

    def __init__(
        self, directory: Path, platform: Platform, progress: Callable[[str], None], *, keep: bool = False
    ) -> None:
        self._directory = StateDir(directory)
        self._platform = platform
        self._cluster = Cluster(self._directory, platform, progress)
        self._faults = ClusterFaults(self._cluster)
        self._keep = keep
        self._writes: dict[Place, Write] = {}  # those of the log that have been read
        self._progress = progress
        self._branches: list[LocalControl] = []
        self._reader: Reader | None = None  # is asked for the revision before and after every step
        self._opening = asyncio.Lock()

    @property
    def kubeconfig(self) -> Path:
        return self._directory.kubeconfig

    @property
    def runtime_config(self) -> Mapping[str, bool]:
        return self._directory.load().runtime_config

    def client(self, context: str = "") -> APIClient:
        platform, agent = self._platform, user_agent("kubeskew", DEFAULT_VERSION)
        return APIClient.from_kubeconfig(
            *(self.kubeconfig, agent),
            clock=platform.clock,
            context=context or self._first_server(),
            dial=platform.dial,
        )

    def _first_server(self) -> str:
        """Names the context that a scenario uses if it names none; empty for the only API server there is."""
        state = self._directory.load()
        return state.of_kind("apiserver")[0].name if state.shared_port else ""

    async def start(self, cluster: Mapping[str, Any]) -> None:
        await self._cluster.up(config.parse(dict(cluster), "the scenario's cluster"))
        self._check_bugs()

    def _check_bugs(self) -> None:
        """Raises ImpossibleError if a switch of a known bug is of a slot in which a real program runs."""
        programs.check_bugs(self._directory.load().processes.values())

    async def pick_up(self) -> None:
        """The cluster is one that an earlier control left in the directory."""
        await self._cluster.up(None)

    async def stop(self) -> None:
        for branch in self._branches:
            await branch.stop()
        if self._reader is not None:
            await self._reader.close()
        if self._directory.exists():
            await self._cluster.down()
        if not self._keep:
            shutil.rmtree(self._directory.path, ignore_errors=True)

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        await self._cluster.move(release(to), components, downgrade=False, force=force)
        self._check_bugs()

    async def downgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        await self._cluster.move(release(to), components, downgrade=True, force=force)
        self._check_bugs()

    async def gates(self, gates: Mapping[str, bool | None], components: Sequence[str]) -> None:
        await self._cluster.set_gates(gates, components)

    async def restart(self, component: str) -> None:
        await self._cluster.restart(component)

    async def kill(self, component: str) -> None:
        await self._cluster.kill(component)

    async def fork(self, names: Sequence[str]) -> Sequence["LocalControl"]:
        revision = await self.revision()
        for number, name in enumerate(names, 1):
            directory = self._directory.path.with_name(f"{self._directory.path.name}-branch-{number}")
            await self._cluster.fork(revision, StateDir(directory))
            self._branches.append(self._branch(directory, name))
        await self._cluster.down()
        for branch in self._branches:
            await branch.pick_up()
        return self._branches

    def _branch(self, directory: Path, name: str) -> "LocalControl":
        def progress(text: str) -> None:
            self._progress(f"{name}: {text}")

        return LocalControl(directory, self._platform, progress, keep=self._keep)

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        processes = drivers.processes_of(self._directory.load(), name)
        programs.check_emulated(processes, "it has none of the switches of our drivers")
        await self._cluster.switch(name, nodes, switches)

    async def remove_kubelet_files(self, node: str, names: Sequence[str]) -> None:
        with self._cluster.changing() as state:
            kubelet_files.remove_kubelet_files(self._directory, state, node, names)

    async def configure_kubelet(self, node: str, settings: Mapping[str, Any]) -> None:
        with self._cluster.changing() as state:
            kubelet_files.configure_kubelet(self._directory, state, node, settings)

    async def kubelet_file(self, node: str, name: str) -> str | None:
        path = kubelet_files.kubelet_file(self._directory, self._directory.load(), node, name)
        return path.read_text(errors="replace") if path.is_file() else None

    async def kept_nodes(self) -> Sequence[KeptNode]:
        return kept_nodes(self._directory)

    async def set_fault(self, body: Mapping[str, Any]) -> str:
        state = self._directory.load()
        if any(map(programs.program_of, state.processes.values())):
            _, entry = added(state, load_faults(self._directory), body)
            known = state.components()
            programs.check_fault([known[name] for name in having(state, entry.fault)], entry.fault)
        (fault,) = await self._faults.set(body)
        return fault

    async def clear_faults(self, name: str) -> Sequence[FaultReport]:
        return await self._faults.clear(name)

    async def await_fault(self, name: str, seconds: float) -> FaultReport:
        return await self._faults.fired(name, seconds)

    async def faults(self) -> Sequence[FaultReport]:
        return await self._faults.current()

    async def prepared(self) -> Mapping[str, Sequence[PreparedClaim]]:
        found: dict[str, Sequence[PreparedClaim]] = {}
        async with self._cluster.probes() as probes:
            for process in self._directory.load().of_kind("kubelet"):
                for node, drivers in (await probes.prepared(process)).items():
                    found[node] = [
                        PreparedClaim(node, driver, **claim)
                        for driver, claims in drivers.items()
                        for claim in claims
                    ]
        return found

    async def node_records(self) -> NodeRecords:
        return node_records(self._directory)

    async def metrics(self, components: Sequence[str], path: str) -> Mapping[str, str]:
        processes = {process.name: process for name in components for process in self._processes(name)}
        found = {}
        async with self._cluster.probes() as probes:
            for name, process in processes.items():
                status, found[name] = await probes.request("GET", process.metrics_url(path))
                if status != 200:
                    raise TimeoutError(f"{name} answers {status or 'nothing'} to {path}")
        return found

    async def component_logs(
        self, component: str, offsets: Mapping[str, int]
    ) -> Mapping[str, tuple[str, int]]:
        names = [process.name for process in self._processes(component)]
        return {name: log_lines_behind(self._directory.log(name), offsets.get(name, 0)) for name in names}

    def _processes(self, component: str) -> Sequence[Process]:
        """Raises ScenarioError for a component without a process."""
        known = self._directory.load().components()
        found = {known[name].name: known[name] for name in meant(component, known)}
        if not found:
            raise ScenarioError(
                f"there is no component {component}; there are {', '.join(known)}"
                + did_you_mean(component, all_names(known))
            )
        return [*found.values()]

    async def _read(self) -> Reader:
        async with self._opening:  # one reader, also for steps that ask at the same time
            if self._reader is None:
                self._reader = await self._platform.storage.reader(self._directory.storage_url)
            return self._reader

    async def revision(self) -> int:
        return await (await self._read()).revision()

    async def hashes(self) -> tuple[str, str]:
        return await (await self._read()).hashes()

    async def log(self) -> Sequence[Logged]:
        return await evidence((await self._read()).events(), self._writes)

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        whole = self._directory, self._platform, log, self._progress
        return await judge(*whole, at_rest=False)

    async def entries(self) -> Sequence[Entry]:
        return await (await self._read()).entries()

    async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
        return [row async for row in rows((await self._read()).events(since))]


class KubeconfigControl:
    """A cluster of somebody else's: it can be asked and written to, but not changed."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    @property
    def runtime_config(self) -> Mapping[str, bool]:
        return {}

    def client(self, context: str = "") -> APIClient:
        agent = user_agent("kubeskew", DEFAULT_VERSION)
        return APIClient.from_kubeconfig(self._kubeconfig, agent, context=context)

    async def start(self, cluster: Mapping[str, Any]) -> None:
        """The cluster is there already; what the header describes does not apply."""

    async def stop(self) -> None:
        """The cluster is not ours to end."""

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        raise self._refusal("upgrade")

    async def downgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        raise self._refusal("downgrade")

    async def gates(self, gates: Mapping[str, bool | None], components: Sequence[str]) -> None:
        raise self._refusal("gates")

    async def restart(self, component: str) -> None:
        raise self._refusal("restart")

    async def kill(self, component: str) -> None:
        raise self._refusal("kill")

    async def fork(self, names: Sequence[str]) -> Sequence[ClusterControl]:
        raise self._refusal("fork")

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        raise self._refusal("driver")

    async def remove_kubelet_files(self, node: str, names: Sequence[str]) -> None:
        raise self._refusal("kubelet")

    async def configure_kubelet(self, node: str, settings: Mapping[str, Any]) -> None:
        raise self._refusal("kubelet")

    async def kubelet_file(self, node: str, name: str) -> str | None:
        raise self._refusal("kubelet")

    async def kept_nodes(self) -> Sequence[KeptNode]:
        return ()

    async def set_fault(self, body: Mapping[str, Any]) -> str:
        raise self._refusal("fault")

    async def clear_faults(self, name: str) -> Sequence[FaultReport]:
        raise self._refusal("fault")

    async def await_fault(self, name: str, seconds: float) -> FaultReport:
        raise self._refusal("fault")

    async def faults(self) -> Sequence[FaultReport]:
        return []

    async def prepared(self) -> Mapping[str, Sequence[PreparedClaim]]:
        return {}

    async def node_records(self) -> NodeRecords:
        """Nodes of a foreign cluster give no evidence but the API's."""
        return NodeRecords()

    async def metrics(self, components: Sequence[str], path: str) -> Mapping[str, str]:
        raise self._refusal("metric")

    async def component_logs(
        self, component: str, offsets: Mapping[str, int]
    ) -> Mapping[str, tuple[str, int]]:
        raise self._refusal("logs")

    async def revision(self) -> int:
        """A list's resourceVersion is all that is known of a foreign cluster's store."""
        client = self.client()
        try:
            return int((await client.list(NAMESPACES, limit=1))["metadata"]["resourceVersion"])
        finally:
            await client.close()

    async def hashes(self) -> tuple[str, str]:
        return "", ""

    async def log(self) -> Sequence[Logged]:
        return []

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        """None: a foreign cluster is not judged."""
        return None

    async def entries(self) -> Sequence[Entry]:
        raise self._refusal("audit")

    async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
        return []

    @staticmethod
    def _refusal(operation: str) -> ScenarioError:
        return ScenarioError(
            f"the operation {operation} needs a cluster of kubeskew's own: leave out --kubeconfig"
        )
