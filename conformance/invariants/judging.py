"""Judges the run of a cluster of kubeskew's own: its log, and what its processes and files say at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.cluster.autoscaling.run import feasible, source_of_cluster
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.conformance.invariants.catalogue import invariants, measuring
from kubeskew.conformance.invariants.checking import Checker
from kubeskew.conformance.invariants.cluster import is_terminal
from kubeskew.conformance.invariants.invariant import ComponentFailure, Evidence
from kubeskew.conformance.invariants.refusals import ends_on_nodes, refused, starts_of_servers
from kubeskew.conformance.invariants.tolerance import USUAL, Tolerance
from kubeskew.conformance.invariants.violation import Violation
from kubeskew.scheduler.autoscaling.snapshot import SimulationError


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
    """Returns what was broken. `note` is called with what could not be judged.

    Only `at_rest` is what should have come about missed. `rereads` are objects that read otherwise from a
    server that has just started.
    """
    state = directory.load()
    managers = state.of_kind("controller-manager")
    measure = measuring(managers[0].feature_gates, platform.clock) if managers else None
    checker = Checker(invariants(measure, tolerance))
    broken = [violation for entry in log for violation in checker.see(entry)]
    asks = at_rest and any(_is_pending(pod) for pod in checker.cluster.all("pods"))
    found = Evidence(
        node_records(directory),
        _failures(state, platform.processes, await _hosted(directory, platform, state)),
        _refusals(directory, state, log),
        await _feasible(directory, platform, note) if asks else {},
        await _unready(directory, platform, state) if asks else "",
        rereads,
    )
    return [*broken, *checker.finish(found, at_rest=at_rest)]


def _is_pending(pod: ObjectView) -> bool:
    return not (pod.get("spec") or {}).get("nodeName") and not is_terminal(pod)


async def _hosted(directory: StateDir, platform: Platform, state: State) -> dict[str, str]:
    """Returns why nodes do not run that a living kubelet process hosts."""
    living = [each for each in state.of_kind("kubelet") if _lives(platform.processes, each)]
    async with Probes(platform.connect(directory), platform.processes) as probes:
        hosted = [await probes.hosted(process) for process in living]
    entries = [
        (name, entry.get("failure") or "") for nodes in hosted for name, entry in (nodes or {}).items()
    ]
    return {f"kubelet/{name}": failure for name, failure in entries if failure}


async def _unready(directory: StateDir, platform: Platform, state: State) -> str:
    """Returns what the schedulers that live lack to be ready; empty if one is."""
    living = [each for each in state.of_kind("scheduler") if _lives(platform.processes, each)]
    async with Probes(platform.connect(directory), platform.processes) as probes:
        missing = [await probes.missing(process) for process in living]
    return "; ".join(", ".join(each.splitlines()) for each in missing) if all(missing) else ""


def _failures(state: State, processes: Processes, nodes: Mapping[str, str]) -> list[ComponentFailure]:
    """Returns the nodes that do not start, and the components whose process ended by itself."""
    found = [ComponentFailure(name, message, at_start=True) for name, message in sorted(nodes.items())]
    wanted = [each for each in state.processes.values() if each.wanted and each.pid]
    gone = [each.name for each in wanted if not _lives(processes, each)]
    return [*found, *(ComponentFailure(name, "its process has ended", at_start=False) for name in gone)]


async def _feasible(directory: StateDir, platform: Platform, note: Callable[[str], None]) -> dict[str, str]:
    """Returns the nodes that pending pods fit, as the plugins see it; none if nobody can be asked, or if the
    plugins panic, as the scheduler does (which I14 tells of)."""
    source = source_of_cluster(directory, platform.dial)
    try:
        return await feasible(replace(source, clock=platform.clock, entropy=SeededEntropy(0)))
    except (*CONNECTION_ERRORS, ClusterError, SimulationError, Panic) as error:
        note(f"Whether pending pods fit a node (I04) is not judged: {error}")
        return {}


def _lives(processes: Processes, process: Process) -> bool:
    return processes.alive(process.pid, process.birth)


def _refusals(directory: StateDir, state: State, log: Sequence[Logged]) -> dict[str, list[str]]:
    """Returns by component what its log says was forbidden."""
    starting, ended = starts_of_servers(log), ends_on_nodes(log)
    logs = {name: directory.log(name) for name, each in state.processes.items() if each.kind != "apiserver"}
    return {
        name: refused(path.read_text(errors="replace"), starting, ended)
        for name, path in logs.items()
        if path.exists()
    }
