"""Branches a cluster off at a revision, into a state directory of its own, beside one that may run.

Nothing in the first cluster changes: its log and its files are read. The fork has ports of its own, which its
kubeconfigs name; nodes and credentials are the same. While it is made, its directory has a note of it
(`StateDir.forking`), so that one left behind by a kill is known and may be made anew.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError, StorageError
from kubeskew.apiserver.storage.records import FORKED, STORE, Branch, ComponentEvent
from kubeskew.cluster.branching.moment import check_kept, state_at, unkept
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.kubelet_files import restore_kubelet_files
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.ports import Ports
from kubeskew.cluster.secret_files import write_secret, write_secrets
from kubeskew.cluster.state import State, StateDir

_LEFT = ("lock", ".gitignore", "forking.partial")  # by a fork that was killed before it could say so
_SERVER = re.compile(r"(?<=https://127\.0\.0\.1:)\d+")


async def fork(source: StateDir, target: StateDir, revision: int, platform: Platform, ports: Ports) -> Branch:
    """Makes the cluster of `source` as it was at `revision` in the new directory `target`; it does not run.

    Raises UserError if there is no such revision, or something at `target` other than a fork that was killed;
    then nothing is left there.
    """
    state = source.load()
    if target.path.exists() and not _is_free(target):
        raise UserError(f"{target.path} exists already: name a directory that does not")
    if source.path.resolve() in target.path.resolve().parents:
        raise UserError(f"{target.path} is in the directory of the cluster: name one beside it")
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
    """Writes the new directory. The record comes last but for the note: without it there is no cluster."""
    then, ports = moved
    try:
        target.path.mkdir(parents=True, mode=0o700, exist_ok=True)
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
            target.database.parent.mkdir(mode=0o700)
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
    return made


def _is_free(target: StateDir) -> bool:
    """Returns whether a fork may be made in a directory: if all in it is of a fork that was killed."""
    if target.fork_interrupted():
        return True
    return target.path.is_dir() and all(path.name in _LEFT for path in target.path.iterdir())


def _moved(state: State, then: State, ports: Ports) -> tuple[State, Mapping[int, int]]:
    """Gives every process another port than any of the first cluster's; returns the new ports of API servers,
    and the one that they share, by the old ones."""
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
    """Returns the files that components and administrator identify with; their server is the fork's."""
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
