"""The faults of the local cluster: a plan in its state directory, and the journals of its components.

Components read the plan when they start and on SIGHUP, and record its effects in their journals; so faults
can be set, cleared and listed while no API server answers, and for a dead component.
"""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.fault import Fault, FaultReport, Kind
from kubeskew.apimachinery.faults.journal import (
    PLAN,
    FaultPlan,
    PlannedFault,
    journal_path,
    load_plan,
    read_account,
)
from kubeskew.apimachinery.faults.keys import FaultError
from kubeskew.apimachinery.faults.syntax import ALL, read
from kubeskew.apimachinery.known_names import all_names, did_you_mean, meant
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.programs.interception import obstacle
from kubeskew.cluster.state import Process, State, StateDir, write_secret

_APPLIED_SECONDS = 5.0
POLL_SECONDS = 0.02


class ClusterFaults:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._directory = cluster.directory

    async def set(self, *bodies: Mapping[str, Any]) -> list[str]:
        """Faults are in effect when their ids are returned. Raises UserError."""
        with self._cluster.changing() as state:
            plan, faults = load(self._directory), []
            for body in bodies:
                plan, entry = added(state, plan, body)
                _check_programs(state, entry.fault)
                faults.append(entry.fault)
            for fault in faults:
                self._cluster.progress(f"{fault.component}: fault {fault.id} set")
                for component in having(state, fault):
                    await self._cluster.announce(state, component, "fault-set", f"{fault.id}: {fault}")
            await publish(self._directory, state, self._cluster.processes, plan, faults)
            return [fault.id for fault in faults]

    async def clear(self, *names: str) -> list[FaultReport]:
        """The reports show the calls and effects until then; `all` clears every fault. Raises UserError."""
        with self._cluster.changing() as state:
            plan, gone = without(load(self._directory), *names)
            faults = [entry.fault for entry in gone]
            await publish(self._directory, state, self._cluster.processes, plan, faults)
            cleared = reports(self._directory, state, gone)
            for report in cleared:
                detail = f"{report.fault.id}: fired {report.fired} times in {report.matched} calls"
                self._cluster.progress(f"{report.fault.component}: fault {detail}")
                for component in having(state, report.fault):
                    await self._cluster.announce(state, component, "fault-cleared", detail)
            return cleared

    async def current(self) -> list[FaultReport]:
        """Publishes the plan once more, so that components write their counts of calls to the journals; other
        changes of the cluster wait meanwhile.
        """
        with self._cluster.changing() as state:
            plan = load(self._directory)
            if not plan.entries:
                return []
            plan = replace(plan, revision=plan.revision + 1)  # the journals then have the calls
            faults = [entry.fault for entry in plan.entries]
            await publish(self._directory, state, self._cluster.processes, plan, faults)
            return reports(self._directory, state, plan.entries)

    async def fired(self, name: str, seconds: float) -> FaultReport:
        """Waits until a fault has fired, at most `seconds`; after a crash also until the components that it
        ended are down.
        """
        state, plan = self._directory.load(), load(self._directory)
        _, [entry] = without(plan, name)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            (report,) = reports(self._directory, state, [entry])
            if report.fired and not await self._is_crashing(state, entry):
                return report
            if loop.time() > deadline:
                return next(found for found in await self.current() if found.fault.id == name)
            await asyncio.sleep(POLL_SECONDS)

    async def _is_crashing(self, state: State, entry: PlannedFault) -> bool:
        if entry.fault.effect.kind is not Kind.CRASH:
            return False
        hit = [
            component
            for component in having(state, entry.fault)
            if _progress(self._directory, component, entry).fired
        ]
        return not all([await self._is_down(state, component) for component in hit])

    async def _is_down(self, state: State, component: str) -> bool:
        process = state.components()[component]
        if not self._cluster.runs(process):
            return True
        if process.kind != "kubelet":
            return False
        async with self._cluster.probes() as probes:
            hosted = await probes.hosted(process) or {}
        return bool(hosted.get(component.partition("/")[2], {}).get("crashed"))


def load(directory: StateDir) -> FaultPlan:
    """Raises ClusterError if the plan cannot be read."""
    path = directory.faults
    try:
        return load_plan(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"cannot read {path / PLAN}: {error}; remove the file") from error


