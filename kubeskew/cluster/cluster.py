"""The local cluster, which is started, changed component by component, and ended.

There is no supervising daemon. Every command reads the record, does its work under the directory's lock and
writes the record before and after each process it starts, so that a crash leaves nothing unknown. Kills,
which a component cannot record itself, are put on the log's time line here.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.environment import COMPONENTS_PATH
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Branch
from kubeskew.cluster import branches, creation, driver_accounts, drivers, launcher, platform, skew
from kubeskew.cluster.branches import fork
from kubeskew.cluster.change_plan import (
    Target,
    changed_gates,
    check_direction,
    check_gates,
    check_portable,
    check_steps,
    describe,
    movable,
    select,
    versioned,
)
from kubeskew.cluster.clusterfile import REAL
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.controlplane import addons, static_pods
from kubeskew.cluster.failures import ClusterError, ProgramError, UserError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.processes import STOP_SECONDS, environment
from kubeskew.cluster.programs.arguments import SHIM
from kubeskew.cluster.programs.kubelets import acted_nodes_only, endpoint_of_node
from kubeskew.cluster.programs.selection import SAME, Choice, ProgramFlags, choose_again
from kubeskew.cluster.readiness import wait_cluster, wait_ready, wait_until
from kubeskew.cluster.state import Process, State, StateDir

if TYPE_CHECKING:
    from kubeskew.apiserver.storage.factory import Storage


async def announce_event(
    probes: Probes, state: State, url: str, clock: Clock, event: Mapping[str, str], storage: "Storage"
) -> None:
    """Appends the event through an API server or, if none answers, directly to the log at `url`."""
    for server in state.of_kind("apiserver"):
        if probes.alive(server):
            status, _ = await probes.request("POST", server.url(COMPONENTS_PATH), event)
            if 200 <= status < 300:
                return
    await record_event(url, clock, event, storage)


async def record_event(url: str, clock: Clock, event: Mapping[str, str], storage: "Storage") -> None:
    """Raises ClusterError if the log at `url` cannot be written."""
    from kubeskew.apiserver.storage.interfaces import StorageError
    from kubeskew.apiserver.storage.records import ComponentEvent

    entry = ComponentEvent(
        *(0, event["component"], event["what"], event["version"], event["gates"], clock.now()),
        event.get("detail", ""),
    )
    try:
        log = await storage.log(url, clock)
        try:
            await log.record(entry)
        finally:
            await log.close()
    except StorageError as error:
        raise ClusterError(f"cannot write to the log: {error}") from error


def _as_recorded(stopped: Iterable[Process]) -> dict[str, Target]:
    """The components of stopped processes that may have real programs, at the versions that they had."""
    others = {process.name: process for process in stopped if process.kind != "kubelet"}
    real = {p.client: p for p in stopped if p.kind == "kubelet" and p.program is not None}
    return {name: Target.of(process) for name, process in (others | real).items()}


def _shown(process: Process) -> str:
    return f" ({process.program})" if process.program is not None else ""


class Cluster:
    """Manages the cluster of one state directory. `progress` receives short lines about each step."""

    def __init__(self, directory: StateDir, platform: Platform, progress: Callable[[str], None]) -> None:
        self.directory = directory
        self.progress = progress
        self.processes = platform.processes
        self._platform = platform
        self._ports = platform.ports()

    # -- start and end -------------------------------------------------------------------------------------

    async def up(self, spec: ClusterSpec | None, *, force: bool = False) -> None:
        """An existing cluster is picked up as it is recorded. Returns when the cluster is ready.

        Without `spec` there has to be one. With `force`, real programs may be of another minor than their
        components.
        """
        if spec is None:
            self.directory.load()
        elif not self.directory.exists():
            with self._ports:
                # errors are raised before anything is written
                planned = creation.plan(spec, self._ports, self._platform.inspect, force=force)
                self._check_kubelets(planned)
                await self._check_runtimes(planned)
            if spec.storage:
                await creation.claim_log(self._platform.storage, self._platform.clock, spec.storage)
        with self.directory.locked(), self._ports:
            is_new = spec is not None and not self.directory.exists()
            if spec is None or self.directory.exists():
                state = self.directory.load()
                await creation.check_log(self._platform.storage, self._platform.clock, self.directory)
                self.progress("picking up the cluster that is there")
                if added := creation.add_controllers(state, self._ports):
                    self.progress(f"adding {', '.join(added)}")
                    creation.add_controller_credentials(
                        self.directory, state, self._platform.clock.now(), added
                    )
                self._revive_nodes(state)
            else:
                state = creation.create(
                    *(self.directory, spec, self._ports, self._platform.clock.now()),
                    *(self._platform.credentials, self._platform.inspect),
                    force=force,
                )
            platform.ensure_runtime_dir(state, self._platform.new_runtime_dir)
            self.directory.save(state)
            stopped = [p for p in state.processes.values() if not self.runs(p)]
            stopped.sort(key=lambda p: skew.UPGRADE_ORDER.index(p.kind))
            self._choose_programs(state, _as_recorded(stopped), force=force)
            self._check_kubelets(state)
            await self._check_runtimes(state)
            for process in stopped:
                self.progress(f"starting {process.name} {process.version}{_shown(process)}")
            if state.abandoned_leases:
                await self._release_leases(state)
            await self._start(state, *(process for process in stopped if not self.runs(process)))
            async with self.probes() as probes:
                try:
                    ready = wait_ready(self.directory, probes, state, state.processes.values(), self.progress)
                    introduced = (
                        driver_accounts.introduce(probes, state),
                        addons.introduce_metrics_server(probes, state),
                        addons.introduce_network(probes, state),
                    )
                    await asyncio.gather(*introduced, ready)
                    await wait_cluster(self.directory, probes, state, self.progress)
                    if static_pods.nodes(state):
                        await addons.install(probes, state)
                    await addons.wait_metrics_api(probes, state)
                except ProgramError as error:
                    await self._give_up(state, stopped, is_new=is_new)
                    if not is_new:
                        raise
                    raise UserError(error.reason) from None  # the log is gone, too
                except ClusterError as error:
                    hint = "What has started runs on: `kubeskew status` shows it, `kubeskew down` stops it"
                    raise ClusterError(f"{error}\n{hint}") from None

    def _check_kubelets(self, state: State) -> None:
        """Raises UserError if a kubelet is to be a real one, and none can run on this machine."""
        self._check_real_nodes(
            state, [process.nodes[0] for process in state.of_kind("kubelet") if process.program is not None]
        )

    async def _check_runtimes(self, state: State) -> None:
        """Raises UserError if a node's pods are to run on a container runtime that does not answer."""
        reasons: dict[str, str] = {}
        for process in [each for each in state.of_kind("kubelet") if each.program is None]:
            for node in process.nodes:
                endpoint = endpoint_of_node(state, node)
                if endpoint and endpoint not in reasons:
                    reasons[endpoint] = await self._platform.endpoint_obstacle(endpoint)
                if endpoint and reasons[endpoint]:
                    raise UserError(f"kubelet/{node}: {reasons[endpoint]}")

    def _check_real_nodes(self, state: State, nodes: Sequence[str]) -> None:
        for node in nodes:
            if reason := acted_nodes_only(state, node) or self._platform.kubelet_obstacle():
                raise UserError(f"kubelet/{node}: {reason}")

    async def _give_up(self, state: State, started: Sequence[Process], *, is_new: bool) -> None:
        """Stops what was started with a real program that cannot run; nothing is left of a new cluster."""
        self.progress("stopping what has started")
        if len(started) == len(state.processes):
            await self._stop_all(state)
        else:
            await self._stop(state, *started)
            self.directory.save(state)
        if is_new:
            await creation.remove_logs(self._platform.storage, self.directory)
            self.directory.clear()

    def _choose_programs(
        self, state: State, targets: Mapping[str, Target], *, force: bool
    ) -> dict[str, Choice]:
        """Chooses the real programs of components that are to start, reports which stay emulated and why, and
        checks gates. Components that do not move are given their programs. Raises UserError.
        """
        choices = {}
        for name, target in targets.items():
            process = state.components()[name]
            choice = self._choice(state, name, target, force=force)
            if choice.reason:
                self.progress(f"{name} {target.version} stays emulated: {choice.reason}")
            elif choice.note:
                self.progress(
                    f"{name} {target.version}: {choice.program and choice.program.path}: {choice.note}"
                )
            choices[name] = choice
            if process.version == str(target.version):
                creation.give_program(state, process, choice, self._ports)
        return choices

    def _choice(self, state: State, name: str, target: Target, *, force: bool = False) -> Choice:
        wanted = target.version, target.bugs, self._platform.inspect
        return choose_again(state, name, state.components()[name], *wanted, force=force)

    async def _release_leases(self, state: State) -> None:
        """Starts only the API servers, and releases leases in a log that was branched off, which nobody
        holds.
        """
        servers = state.of_kind("apiserver")
        await self._start(state, *(server for server in servers if not self.runs(server)))
        async with self.probes() as probes:
            await wait_ready(self.directory, probes, state, servers, self.progress)
            await branches.release_leases(probes, servers[0], self._platform.clock)
        state.abandoned_leases = False
        self.directory.save(state)

    def _revive_nodes(self, state: State) -> None:
        """Brings back killed kubelets whose process still runs for others."""
        killed, state.killed_nodes = set(state.killed_nodes), []
        for process in state.of_kind("kubelet"):
            if killed & set(process.nodes):
                self._reload_nodes(state, process)

    async def down(self, *, purge: bool = False) -> None:
        """API servers stop last; `purge` removes the contents of the state directory, too."""
        nothing_runs = self.directory.half_made() or self.directory.rewinding.exists()
        if not (purge and nothing_runs):
            with self.changing() as state:
                await self._stop_all(state)
        if purge:
            await creation.remove_logs(self._platform.storage, self.directory)
            self.directory.purge()

    async def _stop_all(self, state: State) -> None:
        servers = state.of_kind("apiserver")
        others = [p for p in state.processes.values() if p not in servers]
        try:
            await self._stop(state, *others)
        finally:  # no process may keep running, even if stopping others failed
            await self._stop(state, *servers)
        for process in state.processes.values():
            process.pid, process.birth = 0, ""
        if state.network_socket:
            NetworkAgent(state.network_socket).end()  # it outlives the component
        places = sorted(
            self.directory.kubelet_root().glob("*/host")
        )  # of nodes whose containers are processes
        if places:
            from kubeskew.kubelet.containers.host.cleanup import cleanup

            for place in places:
                await asyncio.to_thread(cleanup, place)
        await self._end_remote_pods()
        platform.remove_runtime_dir(state)
        self.directory.save(state)

    async def _end_remote_pods(self) -> None:
        """Ends the pods of nodes that run them on a container runtime of the machine."""
        for place in sorted(self.directory.kubelet_root().glob("*/remote")):
            from kubeskew.kubelet.containers.remote.cleanup import cleanup
            from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError

            try:
                await cleanup(place)
            except ContainerRuntimeError as error:
                self.progress(f"pods of {place.parent.name} stay in the container runtime: {error}")

    # -- the time machine ----------------------------------------------------------------------------------

    async def fork(self, revision: int, target: StateDir) -> Branch:
        """This cluster does not change."""
        with self._ports:
            return await fork(self.directory, target, revision, self._platform, self._ports)

    async def rewind(self, revision: int) -> Path:
        """Stops the cluster first; the result is the directory with everything that is cut off."""
        with self.changing() as state:
            await branches.check_rewind(self.directory, revision, self._platform)
            await self._stop_all(state)
            return await branches.rewind(self.directory, state, revision, self._platform, self._ports)

    def probes(self) -> Probes:
        return Probes(self._platform.connect(self.directory), self.processes)

    def runs(self, process: Process) -> bool:
        return self.processes.alive(process.pid, process.birth)

    @contextmanager
    def changing(self) -> Iterator[State]:
        """Holds the lock while the record is changed. Raises UserError if there is no cluster."""
        self.directory.load()
        with self.directory.locked(), self._ports:
            yield self.directory.load()

    # -- change --------------------------------------------------------------------------------------------

    async def move(
        self,
        to: Version,
        names: Sequence[str],
        *,
        downgrade: bool,
        force: bool,
        programs: ProgramFlags = SAME,
    ) -> None:
        """Moves components (all if none is named) in upstream's order; those at the version already stay."""
        with self.changing() as state:
            programs.apply(state, names)
            components = state.components()
            chosen = [name for name in movable(state, names) if Version.parse(components[name].version) != to]
            if not chosen:
                self.progress(f"{', '.join(names) or 'every component'}: at {to} already")
                return
            if not force:
                check_direction(state, chosen, to, downgrade=downgrade)
            order = skew.downgrade_order if downgrade else skew.upgrade_order
            targets = {n: Target(to, components[n].gates, components[n].bugs) for n in order(chosen)}
            await self._change(state, targets, force=force, moving=True)

    async def set_gates(self, gates: Mapping[str, bool | None], names: Sequence[str]) -> None:
        """Components (all if none is named) restart with the gates; None unsets one."""
        with self.changing() as state:
            targets = {}
            for name in skew.upgrade_order(versioned(state, names)):
                process = state.components()[name]
                target = replace(Target.of(process), gates=changed_gates(process.gates, gates))
                check_gates(name, target, self._choice(state, name, target).program)
                if target.gates != process.gates:
                    targets[name] = target
            if not targets:
                self.progress(f"{', '.join(names) or 'every component'}: has these gates already")
                return
            await self._change(state, targets)

    async def restart(self, name: str, programs: ProgramFlags = SAME, *, force: bool = False) -> None:
        """The component runs the real program that the record, or `programs`, has for it by now; with
        `force`, also one of another minor.
        """
        with self.changing() as state:
            programs.apply(state, [name])
            targets = {}
            for each in select(state, [name]):
                targets[each] = Target.of(state.components()[each])
            await self._change(state, targets, force=force)

    async def kill(self, name: str) -> None:
        """Sends SIGKILL; the component stays down until it is restarted."""
        with self.changing() as state:
            chosen = select(state, [name])
            running = [each for each in chosen if each in self._up(state)]
            for process in {p.name: p for n, p in state.components().items() if n in chosen}.values():
                await self._kill(state, process, [n.partition("/")[2] for n in chosen])
            for each in running:
                self.progress(f"{each}: killed")
                await self.announce(state, each, "killed")
            if not running:
                self.progress(f"{name} does not run")

    async def switch(self, driver: str, nodes: Sequence[str], changes: Mapping[str, Any]) -> None:
        """Changes the fault switches of a driver, on these nodes or on all; returns when they
        are in effect.
        """
        with self.changing() as state:
            name = drivers.component(driver)
            select(state, [name])
            drivers.switch(state, driver, nodes, changes)
            self.progress(f"{name}: {', '.join(f'{key}={value}' for key, value in changes.items())}")
            drivers.reload(self.directory, state, self.processes)
            if running := [p for p in drivers.processes_of(state, driver) if self.runs(p)]:
                async with self.probes() as probes:
                    await wait_ready(self.directory, probes, state, running, self.progress)

    def _up(self, state: State) -> set[str]:
        alive = {p.name for p in state.processes.values() if self.runs(p)}
        killed = {f"kubelet/{node}" for node in state.killed_nodes}
        return {n for n, p in state.components().items() if p.name in alive and n not in killed}

    async def _kill(self, state: State, process: Process, nodes: Sequence[str]) -> None:
        """Kubelet processes that host other nodes stay; only `nodes` are ended in them."""
        leaving = [node for node in process.nodes if node in nodes]
        state.killed_nodes = sorted({*state.killed_nodes, *leaving})
        if set(process.nodes) - set(state.killed_nodes):
            self._reload_nodes(state, process)
            await self._await_unhosted(process, leaving)
            return
        process.wanted = False
        self.directory.save(state)
        await self.processes.stop(process.pid, process.birth, kill=True)

    async def _change(
        self, state: State, targets: Mapping[str, Target], *, force: bool = False, moving: bool = False
    ) -> None:
        """Changes components in the given order; all steps are checked before the first. With `force`, real
        programs may be of another minor, and of components that are `moving`, steps may be unsupported.
        """
        choices = self._choose_programs(state, targets, force=force)
        chosen = {name: choice.program for name, choice in choices.items()}
        if moving:
            check_portable(targets, chosen)
        for name, target in targets.items():
            check_gates(name, target, chosen[name])
        if moving and not force:
            check_steps(state, targets)
        real = [name.partition("/")[2] for name in targets if kind_of(name) == "kubelet" and chosen[name]]
        self._check_real_nodes(state, real)
        kinds = [SHIM if chosen[name] else kind_of(name) for name in targets]
        self.processes.prepare(kinds, environment(os.environ))
        kubelets = {n.partition("/")[2]: t for n, t in targets.items() if kind_of(n) == "kubelet"}
        async with self.probes() as probes:
            for name in targets:
                if kind_of(name) != "kubelet":
                    await self._replace(state, state.processes[name], targets[name], choices[name], probes)
                elif kubelets:
                    await self._move_nodes(state, kubelets, choices, probes)
                    kubelets = {}
            await wait_cluster(self.directory, probes, state, self.progress)

    async def _replace(
        self, state: State, process: Process, target: Target, choice: Choice, probes: Probes
    ) -> None:
        program = f" ({choice.program})" if choice.program else ""
        self.progress(f"{process.name}: {describe(process, target)}{program}")
        await self._stop(state, process)
        self._ports.keep(process.port)
        process.version = str(target.version)
        process.gates, process.bugs = dict(target.gates), dict(target.bugs)
        creation.give_program(state, process, choice, self._ports)
        self.directory.save(state)
        await self._start(state, process)
        await self._await_ready(state, [process], probes)
        shown = static_pods.nodes(state)
        for kubelet in state.of_kind("kubelet") if shown else ():
            if self.runs(kubelet) and any(node in kubelet.nodes for node in shown):
                self._reload_nodes(state, kubelet)  # its static pods have changed

    async def _await_ready(self, state: State, started: Sequence[Process], probes: Probes) -> None:
        """Raises UserError, and stops them, if one runs a real program that does not become ready."""
        try:
            await wait_ready(self.directory, probes, state, started, self.progress)
        except ProgramError as error:
            real = [process for process in started if process.program is not None]
            await self._stop(state, *real)
            if not any(process.kind in REAL for process in real):
                raise
            names = [process.client if process.kind == "kubelet" else process.name for process in real]
            remedy = f"`kubeskew restart {names[0]} --real none` has it emulated"
            raise UserError(f"{error}. Mend it and restart it, or {remedy}") from None

    async def _move_nodes(
        self, state: State, targets: Mapping[str, Target], choices: Mapping[str, Choice], probes: Probes
    ) -> None:
        """Takes nodes out of their kubelet processes, then hosts each in one at its target."""
        for process in [p for p in state.of_kind("kubelet") if set(p.nodes) & set(targets)]:
            leaving = [node for node in process.nodes if node in targets]
            programs = {str(choices[f"kubelet/{node}"].program or "") for node in leaving}
            shown = f" ({', '.join(sorted(programs))})" if programs != {""} else ""
            self.progress(f"kubelet {', '.join(leaving)}: {describe(process, targets[leaving[0]])}{shown}")
            if len(leaving) == len(process.nodes):
                await self._stop(state, process)
                del state.processes[process.name]
            else:
                await self._part(state, process, leaving)
        state.killed_nodes = [node for node in state.killed_nodes if node not in targets]
        changed = {
            creation.host(state, self._ports, node, target, choices[f"kubelet/{node}"]).name
            for node, target in targets.items()
        }
        moved = [state.processes[name] for name in sorted(changed)]
        for process in moved:
            if self.runs(process):
                self._reload_nodes(state, process)
        await self._start(state, *(process for process in moved if not self.runs(process)))
        self.directory.save(state)
        await self._await_ready(state, moved, probes)

    async def _part(self, state: State, process: Process, leaving: Sequence[str]) -> None:
        unreported = [] if self._can_report(state, process) else [f"kubelet/{n}" for n in leaving]
        for name in [each for each in unreported if each in self._up(state)]:
            await self.announce(state, name, "stopped")
        process.nodes = [node for node in process.nodes if node not in leaving]
        self._reload_nodes(state, process)
        await self._await_unhosted(process, leaving)

    def _reload_nodes(self, state: State, process: Process) -> None:
        launcher.write_nodes_file(self.directory, state, process)
        self.directory.save(state)
        self.processes.send(process.pid, process.birth, signal.SIGHUP)

    async def _await_unhosted(self, process: Process, nodes: Iterable[str]) -> None:
        async with self.probes() as probes:

            async def still_there() -> str:
                hosted = await probes.hosted(process) or {}
                return ", ".join(node for node in nodes if node in hosted)

            await wait_until(f"{process.name} letting go of nodes", still_there)

    async def _start(self, state: State, *starting: Process) -> None:
        """Starts processes concurrently; each is recorded, even if others fail."""
        creation.check_ports(state, starting, self._ports)
        tasks = [asyncio.ensure_future(self._start_one(state, process)) for process in starting]
        try:
            await asyncio.shield(asyncio.gather(*tasks))
        finally:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_one(self, state: State, process: Process) -> None:
        if process.program is not None:
            creation.add_program_credentials(self.directory, process, self._platform.clock.now())
        await launcher.start(self.directory, state, process, self.processes)
        self.directory.save(state)

    async def _stop(self, state: State, *stopping: Process) -> None:
        """Stops processes gracefully, and puts on the time line the events that they cannot report
        themselves.
        """
        running = [process for process in stopping if self.runs(process)]
        components = [(n, p) for n, p in state.components().items() if p in running]
        unreported = [n for n, p in components if not self._can_report(state, p) and n in self._up(state)]
        gently = await asyncio.gather(*(self.processes.stop(p.pid, p.birth) for p in running))
        killed = [process for process, gentle in zip(running, gently, strict=True) if not gentle]
        for process in killed:
            self.progress(f"{process.name} did not stop in {STOP_SECONDS:.0f} s and was killed")
        for name, process in components:
            if process in killed or name in unreported:
                await self.announce(state, name, "killed" if process in killed else "stopped")

    def _can_report(self, state: State, process: Process) -> bool:
        """True if the process can report its stop to an API server; a server writes to the log itself."""
        return process.kind == "apiserver" or any(map(self.runs, state.servers_of(process.client)))

    async def announce(self, state: State, name: str, what: str, detail: str = "") -> None:
        """Puts an event of a component on the time line; a failure only goes to `progress`."""
        process = state.components()[name]
        event = {
            "component": name,
            "what": what,
            "version": process.version,
            "gates": process.feature_gates.flag(),
            "detail": detail,
        }
        try:
            async with self.probes() as probes:
                platform, url = self._platform, self.directory.storage_url
                await announce_event(probes, state, url, platform.clock, event, platform.storage)
        except ClusterError as error:  # the change itself is complete
            self.progress(f"{name}: {what}, but {error}")
