"""Putting on the log's time line what a component cannot say itself: that it was killed."""

from collections.abc import Mapping

from kubeskew.apimachinery.clock import Clock
from kubeskew.cluster import processes
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.readiness import Probes
from kubeskew.cluster.state import State, StateDir

COMPONENTS_PATH = "/kubeskew/v1/components"


async def announce(directory: StateDir, state: State, clock: Clock, event: Mapping[str, str]) -> None:
    """Append one component event through an API server or, if none answers, to the log itself."""
    async with Probes(directory) as probes:
        for server in state.of_kind("apiserver"):
            if not processes.alive(server.pid, server.birth):
                continue
            url = f"https://127.0.0.1:{server.port}{COMPONENTS_PATH}"
            status, _ = await probes.request("POST", url, event)
            if 200 <= status < 300:
                return
    await record(directory.storage_url, clock, event)


async def record(url: str, clock: Clock, event: Mapping[str, str]) -> None:
    """Append one component event to the log at `url`. Raises ClusterError if the log cannot be written."""
    from kubeskew.apiserver.storage.failures import StorageError
    from kubeskew.apiserver.storage.records import ComponentEvent
    from kubeskew.apiserver.storage.sql_log import SQLLog

    entry = ComponentEvent(
        0, event["component"], event["what"], event["version"], event["gates"], clock.now()
    )
    try:
        log = await SQLLog.open(url, clock)
        try:
            await log.record(entry)
        finally:
            await log.close()
    except StorageError as error:
        raise ClusterError(f"cannot write to the log: {error}") from error