def added(state: State, plan: FaultPlan, body: Mapping[str, Any]) -> tuple[FaultPlan, PlannedFault]:
    """Raises UserError for a fault that cannot be used."""
    try:
        fault = read(body, [entry.fault.id for entry in plan.entries])
    except FaultError as error:
        raise UserError(f"fault: {error}") from error
    if not having(state, fault):
        known = state.components()
        hint = did_you_mean(fault.component, all_names(known)) or f"; there are {', '.join(known)}"
        raise UserError(f"fault: there is no component {fault.component}{hint}")
    entry = PlannedFault(plan.revision + 1, fault, {**body, "id": fault.id})
    return FaultPlan(plan.revision + 1, (*plan.entries, entry)), entry


def _check_programs(state: State, fault: Fault) -> None:
    """Raises UserError for a fault that a real program cannot be given."""
    for reason in _obstacles(state, fault):
        if reason:
            raise UserError(f"fault: {reason}")


def _obstacles(state: State, fault: Fault) -> Sequence[str]:
    """Gives for each component of the fault why it cannot have it; empty where it can."""
    known = state.components()
    found = []
    for name in having(state, fault):
        reason = obstacle(known[name], fault)
        found.append(f"{name} is {known[name].program}, and {reason}" if reason else "")
    return found


def without(plan: FaultPlan, *names: str) -> tuple[FaultPlan, Sequence[PlannedFault]]:
    """The pair is the plan without these faults, or without `all`, and the removed ones. Raises UserError."""
    known = [entry.fault.id for entry in plan.entries]
    for name in names:
        if name not in (ALL, *known):
            hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise UserError(f"there is no fault {name}{hint}")
    gone = [entry for entry in plan.entries if ALL in names or entry.fault.id in names]
    kept = tuple(entry for entry in plan.entries if entry not in gone)
    return FaultPlan(plan.revision + 1, kept), gone


def having(state: State, fault: Fault) -> list[str]:
    """Faults apply to one component, or to both of a driver."""
    return meant(fault.component, state.components())


async def publish(
    directory: StateDir, state: State, processes: Processes, plan: FaultPlan, faults: Iterable[Fault]
) -> None:
    """Returns when the plan is in effect in all running components with one of the faults. Raises
    ClusterError.
    """
    path = directory.faults
    known = state.components()
    components = [*dict.fromkeys(name for fault in faults for name in having(state, fault))]
    hosting = {known[name].name: known[name] for name in components}
    running = [n for n in components if processes.alive(known[n].pid, known[n].birth)]
    for name in running:  # a process that writes no journal would take the signal for its end
        if not journal_path(path, name).exists():
            raise ClusterError(f"{name} takes no faults, for another kubeskew started it: restart it")
    write_secret(path / PLAN, json.dumps(plan.as_json(), indent=1))
    for process in hosting.values():
        processes.send(process.pid, process.birth, signal.SIGHUP)
    for name in components:
        await _applied(directory, known[name], processes, name, plan.revision)


async def _applied(
    directory: StateDir, process: Process, processes: Processes, component: str, revision: int
) -> None:
    """Waits until the plan is in effect in a component; one that does not run reads it when it starts. Raises
    ClusterError.
    """
    journal = journal_path(directory.faults, component)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _APPLIED_SECONDS
    while processes.is_up(process.pid, process.birth) and read_account(journal).applied < revision:
        if loop.time() > deadline:
            log = directory.log(process.name)
            raise ClusterError(f"{component} did not take up its faults: restart it, or see {log}")
        await asyncio.sleep(POLL_SECONDS)


def reports(directory: StateDir, state: State, entries: Sequence[PlannedFault]) -> list[FaultReport]:
    found = []
    for entry in entries:
        components = having(state, entry.fault)
        progress = [_progress(directory, component, entry) for component in components]
        seen: Counter[str] = Counter()
        for component in components:
            seen += read_account(journal_path(directory.faults, component)).seen
        matched, fired = sum(each.matched for each in progress), sum(each.fired for each in progress)
        obstacles = _obstacles(state, entry.fault)
        found.append(FaultReport(entry.fault, matched, fired, seen, obstacles[0] if all(obstacles) else ""))
    return found


def _progress(directory: StateDir, component: str, entry: PlannedFault) -> Progress:
    account = read_account(journal_path(directory.faults, component))
    return account.progress.get((entry.fault.id, entry.generation)) or Progress()
