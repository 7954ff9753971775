"""The platform of a cluster: the processes, ports, credentials, storage and socket directory of a machine.

The directory for Unix sockets has a short path, because the path of a socket has at most 108 bytes. Its name
is in the record. `up` creates it, and again if the machine lost it; `down` removes it.
"""

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from kubeskew.apimachinery.client.rest import Dial, dial
from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.factory import SQLStorage, Storage
from kubeskew.cluster.creation import Credentials, write_credentials
from kubeskew.cluster.ports import HeldPorts, Ports
from kubeskew.cluster.probes import HTTPTransport, Transport
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.programs.inspection import Inspect, inspect
from kubeskew.cluster.programs.kubelets import obstacle
from kubeskew.cluster.state import State, StateDir

_PREFIX = "ks-"


def ensure_runtime_dir(state: State, make: Callable[[], str]) -> None:
    """Creates the socket directory, readable by this user only, unless it exists. The caller saves the
    record.
    """
    if state.runtime_dir and _take(Path(state.runtime_dir)):
        return
    state.runtime_dir = make()


def make_runtime_dir() -> str:
    """Paths of sockets have at most 108 bytes, so that of the directory must be short."""
    return tempfile.mkdtemp(prefix=_PREFIX, dir=_base())


def remove_runtime_dir(state: State) -> None:
    """Removes the socket directory with all sockets. The caller saves the record."""
    if state.runtime_dir:
        shutil.rmtree(state.runtime_dir, ignore_errors=True)
        state.runtime_dir = ""


def _take(path: Path) -> bool:
    """Creates a directory that is gone again; False if it is not ours."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return False
    return path.is_dir() and not path.is_symlink() and found.st_uid == os.geteuid()


def _base() -> str:
    candidates = ["/tmp", tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR") or ""]  # noqa: S108 - short
    usable = [base for base in candidates if base and os.access(base, os.W_OK | os.X_OK)]
    return min(usable, key=len, default=tempfile.gettempdir())


async def endpoint_obstacle(endpoint: str) -> str:
    """Imports gRPC, which only clusters with such a runtime need."""
    from kubeskew.kubelet.containers.remote import calls

    return await calls.endpoint_obstacle(endpoint)


@dataclass(frozen=True, slots=True)
class Platform:
    """The defaults are this machine's own. `connect` is the way to the components."""

    clock: Clock
    processes: Processes
    connect: Callable[[StateDir], Transport] = HTTPTransport
    storage: Storage = field(default_factory=SQLStorage)
    ports: Callable[[], Ports] = HeldPorts
    credentials: Credentials = write_credentials
    dial: Dial = dial
    new_runtime_dir: Callable[[], str] = make_runtime_dir
    inspect: Inspect = inspect  # asks real programs for their versions
    kubelet_obstacle: Callable[[], str] = obstacle  # why no real kubelet can run here; empty if one can
    # Why pods cannot run on the container runtime at an endpoint; empty if they can.
    endpoint_obstacle: Callable[[str], Awaitable[str]] = endpoint_obstacle
