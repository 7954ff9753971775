"""Reads a driver's file again when told to."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.drivers.settings import DriverFileError

log = logging.getLogger(__name__)


async def follow(told: asyncio.Event, again: Callable[[], Awaitable[None]]) -> None:
    """Do it `again` whenever `told`, for ever; a file that is wrong leaves everything as it is."""
    while True:
        await told.wait()
        told.clear()
        try:
            await again()
        except (DriverFileError, OSError) as error:
            log.error("all stays as it is: %s", error)
