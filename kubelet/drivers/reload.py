"""Reads a driver's file again on a signal."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.drivers.settings import DriverFileError

log = logging.getLogger(__name__)


async def follow(signal: asyncio.Event, again: Callable[[], Awaitable[None]]) -> None:
    """Calls `again` at each `signal`, for ever; an invalid file leaves everything as it is."""
    while True:
        await signal.wait()
        signal.clear()
        try:
            await again()
        except (DriverFileError, OSError) as error:
            log.error("all stays as it is: %s", error)
