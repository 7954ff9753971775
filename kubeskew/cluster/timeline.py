"""Puts on the log's time line what a component cannot say itself: that it was killed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubeskew.apimachinery.announcements import COMPONENTS_PATH
from kubeskew.apimachinery.clock import Clock
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.state import State

if TYPE_CHECKING:
    from kubeskew.apiserver.storage.opening import Storage


async def announce(
    probes: Probes, state: State, url: str, clock: Clock, event: Mapping[str, str], storage: "Storage"
) -> None:
    """Appends one component event through an API server or, if none answers, to the log at `url` itself."""
    for server in state.of_kind("apiserver"):
        if probes.alive(server):
            status, _ = await probes.request("POST", server.url(COMPONENTS_PATH), event)
            if 200 <= status < 300:
                return
    await record(url, clock, event, storage)


async def record(url: str, clock: Clock, event: Mapping[str, str], storage: "Storage") -> None:
    """Appends one component event to the log at `url`. Raises ClusterError if the log cannot be written."""
    from kubeskew.apiserver.storage.failures import StorageError
    from kubeskew.apiserver.storage.records import ComponentEvent

    entry = ComponentEvent(
        *(0, event["component"], event["what"], event["version"], event["gates"], clock.now()),
        event.get("detail", ""),
    )
    try:
        log = await storage.log(url, clock)
        try:
            await log.record(entry)
        finally:
            await log.close()
    except StorageError as error:
        raise ClusterError(f"cannot write to the log: {error}") from error
