"""Publishes the resources that drivers send the kubelet, as slices of its node: in 1.30 and 1.29+kep4381.

A driver sends all its resources at once; slices that say the same stay, others are updated before new ones
are made, and the rest is deleted. So are the slices of drivers that are not registered, also those an earlier
kubelet left, and those of a driver whose resources this kubelet cannot read. The form in which drivers send
resources, and slices hold them, depends on the release.

Source: pkg/kubelet/cm/dra/plugin/noderesources.go, 1.30.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from kubeskew.kubelet.protocols.message_sockets import Channel

log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0  # until a stream that failed is opened again
_RESYNC_SECONDS = 600.0
_REFUSALS = (400, 413, 422)  # of slices that the API server will never take
_COMMON_FIELDS = {"apiVersion", "kind", "metadata", "nodeName", "driverName"}


class RefusedResourcesError(ValueError):
    """A driver's resources cannot be published; the text says why."""


@dataclass(frozen=True, slots=True)
class ResourceForm:
    """One form. `read` returns what the slices of a driver are to hold, one entry per slice, and raises
    RefusedResourcesError; `meaning` returns what an entry says, however it is written. `keeps_copies` of
    slices that say the same: upstream does, though they count a resource twice."""

    read: Callable[[Any], list[Object]]
    meaning: Callable[[Object], Object]
    keeps_copies: bool = False


def _read_named(response: Any) -> list[Object]:
    """Drivers of 1.30 decide themselves what one slice holds."""
    from kubeskew.kubelet.protocols.named_resources import models_of

    return models_of(response)


def _named_meaning(model: Object) -> Object:
    """Quantities count by amount, as upstream's semantic equality has it; empty parts do not count."""
    resources = model.get("namedResources")
    if resources is None:
        return {}
    return {
        "instances": [
            (instance["name"], [_attribute(each) for each in instance.get("attributes") or ()])
            for instance in resources.get("instances") or ()
        ]
    }


def _attribute(attribute: Object) -> Object:
    if "quantity" not in attribute:
        return attribute
    try:
        return {**attribute, "quantity": Quantity.parse(str(attribute["quantity"]))}
    except QuantityError:  # the server will refuse it
        return attribute


NAMED_RESOURCES = ResourceForm(_read_named, _named_meaning, keeps_copies=True)  # 1.30


@dataclass(slots=True, eq=False)
class _ActivePlugin:
    """A registered driver's last report, and the task that reads its stream."""

    resources: list[Object] = field(default_factory=list)
    reported: str = ""  # digest of the message
    refused: bool = False  # by the API server, for good
    monitoring: asyncio.Task[None] | None = None


