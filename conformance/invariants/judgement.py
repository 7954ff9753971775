"""Judges a run of kubeskew's own cluster by its log, and by its processes and files at the end.

Invariants are checked over the log. Requests that the authorizer refused are found in the component's log.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import SeededEntropy, parse_timestamp
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.cluster.autoscaling.simulator import feasible, source_of_cluster
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.log_lines import time_of
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.conformance.evidence.authors import failed
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.conformance.invariants.catalogue import invariants, measuring
from kubeskew.conformance.invariants.cluster import STARTED, Cluster
from kubeskew.conformance.invariants.controllers import is_heartbeat
from kubeskew.conformance.invariants.invariant import (
    USUAL,
    ComponentFailure,
    Evidence,
    Invariant,
    Tolerance,
    Violation,
)
from kubeskew.conformance.programs import announced
from kubeskew.scheduler.autoscaling.snapshot import SimulationError

Span = tuple[datetime, datetime]

_SETTLING = timedelta(seconds=10)  # until written roles have effect
_SERVER = "system:apiserver"
_RBAC = ".rbac.authorization.k8s.io"
# The authorizer's words, not those of admission. Names of objects may be drawn, and are left out.
_FORBIDDEN = re.compile(
    r'forbidden: (User ".*?" cannot \S+ (?:path ".*?"|resource ".*?" in API group ".*?" '
    r'(?:in the namespace ".*?"|at the cluster scope)))'
)
_OF_NODES = frozenset({"pods", "resourceslices.resource.k8s.io", "noderesourceslices.resource.k8s.io"})
# The node authorizer's words: a node may read what its pods use, and write its slices, as long as they are
# there.
_UNRELATED = re.compile(r"no relationship found between node '(\S+)' and this object")


def refused(
    text: str, starting: Sequence[Span], related: Mapping[str, Sequence[Span]], now: datetime
) -> list[str]:
    """Texts `User "…" cannot list …` of a component's log, each once and sorted; `now` gives lines of real
    programs their year.

    Refusals while an API server was `starting` are left out: the default roles were on their way. So are
    those for want of a relation to a node, in the spans in which its relations change (`related`).
    """
    found: set[str] = set()
    last = ""  # the time of the line, or of one before, for messages of several lines
    for line in text.splitlines():
        refusal = _FORBIDDEN.search(line)
        last = time_of(line, now) or last
        if refusal is None or refusal[1] in found:
            continue
        if not last:
            found.add(refusal[1])
            continue
        time = parse_timestamp(last)
        unrelated = _UNRELATED.search(line)
        excused = (*starting, *(related.get(unrelated[1], ()) if unrelated else ()))
        if not any(begin < time < end for begin, end in excused):
            found.add(refusal[1])
    return sorted(found)


def starts_of_servers(log: Sequence[Logged]) -> list[Span]:
    """Spans from each start of an API server in which the default roles may not be there yet.

    A server reports its start when it is ready, so that some refusals come before; on a slow machine its last
    role is written long after.
    """
    found: list[Span] = []
    for entry in log:
        if _is_server_start(entry):
            time = parse_timestamp(entry.time)
            found.append((time - _SETTLING, time + _SETTLING))
        elif found and _is_default_role(entry):
            begin, end = found[-1]
            found[-1] = begin, max(end, parse_timestamp(entry.time) + _SETTLING)
    return found


def relations_of_nodes(log: Sequence[Logged]) -> dict[str, list[Span]]:
    """Spans by node in which its relations may be seen differently: one for each deleted pod and resource
    slice, of which its kubelet may not know; and, as a real API server's authorizer learns of pods by a
    watch, one for each pod that was bound while such a server was there.
    """
    found: dict[str, list[Span]] = {}
    bound: set[str] = set()
    real: set[str] = set()  # API servers that are real programs at present
    for entry in log:
        if isinstance(entry, ComponentChange):
            if _is_server_start(entry):
                (real.add if announced(entry.detail) else real.discard)(entry.component)
        elif isinstance(entry, Write) and entry.resource in _OF_NODES:
            node, uid = _node_of(entry), str(entry.value["metadata"].get("uid", ""))
            if not node:
                continue
            is_binding = entry.resource == "pods" and uid not in bound
            bound.add(uid)
            if entry.verb != "delete" and not (real and is_binding):
                continue
            time = parse_timestamp(entry.time)
            span = (time - USUAL.cache_lag, time + USUAL.cache_lag)  # clocks may differ
            found.setdefault(node, []).append(span)
    return found


def _node_of(entry: Write) -> str:
    spec = entry.value.get("spec") or {}
    return str(spec.get("nodeName") or entry.value.get("nodeName") or "")  # up to 1.30 slices have no spec


def _is_server_start(entry: Logged) -> bool:
    if not isinstance(entry, ComponentChange):
        return False
    return entry.what == STARTED and kind_of(entry.component) == "apiserver"


def _is_default_role(entry: Logged) -> bool:
    return isinstance(entry, Write) and entry.user == _SERVER and entry.resource.endswith(_RBAC)


class Checker:
    """Judges a run as its log grows: `see` takes each entry, `finish` is called once."""

    def __init__(self, invariants: Sequence[Invariant]) -> None:
        self.cluster = Cluster()
        self._invariants = invariants

    def see(self, entry: Logged) -> Iterator[Violation]:
        change = self.cluster.apply(entry)
        if change is None or not isinstance(entry, Write):
            return
        for invariant in self._invariants:
            for message in invariant.see(change, self.cluster):
                yield Violation(invariant.code, invariant.name, message, entry.revision, entry.time)

    def finish(self, evidence: Evidence, *, at_rest: bool) -> Iterator[Violation]:
        for invariant in self._invariants:
            for message in invariant.at_end(self.cluster, evidence, at_rest=at_rest):
                yield Violation(
                    *(invariant.code, invariant.name, message),
                    *(self.cluster.revision, self.cluster.time),
                )


def check(
    log: Iterable[Logged], invariants: Sequence[Invariant], evidence: Evidence, *, at_rest: bool
) -> list[Violation]:
    """Violations come in the order in which they came about."""
    checker = Checker(invariants)
    found = [violation for entry in log for violation in checker.see(entry)]
    return [*found, *checker.finish(evidence, at_rest=at_rest)]


def last_change(log: Iterable[Logged]) -> str:
    """Heartbeats do not count; the time is empty if there is no write."""
    time = ""
    for entry in log:
        if isinstance(entry, Write) and not is_heartbeat(entry):
            time = entry.time
    return time


def is_at_rest(log: Iterable[Logged], now: datetime, seconds: float) -> bool:
    """Heartbeats do not count; nothing else was written for these seconds."""
    last = last_change(log)
    return not last or now - parse_timestamp(last) >= timedelta(seconds=seconds)


async def judge(
    directory: StateDir,
    platform: Platform,
    log: Sequence[Logged],
    note: Callable[[str], None],
    *,
    at_rest: bool,
    tolerance: Tolerance = USUAL,
    rereads: Sequence[str] = (),
) -> list[Violation]:
    """`note` is called with each judgement that could not be made.

    Only `at_rest` are missing results violations. `rereads` are objects that read otherwise from a server
    that has just started.
    """
    state = directory.load()
    managers = state.of_kind("controller-manager")
    measure = measuring(managers[0].feature_gates, platform.clock) if managers else None
    checker = Checker(invariants(measure, tolerance))
    broken = [violation for entry in log for violation in checker.see(entry)]
    asks = at_rest and any(_is_pending(pod) for pod in checker.cluster.all("pods"))
    found = Evidence(
        node_records(directory),
        _failures(state, platform.processes, await _hosted(directory, platform, state), log),
        _refusals(directory, state, log, platform.clock.now()),
        await _feasible(directory, platform, note) if asks else {},
        await _unready(directory, platform, state) if asks else "",
        rereads,
    )
    return [*broken, *checker.finish(found, at_rest=at_rest)]


def _is_pending(pod: ObjectView) -> bool:
    return not (pod.get("spec") or {}).get("nodeName") and not is_terminal(pod)


async def _hosted(directory: StateDir, platform: Platform, state: State) -> dict[str, str]:
    """Gives by node the reason that it does not run, though its kubelet process lives."""
    living = [each for each in state.of_kind("kubelet") if _lives(platform.processes, each)]
    async with Probes(platform.connect(directory), platform.processes) as probes:
        hosted = [await probes.hosted(process) for process in living]
    entries = [
        (name, entry.get("failure") or "") for nodes in hosted for name, entry in (nodes or {}).items()
    ]
    return {f"kubelet/{name}": failure for name, failure in entries if failure}


async def _unready(directory: StateDir, platform: Platform, state: State) -> str:
    """Gives what the living schedulers lack to be ready; it is empty if one is ready."""
    living = [each for each in state.of_kind("scheduler") if _lives(platform.processes, each)]
    async with Probes(platform.connect(directory), platform.processes) as probes:
        missing = [await probes.missing(process) for process in living]
    return "; ".join(", ".join(each.splitlines()) for each in missing) if all(missing) else ""


def _failures(
    state: State, processes: Processes, nodes: Mapping[str, str], log: Sequence[Logged]
) -> list[ComponentFailure]:
    """A node that does not start fails, and so does a component whose process ended by itself: at its start
    if it says so itself, as a real program's does."""
    found = [ComponentFailure(name, message, at_start=True) for name, message in sorted(nodes.items())]
    wanted = [each for each in state.processes.values() if each.wanted and each.pid]
    at_start = {change.component: change.detail for change in failed(log)}
    for each in wanted:
        if _lives(processes, each):
            continue
        detail = at_start.get(each.client)
        message = "its process has ended" if detail is None else detail
        found.append(ComponentFailure(each.name, message, at_start=detail is not None))
    return found


async def _feasible(directory: StateDir, platform: Platform, note: Callable[[str], None]) -> dict[str, str]:
    """Gives a feasible node by pending pod, as the plugins see it; it is empty if no scheduler can be asked,
    or if the plugins panic, as the scheduler does (I14 reports that)."""
    source = source_of_cluster(directory, platform.dial)
    try:
        return await feasible(replace(source, clock=platform.clock, entropy=SeededEntropy(0)))
    except (*CONNECTION_ERRORS, ClusterError, SimulationError, Panic) as error:
        note(f"Whether pending pods fit a node (I04) is not judged: {error}")
        return {}


def _lives(processes: Processes, process: Process) -> bool:
    return processes.alive(process.pid, process.birth)


def _refusals(
    directory: StateDir, state: State, log: Sequence[Logged], now: datetime
) -> dict[str, list[str]]:
    starting, related = starts_of_servers(log), relations_of_nodes(log)
    logs = {name: directory.log(name) for name, each in state.processes.items() if each.kind != "apiserver"}
    return {
        name: refused(path.read_text(errors="replace"), starting, related, now)
        for name, path in logs.items()
        if path.exists()
    }
