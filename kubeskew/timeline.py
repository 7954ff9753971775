"""Writing to the log's time line when no API server runs to do it."""

from collections.abc import Mapping

from apimachinery.clock import Clock
from apiserver.storage.interfaces import ComponentEvent
from apiserver.storage.sql_log import SQLLog


async def record(url: str, clock: Clock, event: Mapping[str, str]) -> None:
    """Append one component event to the log at `url`."""
    log = await SQLLog.open(url, clock)
    try:
        await log.record(
            ComponentEvent(
                0, event["component"], event["what"], event["version"], event["gates"], clock.now()
            )
        )
    finally:
        await log.close()
