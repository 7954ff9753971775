"""`kubeskew check`: whether what happened in a cluster kept the invariants."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.component_names import kind_of
from kubeskew.apiserver.storage.failures import DamageError, StorageError
from kubeskew.apiserver.storage.reading import LogReader
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    state_dir_option,
)
from kubeskew.cli.terminal import echo
from kubeskew.cluster.autoscaling.run import feasible, source_of_cluster
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.probes import HTTPTransport, Probes
from kubeskew.cluster.processes import ExecutedProcesses, alive
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.conformance.evidence.log import ComponentChange, Logged
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.conformance.evidence.reading import evidence
from kubeskew.scheduler.autoscaling.snapshot import SimulationError
from kubeskew.simulation.invariants.catalogue import invariants, measuring
from kubeskew.simulation.invariants.checking import check as judge
from kubeskew.simulation.invariants.checking import last_change
from kubeskew.simulation.invariants.cluster import STARTED
from kubeskew.simulation.invariants.invariant import ComponentFailure, Evidence
from kubeskew.simulation.invariants.violation import Violation

QUIET_SECONDS = 10
_LOST = "events-lost"  # of a log that is not whole nothing can be said
_STARTING = timedelta(seconds=10)  # how long an API server may take until its roles are there
_FORBIDDEN = ' is forbidden: User "'  # the authorizer's words, not those of admission

COLUMNS = ["REVISION", "INVARIANT", "NAME", "MESSAGE"]


@click.command()
@state_dir_option
@output_option
@click.option(
    "--quiet-for",
    type=click.FloatRange(0),
    default=QUIET_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long nothing may have changed for the cluster to be at rest.",
)
def check(directory: StateDir, output: str, quiet_for: float) -> int:
    """Check the invariants I01 to I22 over the log of a cluster, and over what its nodes recorded.

    What must never happen is looked for in the whole log. What must have come about in the end is judged only
    if the cluster is at rest. Exits 1 if an invariant is broken. The cluster may run meanwhile.

    \b
    kubeskew check
    kubeskew check --quiet-for 0
    kubeskew check -o json
    """
    state = directory.load()
    try:
        horizon, log = run_async(_read(directory))
    except StorageError as error:
        raise UserError(f"the log cannot be read: {error}") from error
    at_rest = _is_at_rest(log, quiet_for)
    found = _judged(directory, state, log, at_rest=at_rest)
    if output == "json":
        print_json(_document(log, horizon, found, at_rest=at_rest))
    else:
        _print(log, horizon, found, at_rest=at_rest)
    return 1 if found else 0


async def _read(directory: StateDir) -> tuple[int, Sequence[Logged]]:
    async with await LogReader.open(directory.storage_url) as reader:
        for difference in (await reader.replay()).differences:
            if difference.what == _LOST:
                raise DamageError(f"{difference.text}; `kubeskew replay` lists what is wrong")
        return await reader.horizon(), await evidence(reader.events())


def _is_at_rest(log: Sequence[Logged], seconds: float) -> bool:
    last = last_change(log)
    return not last or SystemClock().now() - _moment(last) >= timedelta(seconds=seconds)


def _judged(directory: StateDir, state: State, log: Sequence[Logged], *, at_rest: bool) -> list[Violation]:
    feasible = _feasible(directory) if at_rest else {}
    managers = state.of_kind("controller-manager")
    measure = measuring(managers[0].feature_gates, SystemClock()) if managers else None
    found = Evidence(
        node_records(directory),
        _failures(state, run_async(_hosted(directory, state))),
        _refusals(directory, state, log),
        feasible,
    )
    return judge(log, invariants(measure), found, at_rest=at_rest)


async def _hosted(directory: StateDir, state: State) -> dict[str, str]:
    """Returns why nodes do not run that a living kubelet process hosts."""
    async with Probes(HTTPTransport(directory), ExecutedProcesses()) as probes:
        hosted = [await probes.hosted(process) for process in state.of_kind("kubelet") if _lives(process)]
    entries = [
        (name, entry.get("failure") or "") for nodes in hosted for name, entry in (nodes or {}).items()
    ]
    return {f"kubelet/{name}": failure for name, failure in entries if failure}


def _failures(state: State, nodes: Mapping[str, str]) -> list[ComponentFailure]:
    """Returns the nodes that do not start, and the components whose process ended by itself."""
    found = [ComponentFailure(name, message, at_start=True) for name, message in sorted(nodes.items())]
    gone = [each.name for each in state.processes.values() if each.wanted and each.pid and not _lives(each)]
    return [*found, *(ComponentFailure(name, "its process has ended", at_start=False) for name in gone)]


def _feasible(directory: StateDir) -> dict[str, str]:
    """Returns the nodes that pending pods fit, as the plugins see it; none if nobody can be asked."""
    try:
        return run_async(feasible(source_of_cluster(directory)))
    except (*CONNECTION_ERRORS, ClusterError, SimulationError) as error:
        echo(f"Whether pending pods fit a node (I04) is not judged: {error}", err=True)
        return {}


def _lives(process: Process) -> bool:
    return alive(process.pid, process.birth)


def _refusals(directory: StateDir, state: State, log: Sequence[Logged]) -> dict[str, int]:
    """Returns by component how often its log says that something is forbidden.

    What is refused while an API server starts is left out: the default roles are on their way. It says that
    it has started when it is ready, so that some come before.
    """
    starts = [_moment(entry.time) for entry in log if _is_server_start(entry)]
    logs = {name: directory.log(name) for name, each in state.processes.items() if each.kind != "apiserver"}
    return {name: _refused(path, starts) for name, path in logs.items() if path.exists()}


def _is_server_start(entry: Logged) -> bool:
    if not isinstance(entry, ComponentChange):
        return False
    return entry.what == STARTED and kind_of(entry.component) == "apiserver"


def _refused(path: Path, starts: Sequence[datetime]) -> int:
    lines = [line for line in path.read_text(errors="replace").splitlines() if _FORBIDDEN in line]
    times = [_moment(line.partition(" ")[0]) for line in lines]
    return sum(not any(abs(time - start) < _STARTING for start in starts) for time in times)


def _moment(time: str) -> datetime:
    return datetime.fromisoformat(time)


def _document(
    log: Sequence[Logged], horizon: int, found: Sequence[Violation], *, at_rest: bool
) -> dict[str, Any]:
    names = {invariant.code: invariant.name for invariant in invariants()}
    return {
        "revision": log[-1].revision if log else 0,
        "events": len(log),
        "compacted": horizon,
        "atRest": at_rest,
        "violations": [
            {
                "invariant": each.code,
                "name": names[each.code],
                "message": each.message,
                "revision": each.revision,
                "time": each.time,
            }
            for each in found
        ],
    }


def _print(log: Sequence[Logged], horizon: int, found: Sequence[Violation], *, at_rest: bool) -> None:
    document = _document(log, horizon, found, at_rest=at_rest)
    if found:
        print_table(COLUMNS, document["violations"])
        click.echo()
    since = f" since revision {horizon}, to which it is compacted" if horizon else ""
    click.echo(f"{len(log)} events{since}: {len(found)} violations of the invariants.")
    if not at_rest:
        click.echo("The cluster is not at rest, so that only what must never happen was judged.", err=True)
        click.echo("Wait a little, or give --quiet-for 0.", err=True)