class NodeResources:
    """Keeps the slices of a node as its drivers report them: `start`, `add_plugin`, `remove_plugin`,
    `stop`."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        slices: Ref,
        node_name: str,
        form: ResourceForm = NAMED_RESOURCES,
        refused: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`refused` is called with the reason why a driver's resources are not published."""
        self._form = form
        self._refused = refused
        self._client = client
        self._clock = clock
        self._slices = slices
        self._node_name = node_name
        self._plugins: dict[str, _ActivePlugin] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._informer = Informer(client, slices, clock, "", f"nodeName={node_name}")
        self._informer.add_handler(self._changed, lambda _old, new: self._changed(new), self._changed)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to sync; drivers that are not registered yet lose their slices."""
        self._informer.start()
        name = f"named resources of {self._node_name}"
        self._tasks = [
            asyncio.create_task(self._work(), name=name),
            asyncio.create_task(self._resync(), name=f"{name}: resync"),
        ]

    def add_plugin(self, driver: str, channel: "Channel") -> None:
        """Reads the resources of a driver that registered, once more if it did so before."""
        self._cancel(self._plugins.get(driver))
        plugin = self._plugins[driver] = _ActivePlugin()
        self._queue.add(driver)
        monitoring = self._monitor(plugin, driver, channel)
        plugin.monitoring = asyncio.create_task(monitoring, name=f"named resources of {driver}")

    def remove_plugin(self, driver: str) -> None:
        """Deletes the slices of a driver that left."""
        plugin = self._plugins.pop(driver, None)
        if plugin is not None:
            self._cancel(plugin)
            self._queue.add(driver)

    async def stop(self) -> None:
        """Stops reading and writing; slices stay as they are."""
        self._queue.shut_down()
        tasks = [*self._tasks, *(p.monitoring for p in self._plugins.values() if p.monitoring is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._informer.stop()

    def state(self) -> dict[str, Object]:
        """`{digest, published}` stands under each driver that reports resources: its last report's digest,
        and whether the slices hold that as far as the API server takes it."""
        return {
            driver: {"digest": plugin.reported, "published": self._is_published(driver, plugin)}
            for driver, plugin in self._plugins.items()
            if plugin.monitoring is not None and not plugin.monitoring.done()
        }

    def _is_published(self, driver: str, plugin: _ActivePlugin) -> bool:
        if plugin.refused or self._informer.cannot_list:
            return True
        return self._informer.has_synced and self._difference(driver) == ([], [])

    @staticmethod
    def _cancel(plugin: _ActivePlugin | None) -> None:
        if plugin is not None and plugin.monitoring is not None:
            plugin.monitoring.cancel()

    def _changed(self, obj: Object) -> None:
        self._queue.add(obj["driverName"])

    # -- streams

    async def _monitor(self, plugin: _ActivePlugin, driver: str, channel: "Channel") -> None:
        """Takes the driver's reports until it ends the stream or does not serve it; tries again after other
        errors."""
        from kubeskew.kubelet.protocols.dra_classic import NODE_RESOURCES
        from kubeskew.kubelet.protocols.grpc_calls import UNIMPLEMENTED, RpcError

        while True:
            try:
                async for response in NODE_RESOURCES.call(channel, NODE_RESOURCES.request()):
                    self._take(plugin, driver, response)
            except RpcError as error:
                if error.code is UNIMPLEMENTED:
                    log.info("driver %s does not report node resources", driver)
                    return
                log.error("Reading node resources from gRPC stream failed: driver %s: %s", driver, error)
            else:
                log.info("driver %s closed the stream of its node resources", driver)
                return
            await self._clock.sleep(_RETRY_SECONDS)

    def _take(self, plugin: _ActivePlugin, driver: str, response: Any) -> None:
        """Takes a whole report or nothing of it: a slice with a gap would mislead."""
        from kubeskew.kubelet.protocols.dra_classic import digest

        plugin.reported, plugin.refused = digest(response), False
        try:
            plugin.resources = self._form.read(response)
        except RefusedResourcesError as error:
            plugin.resources = []
            text = f"the resources of DRA driver {driver} are not published: {error}"
            log.error("%s", text)
            self._refused(text)
        self._queue.add(driver)

    # -- slices

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(_RESYNC_SECONDS)
            for obj in self._informer.list():
                self._changed(obj)

    async def _work(self) -> None:
        await self._informer.synced()
        await self._queue.work(self._process)

    async def _process(self, driver: str) -> None:
        try:
            await self._sync(driver)
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.error("processing driver %s: %s", driver, error)
            if isinstance(error, StatusError) and error.code in _REFUSALS and driver in self._plugins:
                self._plugins[driver].refused = True
            self._queue.add_rate_limited(driver)
        except Exception:
            log.exception("processing driver %s", driver)
            self._queue.add_rate_limited(driver)
        else:
            self._queue.forget(driver)

    async def _sync(self, driver: str) -> None:
        """Raises StatusError or a connection's error."""
        missing, obsolete = self._difference(driver)
        for model in missing:
            if obsolete:
                old = obsolete.pop()
                kept = {key: value for key, value in old.items() if key in _COMMON_FIELDS}
                await self._client.update(self._slices, {**kept, **model})
            else:
                await self._create(driver, model)
        for old in obsolete:
            await self._delete(old["metadata"]["name"])

    def _difference(self, driver: str) -> tuple[list[Object], list[Object]]:
        """Lists the entries of a driver that no slice holds, and its slices that hold none."""
        plugin = self._plugins.get(driver)
        wanted = plugin.resources if plugin is not None else []
        stored = [obj for obj in self._informer.list() if obj["driverName"] == driver]
        return compare(wanted, stored, self._form)

    async def _create(self, driver: str, model: Object) -> None:
        node = await self._client.get(NODES, self._node_name)
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._node_name,
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "apiVersion": self._slices.api_version,
            "kind": self._slices.kind,
            "metadata": {"generateName": f"{self._node_name}-{driver}-", "ownerReferences": [owner]},
            "nodeName": self._node_name,
            "driverName": driver,
            **model,
        }
        await self._client.create(self._slices, body)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(self._slices, name)
        except StatusError as error:
            if error.code != 404:
                raise


def compare(
    wanted: Sequence[Object],
    stored: Sequence[Object],
    form: ResourceForm = NAMED_RESOURCES,
) -> tuple[list[Object], list[Object]]:
    """Lists the entries that no slice holds, and the slices that hold none, by name.

    Where the form has it so, two slices that hold the same entry both stay.
    """
    meanings = [form.meaning(model) for model in wanted]
    found: set[int] = set()
    obsolete = []
    for obj in sorted(stored, key=lambda obj: str(obj["metadata"]["name"])):
        meaning = form.meaning({key: value for key, value in obj.items() if key not in _COMMON_FIELDS})
        index = meanings.index(meaning) if meaning in meanings else None
        if index is None or (index in found and not form.keeps_copies):
            obsolete.append(obj)
        else:
            found.add(index)
    return [model for index, model in enumerate(wanted) if index not in found], obsolete
