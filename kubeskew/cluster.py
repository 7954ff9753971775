"""The local cluster: start it, change it component by component, end it.

There is no supervising daemon. Every command reads the record, does its work under the directory's lock and
writes the record before and after each process it starts, so that a crash leaves nothing unknown.
"""

import asyncio
import random
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence

from apimachinery.clock import Clock
from apimachinery.versions import Version
from kubeskew import launching, processes, skew
from kubeskew.config import ClusterSpec
from kubeskew.failures import UserError
from kubeskew.pki import Authority, KeyPair, kubeconfig, new_token, write_secret
from kubeskew.planning import Target, check_gates, check_steps, describe, initial_target, select
from kubeskew.readiness import Probes, wait_cluster, wait_ready, wait_until
from kubeskew.state import Process, State, StateDir

COMPONENTS_PATH = "/kubeskew/v1/components"


class Cluster:
    """The cluster of one state directory. `progress` is told what happens, one short line at a time."""

    def __init__(self, directory: StateDir, clock: Clock, progress: Callable[[str], None]) -> None:
        self.directory = directory
        self._clock = clock
        self._progress = progress

    # -- start and end -------------------------------------------------------------------------------------

    async def up(self, spec: ClusterSpec) -> None:
        """Start the cluster; one that exists is picked up as it is recorded. Returns when it is ready."""
        with self.directory.locked():
            if self.directory.exists():
                state = self.directory.load()
                state.killed_nodes.clear()
                self._progress("picking up the cluster that is there")
            else:
                state = self.create(spec)
            stopped = [p for p in state.processes.values() if not processes.alive(p.pid, p.birth)]
            for process in sorted(stopped, key=lambda p: skew.UPGRADE_ORDER.index(p.kind)):
                self._progress(f"starting {process.name} {process.version}")
                self._start(state, process)
            async with Probes(self.directory) as probes:
                await wait_cluster(self.directory, probes, state)

    def create(self, spec: ClusterSpec) -> State:
        """Credentials, ports and the record of a new cluster; nothing is started."""
        state = State(runtime_config=dict(spec.runtime_config))
        names = ["apiserver"] if spec.servers == 1 else [f"apiserver-{n}" for n in range(1, spec.servers + 1)]
        for name in [*names, "controller-manager", "scheduler"]:
            self._add_process(state, spec, name, skew.kind_of(name))
        if spec.port:
            state.processes[names[0]].port = spec.port
        state.nodes = {node.name: node.as_json() for node in spec.nodes}
        targets = {node.name: initial_target(spec, f"kubelet/{node.name}") for node in spec.nodes}
        for name, target in targets.items():
            self._host(state, name, target)
        found = skew.violations({n: Version.parse(p.version) for n, p in state.components().items()})
        if found:
            raise UserError(f"unsupported version skew: {'; '.join(found)}")
        self._write_credentials(state, state.processes[names[0]].port)
        self.directory.database.parent.mkdir(mode=0o700)
        self.directory.save(state)
        return state

    def _add_process(self, state: State, spec: ClusterSpec, name: str, kind: str) -> None:
        target = initial_target(spec, name)
        check_gates(name, target)
        state.processes[name] = Process(
            name, kind, str(target.version), dict(target.gates), port=self._free_port(state)
        )

    def _free_port(self, state: State) -> int:
        return launching.free_port((p.port for p in state.processes.values()), random.SystemRandom())

    def _write_credentials(self, state: State, port: int) -> None:
        authority = Authority.create(self._clock.now())
        directory, ca = self.directory, authority.pair.certificate
        serving, token = authority.serving(), new_token()
        write_secret(directory.pki / "ca.key", authority.pair.key)
        write_secret(directory.ca, ca)
        write_secret(directory.pki / "apiserver.crt", serving.certificate)
        write_secret(directory.pki / "apiserver.key", serving.key)
        write_secret(directory.token, token)
        write_secret(directory.pki / "tokens.csv", f'{token},kubernetes-admin,admin,"system:masters"\n')
        server = f"https://127.0.0.1:{port}"

        def write(path_of: str, pair: KeyPair) -> None:
            write_secret(directory.component_kubeconfig(path_of), kubeconfig(server, ca, path_of, pair))

        for user in ("system:kube-controller-manager", "system:kube-scheduler"):
            write(user, authority.client(user))
        for node in state.nodes:
            write(f"system:node:{node}", authority.client(f"system:node:{node}", "system:nodes"))
        admin = authority.client("kubernetes-admin", "system:masters")
        write_secret(directory.kubeconfig, kubeconfig(server, ca, "kubernetes-admin", admin))

    async def down(self, *, purge: bool = False) -> None:
        """Stop everything, API servers last; `purge` removes the state directory too."""
        with self.directory.locked():
            state = self.directory.load()
            servers = state.of_kind("apiserver")
            others = [p for p in state.processes.values() if p not in servers]
            for batch in (others, servers):
                await asyncio.gather(*(processes.stop(p.pid, p.birth) for p in batch))
            for process in state.processes.values():
                process.pid, process.birth = 0, ""
            self.directory.save(state)
        if purge:
            shutil.rmtree(self.directory.path)

    # -- change --------------------------------------------------------------------------------------------

    async def move(self, to: Version, names: Sequence[str], *, downgrade: bool, force: bool) -> None:
        """Upgrade or downgrade the named components (all if none), in upstream's order."""
        with self.directory.locked():
            state = self.directory.load()
            chosen = select(state, names)
            for name in chosen:
                current = Version.parse(state.components()[name].version)
                if not force and ((to < current) if not downgrade else (to > current)):
                    verb = "downgrade" if not downgrade else "upgrade"
                    raise UserError(f"{name} is at {current}: to go to {to}, use `kubeskew {verb}`")
            order = skew.downgrade_order if downgrade else skew.upgrade_order
            targets = {n: Target(to, state.components()[n].gates) for n in order(chosen)}
            await self._change(state, targets, force=force)

    async def set_gates(self, gates: Mapping[str, bool], names: Sequence[str]) -> None:
        """Set gates of the named components (all if none); they restart with them."""
        with self.directory.locked():
            state = self.directory.load()
            targets = {}
            for name in skew.upgrade_order(select(state, names)):
                process = state.components()[name]
                targets[name] = Target(Version.parse(process.version), {**process.gates, **gates})
            await self._change(state, targets, force=True)

    async def restart(self, name: str) -> None:
        """Stop a component gracefully, if it runs, and start it again as it was."""
        with self.directory.locked():
            state = self.directory.load()
            targets = {}
            for each in select(state, [name]):
                process = state.components()[each]
                targets[each] = Target(Version.parse(process.version), process.gates)
            await self._change(state, targets, force=True)

    async def kill(self, name: str) -> None:
        """End a component with SIGKILL; it stays down until it is restarted."""
        with self.directory.locked():
            state = self.directory.load()
            for each in select(state, [name]):
                process = state.components()[each]
                node = each.partition("/")[2]
                if node and len(process.nodes) > 1:
                    state.killed_nodes = sorted({*state.killed_nodes, node})
                    self._reload_nodes(state, process)
                    await self._await_unhosted(process, [node])
                else:
                    process.wanted = False
                    await processes.stop(process.pid, process.birth, kill=True)
                self.directory.save(state)
                await self._announce(state, each, "killed")

    async def _change(self, state: State, targets: Mapping[str, Target], *, force: bool) -> None:
        """Bring components to their targets in the given order; all steps are checked before the first."""
        for name, target in targets.items():
            check_gates(name, target)
        if not force:
            check_steps(state, targets)
        kubelets = {n.partition("/")[2]: t for n, t in targets.items() if skew.kind_of(n) == "kubelet"}
        async with Probes(self.directory) as probes:
            for name in targets:
                if skew.kind_of(name) != "kubelet":
                    await self._replace(state, state.processes[name], targets[name], probes)
                elif kubelets:
                    await self._move_nodes(state, kubelets, probes)
                    kubelets = {}
            await wait_cluster(self.directory, probes, state)

    async def _replace(self, state: State, process: Process, target: Target, probes: Probes) -> None:
        """Stop one process and start it as `target`."""
        self._progress(f"{process.name}: {describe(process, target)}")
        await processes.stop(process.pid, process.birth)
        process.version, process.gates = str(target.version), dict(target.gates)
        self._start(state, process)
        try:
            await wait_ready(self.directory, probes, [process])
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _move_nodes(self, state: State, targets: Mapping[str, Target], probes: Probes) -> None:
        """Take nodes out of their kubelet processes, then host each in one at its target."""
        for process in [p for p in state.of_kind("kubelet") if set(p.nodes) & set(targets)]:
            leaving = [node for node in process.nodes if node in targets]
            self._progress(f"kubelet {', '.join(leaving)}: {describe(process, targets[leaving[0]])}")
            if len(leaving) == len(process.nodes):
                await processes.stop(process.pid, process.birth)
                del state.processes[process.name]
            else:
                process.nodes = [node for node in process.nodes if node not in targets]
                self._reload_nodes(state, process)
                await self._await_unhosted(process, leaving)
        state.killed_nodes = [node for node in state.killed_nodes if node not in targets]
        changed = {self._host(state, node, target).name for node, target in targets.items()}
        for process in [state.processes[name] for name in sorted(changed)]:
            if processes.alive(process.pid, process.birth):
                self._reload_nodes(state, process)
            else:
                self._start(state, process)
        self.directory.save(state)
        try:
            await wait_ready(self.directory, probes, [state.processes[name] for name in changed])
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    def _host(self, state: State, node: str, target: Target) -> Process:
        """Put a node into the kubelet process of its version and gates, recorded anew if there is none."""
        check_gates(f"kubelet/{node}", target)
        for process in state.of_kind("kubelet"):
            if process.version == str(target.version) and process.gates == dict(target.gates):
                process.nodes.append(node)
                return process
        number = next(n for n in range(1, len(state.nodes) + 2) if f"kubelet-{n}" not in state.processes)
        process = Process(
            f"kubelet-{number}", "kubelet", str(target.version), dict(target.gates),
            port=self._free_port(state), nodes=[node],
        )  # fmt: skip
        state.processes[process.name] = process
        return process

    def _reload_nodes(self, state: State, process: Process) -> None:
        launching.write_nodes_file(self.directory, state, process)
        self.directory.save(state)
        processes.send(process.pid, process.birth, signal.SIGHUP)

    async def _await_unhosted(self, process: Process, nodes: Sequence[str]) -> None:
        async with Probes(self.directory) as probes:

            async def still_there() -> str:
                hosted = await probes.hosted(process) or {}
                return ", ".join(node for node in nodes if node in hosted)

            await wait_until(f"{process.name} letting go of nodes", still_there)

    def _start(self, state: State, process: Process) -> None:
        launching.start(self.directory, state, process)
        self.directory.save(state)

    async def _announce(self, state: State, name: str, what: str) -> None:
        """Put what was done to a component on the log's time line, by a server or, if none runs, directly."""
        process = state.components()[name]
        body = {
            "component": name,
            "what": what,
            "version": process.version,
            "gates": process.feature_gates.flag(),
        }
        async with Probes(self.directory) as probes:
            for server in state.of_kind("apiserver"):
                url = f"https://127.0.0.1:{server.port}{COMPONENTS_PATH}"
                if server.wanted and (await probes.request("POST", url, body))[0] < 300:
                    return
        from kubeskew.timeline import record

        await record(self.directory.storage_url, self._clock, body)
