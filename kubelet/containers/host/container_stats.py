"""The use that containers make of the node: of cgroups where they are, else of what the system shows."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from kubeskew.kubelet.containers.host import usage
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.images.store import size_of
from kubeskew.kubelet.containers.host.shim_record import RECORD
from kubeskew.kubelet.containers.runtime_service import ContainerStats
from kubeskew.kubelet.containers.sandbox import Container


class ContainerUse:
    """Measures the containers of one node, whose processes have other PIDs in the shim's namespace."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._inner_pids: dict[str, int] = {}
        self._host_pids: dict[str, int] = {}
        self._sizes: dict[Path, int] = {}  # of what containers have written, by directory
        self._counting: dict[Path, asyncio.Future[int]] = {}

    def begin(self, inner_pids: Mapping[str, int]) -> None:
        """Takes the containers of the shim, which may be another one than before."""
        self._inner_pids = dict(inner_pids)
        self._host_pids.clear()

    def add(self, container: Container, inner_pid: int) -> None:
        self._inner_pids[container.id] = inner_pid

    def remove(self, container: Container, layer: Path) -> None:
        self._inner_pids.pop(container.id, None)
        self._host_pids.pop(container.id, None)
        for name in ("upper", "root"):
            self._sizes.pop(layer / name, None)

    def stats(self, container: Container, cgroups: Cgroups, written: Path) -> ContainerStats:
        """`written` is the directory of what the container has written to its root."""
        found = cgroups.usage(container.id)
        if found is None and container.ends_at is None:
            pid = self._host_pid(container)
            found = usage.of_tree(pid) if pid is not None else None
        if found is None:
            return ContainerStats(0.0, 0, 0, 0)
        return ContainerStats(
            found.core_seconds, found.working_set, found.resident, found.processes, self._size(written)
        )

    def _size(self, written: Path) -> int:
        """The bytes of a container's files when they were last counted, which may take long."""
        if written not in self._counting:
            counting = asyncio.get_running_loop().run_in_executor(None, size_of, written)
            self._counting[written] = counting
            counting.add_done_callback(lambda _counted: self._note_size(written))
        return self._sizes.get(written, 0)

    def _note_size(self, written: Path) -> None:
        counted = self._counting.pop(written)
        if not counted.cancelled() and written.parent.exists():
            self._sizes[written] = counted.result()
        else:
            self._sizes.pop(written, None)

    def _host_pid(self, container: Container) -> int | None:
        pid = self._host_pids.get(container.id)
        if pid is None and container.id in self._inner_pids:
            with contextlib.suppress(OSError, ValueError, KeyError):
                record = json.loads((self._directory / RECORD).read_text())
                pid = usage.host_pid(record["pid"], self._inner_pids[container.id])
                if pid is not None:
                    self._host_pids[container.id] = pid
        return pid
