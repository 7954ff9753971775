"""Keeps the plugins in use in line with the sockets in the registry (pkg/kubelet/pluginmanager).

Upstream gets file events from the kernel and compares once a second; here one look a second, and ten while
something is new, does both. A directory is looked into again only when it has changed.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.periods import DEFAULT_PERIODS, Periods
from kubeskew.kubelet.plugins.plugin_handler import PluginHandler
from kubeskew.kubelet.protocols.message_sockets import message_sockets

if TYPE_CHECKING:
    from kubeskew.kubelet.plugins.registration import Registered

# Distinguishes a socket from a new one at the same path: inode and time of the last change.
Stamp = tuple[int, int]
log = logging.getLogger(__name__)

_BUSY_SECONDS = 10.0  # seconds of frequent looks after a change
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.5, 122.0  # pkg/util/goroutinemap/exponentialbackoff


class SocketScan:
    """The sockets below `directory`; names that begin with a dot are ignored."""

    def __init__(self, directory: Path, *, always: bool = False) -> None:
        """With `always` each look reads the directories, whose times may not show a change."""
        self._directory = str(directory)
        self._always = always
        self._changed: dict[str, int] = {}  # directory → when it last changed
        self._sockets: dict[str, Stamp] = {}
        self._fresh = True

    @property
    def fresh(self) -> bool:
        return self._fresh

    def look(self) -> Mapping[str, Stamp]:
        times = {path: _changed(path) for path in self._changed}
        stale = not times or times != self._changed
        # Times of changes are coarse: a change right after the last look does not show in them.
        if stale or self._fresh or self._always:
            before = self._sockets
            self._changed = {}
            self._sockets = dict(self._scan(self._directory))
            stale = stale if not self._always else self._sockets != before
        self._fresh = stale
        return self._sockets

    def _scan(self, directory: str) -> Iterator[tuple[str, Stamp]]:
        self._changed[directory] = _changed(directory)
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:
            return  # gone meanwhile
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._scan(entry.path)
            elif stat.S_ISSOCK(status.st_mode):
                yield entry.path, (status.st_ino, status.st_mtime_ns)


def _changed(directory: str) -> int:
    try:
        return Path(directory).stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(slots=True)
class _Backoff:
    """A socket whose registration failed."""

    stamp: Stamp
    seconds: float
    until: float  # by the monotonic clock


class PluginManager:
    """The plugins of one node; `handlers` use them, by type."""

    def __init__(
        self,
        directory: Path,
        handlers: Mapping[str, PluginHandler],
        clock: Clock,
        periods: Periods = DEFAULT_PERIODS,
    ) -> None:
        self._periods = periods
        self._scan = SocketScan(directory, always=message_sockets() is not None)
        self._handlers = handlers
        self._clock = clock
        self._registered: dict[str, tuple[Stamp, Registered]] = {}
        self._failed: dict[str, _Backoff] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Looks, registers and deregisters, until cancelled; then no plugin is in use."""
        news = self._clock.monotonic()
        try:
            while True:
                await self.look()
                if self._scan.fresh or self._tasks:
                    news = self._clock.monotonic()
                busy = self._clock.monotonic() - news < _BUSY_SECONDS
                periods = self._periods
                await self._clock.sleep(periods.plugin_look_busy if busy else periods.plugin_look)
        finally:
            await self._stop()

    async def look(self) -> None:
        """Compares once: deregisters what is gone, begins to register what is new."""
        sockets = self._scan.look()
        for path, (stamp, plugin) in [*self._registered.items()]:
            if sockets.get(path) != stamp and path not in self._tasks:
                del self._registered[path]
                log.info("plugin %s at %s is gone", plugin.name, path)
                await plugin.handler.deregister(plugin.name, plugin.endpoint)
        for path in [path for path in self._failed if path not in sockets]:
            del self._failed[path]
        for path, stamp in sockets.items():
            if path not in self._registered and path not in self._tasks and self._may_try(path, stamp):
                name = f"registration of {path}"
                self._tasks[path] = asyncio.create_task(self._register(path, stamp), name=name)

    def _may_try(self, path: str, stamp: Stamp) -> bool:
        failed = self._failed.get(path)
        return failed is None or failed.stamp != stamp or self._clock.monotonic() >= failed.until

    async def _register(self, path: str, stamp: Stamp) -> None:
        # The first socket imports grpc.
        from kubeskew.kubelet.plugins.registration import RegistrationError, register

        try:
            await register(path, self._handlers, lambda new: self._add(path, stamp, new))
            self._failed.pop(path, None)
        except RegistrationError as error:
            log.warning("%s", error)
            self._back_off(path, stamp)
        except Exception:
            log.exception("cannot register the plugin at %s", path)
            self._registered.pop(path, None)
            self._back_off(path, stamp)
        finally:
            del self._tasks[path]

    def _back_off(self, path: str, stamp: Stamp) -> None:
        failed, seconds = self._failed.get(path), _FIRST_RETRY_SECONDS
        if failed is not None and failed.stamp == stamp:
            seconds = min(failed.seconds * 2, _LONGEST_RETRY_SECONDS)
        self._failed[path] = _Backoff(stamp, seconds, self._clock.monotonic() + seconds)

    def _add(self, path: str, stamp: Stamp, plugin: "Registered") -> None:
        self._registered[path] = stamp, plugin

    async def _stop(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._registered.clear()
