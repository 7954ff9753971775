"""Tells how a cluster was at a revision: the versions and gates of its components, by the log's time line."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

from kubeskew.apimachinery.gates import parse_overrides
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.opening import Reader
from kubeskew.apiserver.storage.records import EMPTY_REVISION, ComponentEvent
from kubeskew.cluster import creation
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.planning import Target
from kubeskew.cluster.ports import Ports
from kubeskew.cluster.state import Process, State


async def check_kept(reader: Reader, revision: int) -> None:
    """Raises UserError if the log does not have the state at `revision`."""
    newest, horizon = await reader.revision(), max(await reader.horizon(), EMPTY_REVISION)
    if revision > newest:
        raise unkept(FutureRevisionError(revision, newest))
    if revision < horizon:
        raise unkept(CompactedError(revision, horizon))


def unkept(error: CompactedError | FutureRevisionError) -> UserError:
    """Returns the refusal of a revision that the log does not have."""
    if isinstance(error, FutureRevisionError):
        return UserError(f"revision {error.asked} has not been written yet: the newest is {error.current}")
    if error.horizon == EMPTY_REVISION:
        return UserError(f"revision {error.asked} is before the first, {EMPTY_REVISION}")
    return UserError(f"revision {error.asked} is compacted: the log begins after revision {error.horizon}")


def state_at(state: State, timeline: Sequence[ComponentEvent], revision: int, ports: Ports) -> State:
    """Returns the record of the cluster as it was at `revision`, of which nothing runs.

    What the time line does not tell is as it is now: nodes, ports, and what goes wrong in drivers. A
    component that came later has the version and gates that it came with.
    """
    targets = {
        name: _target(name, process, timeline, revision) for name, process in state.components().items()
    }
    then = deepcopy(state)
    then.killed_nodes, then.runtime_dir = [], ""
    then.processes = {
        name: _stopped(process, targets[name])
        for name, process in then.processes.items()
        if process.kind != "kubelet"
    }
    for node in then.nodes:
        creation.host(then, ports, node, targets[f"kubelet/{node}"])
    return then


def _target(name: str, process: Process, timeline: Sequence[ComponentEvent], revision: int) -> Target:
    """Returns the version and gates that a component had at `revision`, as it last told them before."""
    own = [moment for moment in timeline if moment.component == name and moment.version]
    before = [moment for moment in own if moment.revision <= revision]
    if not own:
        return Target.of(process)
    told = before[-1] if before else own[0]
    return Target(Version.parse(told.version), parse_overrides(told.gates), process.bugs)


def _stopped(process: Process, target: Target) -> Process:
    return replace(
        process, version=str(target.version), gates=dict(target.gates), pid=0, birth="", wanted=True
    )
