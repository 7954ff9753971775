"""Branches of a cluster's log: a cluster is forked at a revision, or taken back to one.

The versions and gates of the components at a revision follow from the log's time line.

Nothing in the first cluster changes by a fork: its log and its files are read. The fork has a state directory
and ports of its own, which its kubeconfigs name; nodes and credentials are the same. While it is made, its
directory has a note of it (`StateDir.forking`), so that a fork that was killed is recognized and may be
repeated. The leases of leaders that the log still names are released, because nobody renews them, and the
components of the fork would wait until they expire.

A rewind takes a cluster that is stopped back to a revision, and keeps the rest. The new state is written to
`rewinding.partial`, and is complete before that becomes `rewinding`, in one step. From then on only renames
are left: a kill leaves either the old cluster or one that `resume_rewind` finishes.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from kubeskew.apimachinery.client.leader import released
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.durable_files import flush, flush_tree, make_directory
from kubeskew.apimachinery.gates import parse_overrides
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError, StorageError
from kubeskew.apiserver.storage.records import FORKED, REWOUND, STORE, Branch, ComponentEvent
from kubeskew.cluster import creation
from kubeskew.cluster.change_plan import Target
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.kubelet_files import kubelet_files_at, restore_kubelet_files
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.ports import Ports
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.revisions import check_kept, unkept
from kubeskew.cluster.state import Process, State, StateDir, write_secret, write_secrets

_LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
_LEASES = ("kube-controller-manager", "kube-scheduler")
_LEFT = (
    "lock",
    ".gitignore",
    ".gitignore.partial",
    "forking.partial",
)  # by a fork that was killed before it could say so
_SERVER = re.compile(r"(?<=https://127\.0\.0\.1:)\d+")
_PARTS = ("data", "kubelet", "faults", "state.json")  # exchanged in this order
_PLAN = "plan.json"

Progress = Callable[[str], None]


def state_at(state: State, timeline: Sequence[ComponentEvent], revision: int, ports: Ports) -> State:
    """Nothing runs in the record of the cluster at `revision`.

    Nodes, ports and switches of drivers, which the time line does not have, are the present ones. A component
    that was added later has its first version and gates.
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
    """A component last reported these up to the revision."""
    own = [moment for moment in timeline if moment.component == name and moment.version]
    before = [moment for moment in own if moment.revision <= revision]
    if not own:
        return Target.of(process)
    last = before[-1] if before else own[0]
    return Target(Version.parse(last.version), parse_overrides(last.gates), process.bugs)


def _stopped(process: Process, target: Target) -> Process:
    return replace(
        process, version=str(target.version), gates=dict(target.gates), pid=0, birth="", wanted=True
    )


async def release_leases(probes: Probes, server: Process, clock: Clock) -> None:
    """Leases are released through an API server, as their holders do when they stop. Raises ClusterError."""
    for name in _LEASES:
        url = server.url(f"{_LEASES_PATH}{name}")
        status, text = await probes.request("GET", url)
        if status == 404:
            continue
        lease = json.loads(text) if status == 200 else {}
        if status == 200 and (lease.get("spec") or {}).get("holderIdentity"):
            lease["spec"] = released(lease["spec"], clock.now())
            status, text = await probes.request("PUT", url, lease)
        if status != 200:
            raise ClusterError(f"cannot release the lease {name}: {text}")


async def fork(source: StateDir, target: StateDir, revision: int, platform: Platform, ports: Ports) -> Branch:
    """Copies the cluster of `source`, as it was at `revision`, into the new directory `target`; it does not
    run.

    Raises UserError if there is no such revision, or something at `target` other than a fork that was killed;
    then nothing is left there.
    """
    state = source.load()
    if target.path.exists() and not _is_free(target):
        raise UserError(f"{target.path} exists already: name a directory that does not")
    if source.path.resolve() in target.path.resolve().parents:
        raise UserError(f"{target.path} is in the directory of the cluster: name one next to it")
    try:
        reader = await platform.storage.reader(source.storage_url)
        try:
            await check_kept(reader, revision)
            then = state_at(state, await reader.timeline(), revision, ports)
        finally:
            await reader.close()
        return await _made(source, target, _moved(state, then, ports), revision, platform)
    except (CompactedError, FutureRevisionError) as error:
        raise unkept(error) from error
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error


async def _made(
    source: StateDir,
    target: StateDir,
    moved: tuple[State, Mapping[int, int]],
    revision: int,
    platform: Platform,
) -> Branch:
    """Writes the new directory. The record comes last but one, before the note is removed: without it there
    is no cluster.
    """
    then, ports = moved
    try:
        make_directory(target.path)
    except OSError as error:
        raise UserError(f"cannot make {target.path}: {error.strerror}") from error
    with target.locked():
        if not _is_free(target):
            raise UserError(f"{target.path} exists already: name a directory that does not")
        try:
            target.clear()
            write_secret(target.forking, f"revision {revision} of the cluster in {source.path}")
            write_secrets(_credentials(source, target, ports))
            restore_kubelet_files(source, revision, target)
            if target.kubelet_root().exists():
                flush_tree(target.kubelet_root())
            make_directory(target.database.parent)
            note = ComponentEvent(
                revision, STORE, FORKED, "", "", platform.clock.now(), "from another cluster"
            )
            made = await platform.storage.branch(source.storage_url, target.storage_url, note)
            then.abandoned_leases = True
            target.save(then)
        except BaseException:
            target.purge()
            raise
        target.forking.unlink()
        flush(target.path)
    return made


