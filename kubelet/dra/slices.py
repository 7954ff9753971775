"""ResourceSlices of one driver on one node: published, kept as they should be, and wiped.

A pool has the node's name. Whatever changes in it gives all its slices a new generation, as the resource
slice controller of upstream's driver library does (k8s.io/dynamic-resource-allocation/resourceslice).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from apimachinery.client.informer import Informer
from apimachinery.client.refs import Ref
from apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from apimachinery.clock import Clock
from apimachinery.conversion import convert
from apimachinery.errors import StatusError
from apimachinery.resources import GroupVersionKind

log = logging.getLogger(__name__)

Object = dict[str, Any]

DEVICES_PER_SLICE = 128
_COMMON = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0
_UNSERVED_RETRY_SECONDS = 10.0


class SlicePublisher:
    """Keeps the slices of a driver's devices at the API server. Devices are given in the shape of v1."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        slices: Ref,
        driver: str,
        node: Object,
        devices: Sequence[Object],
    ) -> None:
        self._client = client
        self._clock = clock
        self._slices = slices
        self._driver = driver
        self._node_name: str = node["metadata"]["name"]
        self._node_uid: str = node["metadata"].get("uid") or ""
        self._chunks = _chunks(devices)
        self._wake = asyncio.Event()
        self._stored: dict[str, Object] = {}  # what the server made of what we wrote, by name
        self.published = False
        selector = f"spec.driver={driver},spec.nodeName={self._node_name}"
        self._selector = selector
        self._informer = Informer(client, slices, clock, "", selector)

    async def run(self) -> None:
        """Publish, and again whenever someone interferes."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            self._wake.clear()
            try:
                await self._sync()
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("driver %s on %s: cannot publish: %s", self._driver, self._node_name, error)
                # An API server that does not serve the resource has no use for slices.
                self.published = isinstance(error, StatusError) and error.code == 404
                await self._clock.sleep(_UNSERVED_RETRY_SECONDS if self.published else delay)
                delay = min(delay * 2, _LONGEST_RETRY_SECONDS)
                continue
            self.published, delay = True, _FIRST_RETRY_SECONDS
            self._follow()
            await self._wake.wait()

    async def stop(self) -> None:
        """Stop following; the slices stay."""
        await self._informer.stop()

    def _follow(self) -> None:
        if self._informer.has_synced:
            return
        self._informer.add_handler(self._seen, lambda _, new: self._seen(new), self._gone)
        self._informer.start()

    def _seen(self, found: Object) -> None:
        stored = self._stored.get(found["metadata"]["name"])
        if stored is None or found["spec"] != stored["spec"]:
            self._wake.set()

    def _gone(self, found: Object) -> None:
        if found["metadata"]["name"] in self._stored:
            self._wake.set()

    async def _sync(self) -> None:
        listed = (await self._client.list(self._slices, field_selector=self._selector))["items"]
        present = sorted(listed, key=lambda item: str(item["metadata"]["name"]))
        generation = max((item["spec"]["pool"]["generation"] for item in present), default=0)
        current = [item for item in present if item["spec"]["pool"]["generation"] == generation]
        if len(current) == len(present) == len(self._chunks) and self._as_wanted(current, generation):
            self._stored = {item["metadata"]["name"]: item for item in current}
            return
        wanted = [self._slice(chunk, generation + 1) for chunk in self._chunks]
        stored = {}
        for index, new in enumerate(wanted):
            old = present[index] if index < len(present) else None
            written = await self._write(old, new)
            stored[written["metadata"]["name"]] = written
        self._stored = stored
        for surplus in present[len(wanted) :]:
            await self._client.delete(self._slices, surplus["metadata"]["name"])

    def _as_wanted(self, current: Sequence[Object], generation: int) -> bool:
        """Whether each slice is what the server made of ours, or is ours as it is."""
        for item, chunk in zip(current, self._chunks, strict=True):
            stored = self._stored.get(item["metadata"]["name"])
            if stored is not None and stored["spec"] == item["spec"]:
                continue
            if self._slice(chunk, generation)["spec"] != item["spec"]:
                return False
        return True

    async def _write(self, old: Object | None, new: Object) -> Object:
        if old is None:
            return await self._client.create(self._slices, new)
        return await self._client.update(self._slices, {**old, "spec": new["spec"]})

    def _slice(self, devices: Sequence[Object], generation: int) -> Object:
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._node_name,
            "uid": self._node_uid,
            "controller": True,
        }
        pool = {
            "name": self._node_name,
            "generation": generation,
            "resourceSliceCount": len(self._chunks),
        }
        common = {
            "apiVersion": _COMMON.api_version,
            "kind": _COMMON.kind,
            "metadata": {
                "generateName": f"{self._node_name}-{self._driver}-",
                "ownerReferences": [owner],
            },
            "spec": {
                "driver": self._driver,
                "nodeName": self._node_name,
                "pool": pool,
                "devices": [dict(device) for device in devices],
            },
        }
        spoken = GroupVersionKind(self._slices.group, self._slices.version, self._slices.kind)
        return convert(common, spoken)


def _chunks(devices: Sequence[Object]) -> list[Sequence[Object]]:
    """A pool without devices is one empty slice."""
    return [devices[at : at + DEVICES_PER_SLICE] for at in range(0, len(devices), DEVICES_PER_SLICE)] or [[]]


class SliceWiper:
    """Deletes slices of this node that no driver stands behind (DRAPluginManager.wipeResourceSlices)."""

    def __init__(self, client: APIClient, clock: Clock, slices: Ref, node_name: str, delay: float) -> None:
        self._client = client
        self._clock = clock
        self._slices = slices
        self._node_name = node_name
        self._delay = delay
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def wipe(self, driver: str = "") -> None:
        """Delete the slices of a driver, or of all; tries until it is done."""
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
        """Wipe the driver's slices unless it is back in time; once that is pending, its time runs."""
        if driver in self._pending:
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
