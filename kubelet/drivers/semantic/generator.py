"""The controller of a driver with semantic parameters: makes ResourceClaimParameters of the vendor's.

It allocates nothing: the scheduler does. What it made goes with the vendor's object, which owns it; what
others made is left alone.

Source: KEP-4381 as drafted, "the DRA driver control plane must convert it".
"""

import asyncio
import logging
from typing import NamedTuple

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, Ref, parameters_refs
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.generation import ControllerParts
from kubeskew.kubelet.drivers.semantic.parameters import (
    MANAGED_BY,
    ParameterError,
    definition,
    generated,
    parameters_ref,
)
from kubeskew.kubelet.drivers.work_loop import run_workers

log = logging.getLogger(__name__)

_MAX_DELAY_SECONDS = 30.0
_DEFINE_SECONDS = 0.5  # until the definition is tried again
_COMPARED = ("generatedFrom", "parameters", "shareable")


class Key(NamedTuple):
    """The vendor's object to look at."""

    namespace: str
    name: str


class ParameterGenerator:
    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        informers: InformerFactory,
        name: str,
        vendor: Ref,
        target: Ref,
    ) -> None:
        """`vendor` is what users write, `target` the in-tree kind that is made of it."""
        self._client = client
        self._clock = clock
        self._informers = informers
        self._name = name
        self._vendor_ref, self._target_ref = vendor, target
        self._vendor = informers.informer(vendor)
        self._made = informers.informer(target)
        self._queue: WorkQueue[Key] = WorkQueue(clock, max_delay=_MAX_DELAY_SECONDS)
        self._recorder = EventRecorder(client, clock, f"resource driver {name}")
        self._vendor.add_handler(self._changed, lambda _, obj: self._changed(obj))
        self._made.add_handler(self._touched, lambda _, obj: self._touched(obj), self._touched)

    def _changed(self, vendor: Object) -> None:
        self._queue.add(Key(vendor["metadata"]["namespace"], vendor["metadata"]["name"]))

    def _touched(self, made: Object) -> None:
        """Looks again where somebody else changed or deleted what was made here."""
        origin = made.get("generatedFrom") or {}
        same = (origin.get("apiGroup"), origin.get("kind")) == (self._vendor_ref.group, self._vendor_ref.kind)
        if same and self._is_ours(made):
            self._queue.add(Key(made["metadata"]["namespace"], origin.get("name") or ""))

    def _is_ours(self, made: Object) -> bool:
        return (made["metadata"].get("labels") or {}).get(MANAGED_BY) == self._name

    def ready(self) -> bool | str:
        """Waits for all objects to be known, and names what is missing; a server without the in-tree kind is
        not waited for."""
        return (
            self._informers.has_synced or self._made.is_unserved or "the vendor's parameters are not listed"
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; what is being done then is finished."""
        await self._define()
        name = f"parameters of {self._name}"
        await run_workers(name, stop, self._informers, self._queue, self._recorder, self._process)

    async def _define(self) -> None:
        logged = ""
        while True:
            try:
                await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(self._vendor_ref))
            except (StatusError, *CONNECTION_ERRORS) as error:
                if isinstance(error, StatusError) and is_reason(error, "AlreadyExists"):
                    return
                if str(error) != logged:
                    log.info("the parameters of %s are not defined yet: %s", self._name, error)
                logged = str(error)
                await self._clock.sleep(_DEFINE_SECONDS)
            else:
                return

    async def _process(self, key: Key) -> None:
        vendor = self._vendor.get(*key)
        if vendor is None or vendor["metadata"].get("deletionTimestamp"):
            return  # the garbage collector deletes what was generated from it
        try:
            await self._sync(vendor)
        except ParameterError as error:
            self._emit_event(vendor, error)
            self._queue.forget(key)  # tried again when the object changes
        except CONNECTION_ERRORS as error:
            log.debug("processing %s/%s failed: %s", *key, error)
            self._queue.add_rate_limited(key)
        except StatusError as error:
            log.info("processing %s/%s failed: %s", *key, error)
            if not is_reason(error, "Conflict") and not is_reason(error, "AlreadyExists"):
                self._emit_event(vendor, error)
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)

    def _emit_event(self, vendor: Object, error: object) -> None:
        ref = self._vendor_ref
        about = {"apiVersion": ref.api_version, "kind": ref.kind, **vendor}
        self._recorder.event(about, "Warning", "Failed", f"generating ResourceClaimParameters: {error}")

    async def _sync(self, vendor: Object) -> None:
        """Raises ParameterError, StatusError or a connection error."""
        wanted = generated(self._name, self._vendor_ref, self._target_ref, vendor)
        metadata = wanted["metadata"]
        stored = self._made.get(metadata["namespace"], metadata["name"])
        if stored is None:
            await self._client.create(self._target_ref, wanted)
        elif not self._is_ours(stored):
            raise ParameterError(f"{metadata['name']} is somebody else's")
        elif any((stored.get(key) or None) != (wanted.get(key) or None) for key in _COMPARED):
            kept = {**stored["metadata"], "ownerReferences": metadata["ownerReferences"]}
            await self._client.update(self._target_ref, {**wanted, "metadata": kept})


async def run_generator(parts: ControllerParts, vendor: tuple[str, str]) -> None:
    """Makes semantic parameters of objects of that group and kind, until cancelled."""
    ctx = parts.ctx
    version, environment = ctx.options.emulated_version, ctx.environment
    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    target, ref = parameters_refs(version)[1], parameters_ref(*vendor)
    log.info("generating parameters of %s", ref.kind)
    generator = ParameterGenerator(ctx.client, environment.clock, informers, parts.driver, ref, target)
    parts.ready(generator.ready)
    await generator.run(asyncio.Event())