def _is_free(target: StateDir) -> bool:
    """Everything in the directory must be of a fork that was killed."""
    if target.fork_interrupted():
        return True
    return target.path.is_dir() and all(path.name in _LEFT for path in target.path.iterdir())


def _moved(state: State, then: State, ports: Ports) -> tuple[State, Mapping[int, int]]:
    """Each process gets a port that the first cluster does not have. The mapping has the new ports of API
    servers, and of the port that they share, by the old ones.
    """
    taken = {*state.ports(), *then.ports()}
    servers = {}
    for process in then.processes.values():
        before, process.port = process.port, ports.choose(taken)
        taken.add(process.port)
        if process.kind == "apiserver":
            servers[before] = process.port
    if then.shared_port:
        before, then.shared_port = then.shared_port, ports.choose(taken)
        servers[before] = then.shared_port
    return then, servers


def _credentials(source: StateDir, target: StateDir, ports: Mapping[int, int]) -> Mapping[Path, bytes | str]:
    copied = [*_files(source.pki), source.ca, source.token]
    files: dict[Path, bytes | str] = {_there(source, target, path): path.read_bytes() for path in copied}
    for path in (source.kubeconfig, *_files(source.component_kubeconfig("x").parent)):
        text = path.read_text()
        files[_there(source, target, path)] = _SERVER.sub(
            lambda match: str(ports.get(int(match[0]), int(match[0]))), text
        )
    return files


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _there(source: StateDir, target: StateDir, path: Path) -> Path:
    return target.path / path.relative_to(source.path)


async def check_rewind(directory: StateDir, revision: int, platform: Platform) -> None:
    """Before anything changes, a revision that the log does not have is refused with UserError."""
    try:
        reader = await platform.storage.reader(directory.storage_url)
        try:
            await check_kept(reader, revision)
        finally:
            await reader.close()
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error
    kubelet_files_at(directory, revision)


async def rewind(directory: StateDir, state: State, revision: int, platform: Platform, ports: Ports) -> Path:
    """Nothing of the cluster runs; the result is the directory of everything that is cut off.

    The caller holds the lock, and has called `check_rewind`.
    """
    partial, kept = StateDir(directory.rewinding_partial), _free_place(directory, revision)
    shutil.rmtree(partial.path, ignore_errors=True)
    partial.path.mkdir(mode=0o700)
    try:
        await _stage(directory, partial, state, revision, kept, platform, ports)
    except BaseException as error:
        shutil.rmtree(partial.path, ignore_errors=True)
        if isinstance(error, CompactedError | FutureRevisionError):
            raise unkept(error) from error
        if isinstance(error, StorageError):
            raise ClusterError(f"cannot rewind: {error}") from error
        raise
    partial.path.rename(directory.rewinding)
    flush(directory.path)
    _finish(directory)
    return kept


async def _stage(
    directory: StateDir,
    partial: StateDir,
    state: State,
    revision: int,
    kept: Path,
    platform: Platform,
    ports: Ports,
) -> None:
    """Writes the whole new cluster, and flushes it to the disk."""
    reader = await platform.storage.reader(directory.storage_url)
    try:
        newest, timeline = await reader.revision(), await reader.timeline()
    finally:
        await reader.close()
    then = state_at(state, timeline, revision, ports)
    then.abandoned_leases = True
    place = str(kept.relative_to(directory.path))
    detail = f"from revision {newest}; what was cut off is in {place}"
    note = ComponentEvent(revision, STORE, REWOUND, "", "", platform.clock.now(), detail)
    for path in (partial.database.parent, partial.faults, partial.kubelet_root()):
        path.mkdir(mode=0o700)
    restore_kubelet_files(directory, revision, partial)
    before = partial.storage_url
    there = await platform.storage.succeed(directory.storage_url, before, note)
    if there != before:
        write_secret(partial.storage_file, there)
    partial.save(then)
    write_secret(partial.path / _PLAN, json.dumps({"revision": revision, "kept": place}))
    flush_tree(partial.path)


def resume_rewind(directory: StateDir, progress: Progress) -> int | None:
    """Finishes an interrupted rewind; its revision is returned, None if there is none. Raises ClusterError if
    another command is at work.
    """
    if not directory.rewind_interrupted():
        return None
    with directory.locked():
        if directory.rewinding_partial.exists():
            shutil.rmtree(directory.rewinding_partial)
            progress("a rewind was interrupted before it had changed anything: the cluster is as it was")
        if not directory.rewinding.exists():
            return None
        revision = _finish(directory)
        progress(f"the rewind to revision {revision}, which was interrupted, is finished")
        return revision


def _finish(directory: StateDir) -> int:
    """Staged parts replace the present ones, which are kept; it can be repeated."""
    plan = json.loads((directory.rewinding / _PLAN).read_text())
    kept = directory.path / plan["kept"]
    make_directory(kept)
    for part in _PARTS:
        staged, here = directory.rewinding / part, directory.path / part
        if staged.exists():
            if here.exists():
                here.rename(kept / part)
            staged.rename(here)
    for path in (kept, directory.path):
        flush(path)
    directory.rewinding.rename(kept / directory.rewinding.name)  # with the plan alone in it
    return int(plan["revision"])


def _free_place(directory: StateDir, revision: int) -> Path:
    """`rewound/REV`, with a number if that is taken."""
    place, number = directory.rewound / str(revision), 1
    while place.exists():
        number += 1
        place = directory.rewound / f"{revision}-{number}"
    return place
