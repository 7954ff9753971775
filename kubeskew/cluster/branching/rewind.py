"""Takes a cluster that is stopped back to a revision, and keeps what that cuts off.

What is to be is made beside what is, in `rewinding.partial`, and is complete before that becomes `rewinding`,
in one step. From then on the rewind goes forward only, by renaming: whoever kills it leaves either the old
cluster or one that `resume` finishes.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from kubeskew.apimachinery.durable_files import flush
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError, StorageError
from kubeskew.apiserver.storage.records import REWOUND, STORE, ComponentEvent
from kubeskew.cluster.branching.moment import check_kept, state_at, unkept
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.kubelet_files import kubelet_files_at, restore_kubelet_files
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.ports import Ports
from kubeskew.cluster.secret_files import write_secret
from kubeskew.cluster.state import State, StateDir

_PARTS = ("data", "kubelet", "faults", "state.json")  # what is exchanged, in this order
_PLAN = "plan.json"

Progress = Callable[[str], None]


async def check(directory: StateDir, revision: int, platform: Platform) -> None:
    """Raises UserError, before anything changes, if there is no such revision to go back to."""
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
    """Takes the cluster, of which nothing runs, back to `revision`; returns where the rest is kept.

    The caller holds the lock, and has asked `check`.
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
    """Writes the whole new cluster, on the disk when this returns."""
    reader = await platform.storage.reader(directory.storage_url)
    try:
        newest, timeline = await reader.revision(), await reader.timeline()
    finally:
        await reader.close()
    then = state_at(state, timeline, revision, ports)
    then.abandoned_leases = True
    place = str(kept.relative_to(directory.path))
    told = f"from revision {newest}; what was cut off is in {place}"
    note = ComponentEvent(revision, STORE, REWOUND, "", "", platform.clock.now(), told)
    for path in (partial.database.parent, partial.faults, partial.kubelet_root()):
        path.mkdir(mode=0o700)
    restore_kubelet_files(directory, revision, partial)
    before = partial.storage_url
    there = await platform.storage.succeed(directory.storage_url, before, note)
    if there != before:
        write_secret(partial.storage_file, there)
    partial.save(then)
    write_secret(partial.path / _PLAN, json.dumps({"revision": revision, "kept": place}))
    for path in (partial.database.parent, partial.path):
        flush(path)


def resume(directory: StateDir, progress: Progress) -> int | None:
    """Finishes a rewind that was interrupted, and returns the revision it went to; None if there is none to
    finish. Raises ClusterError if another command is at work.
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
    """Puts the staged parts in the place of those that are there, which are kept; any number of times."""
    plan = json.loads((directory.rewinding / _PLAN).read_text())
    kept = directory.path / plan["kept"]
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
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
    """Returns where to keep what is cut off: `rewound/REV`, with a number if that is taken."""
    place, number = directory.rewound / str(revision), 1
    while place.exists():
        number += 1
        place = directory.rewound / f"{revision}-{number}"
    return place
