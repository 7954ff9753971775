"""Wipes the slices of a node that have no driver."""

import asyncio
import logging

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0


class SliceWiper:
    """Deletes slices of this node that have no driver (DRAPluginManager.wipeResourceSlices)."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        slices: Ref,
        node_name: str,
        delay: float,
        *,
        active: bool = True,
    ) -> None:
        """Up to 1.30 (`active` False) slices are not the drivers' own."""
        self._active = active
        self._client = client
        self._clock = clock
        self._slices = slices
        self._node_name = node_name
        self._delay = delay
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def wipe(self, driver: str = "") -> None:
        """Deletes the slices of a driver, or of all; retries until it is done."""
        selector = f"spec.nodeName={self._node_name}" + (f",spec.driver={driver}" if driver else "")
        seconds = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._client.delete_collection(self._slices, field_selector=selector)
            except StatusError as error:
                if error.code == 404:
                    return
                log.info("deleting ResourceSlices failed, retrying: %s", error)
            except CONNECTION_ERRORS as error:
                log.info("deleting ResourceSlices failed, retrying: %s", error)
            else:
                return
            await self._clock.sleep(seconds)
            seconds = min(seconds * 2, _LONGEST_RETRY_SECONDS)

    def driver_left(self, driver: str) -> None:
        """Wipes the driver's slices unless it is back in time; a wipe that is pending keeps its time."""
        if driver in self._pending or not self._active:
            return
        self._pending[driver] = asyncio.create_task(self._wipe_later(driver), name=f"wipe {driver}")

    def driver_came(self, driver: str) -> None:
        pending = self._pending.pop(driver, None)
        if pending is not None:
            pending.cancel()

    async def stop(self) -> None:
        pending = [*self._pending.values()]
        self._pending.clear()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _wipe_later(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self.wipe(driver)
        self._pending.pop(driver, None)
