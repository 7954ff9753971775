"""The example driver's controller by KEP-3063's draft, and the capacity that its nodes publish.

The controller allocates and frees claims by their status. Nobody leads: one controller of a driver runs at a
time. What it has allocated stands in the claims, where it is read again after a start. What the driver has on
each node is published in objects of a definition of its own; they are of the driver's group, named after the
node, in its namespace, and go with the Node.

Source: KEP-3063 as drafted, sections API and "Implementing a plugin for node resources".
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, NODES, DRARefs, Ref, dra_refs
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.kubelet.drivers.generation import ControllerParts
from kubeskew.kubelet.drivers.settings import ControllerSettings
from kubeskew.kubelet.drivers.work_loop import run_workers

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"  # where the driver's account is
_LOOK_SECONDS = 0.5
_DEVICE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "memory": {"type": "string"},
        "claims": {"type": "array", "items": {"type": "string"}},
    },
}
_SCHEMA = {"type": "object", "properties": {"devices": {"type": "array", "items": _DEVICE}}}
_MAX_DELAY_SECONDS = 30.0
_EXHAUSTED = "resources exhausted on all nodes"


class ExhaustedError(Exception):
    """There is no room for a claim; the text is for people."""


class ParameterError(ValueError):
    """Parameters of a claim or class, or facts of a device, cannot be read; the text is for people."""


def read_memory(value: object) -> Quantity:
    """Raises ParameterError for an amount that cannot be read, or is not above zero."""
    try:
        memory = Quantity.parse(str(value))
    except QuantityError as error:
        raise ParameterError(f'memory "{value}": {error}') from error
    if memory.sign() <= 0:
        raise ParameterError(f'memory "{value}": must be greater than zero')
    return memory


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a device that a claim has. `memory` is None for all of it; an optional claim that found no
    room has no `device`.
    """

    node: str
    device: str
    memory: Quantity | None


@dataclass(slots=True)
class DevicePool:
    """All devices by node, and the claims that have them; each device is whole or shared by its memory."""

    devices: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)  # by claim UID

    def share_of(self, uid: str) -> Share | None:
        return self._shares.get(uid)

    def learn(self, uid: str, share: Share) -> None:
        self._shares[uid] = share

    def free(self, uid: str) -> None:
        self._shares.pop(uid, None)

    def take(self, uid: str, node: str, memory: Quantity | None, *, optional: bool = False) -> Share:
        """The claim keeps a part of a device that it has on the node; else it takes one that fits.

        Raises ExhaustedError, unless the claim does without a device.
        """
        known = self._shares.get(uid)
        if known is not None and known.node == node:
            return known
        device = self._first_fit(node, memory, but=uid)
        if device is None and not optional:
            raise ExhaustedError(f'resources exhausted on node "{node}"')
        self._shares[uid] = Share(node, "", None) if device is None else Share(node, device, memory)
        return self._shares[uid]

    def users_of(self, node: str, device: str) -> list[str]:
        return sorted(
            uid for uid, share in self._shares.items() if (share.node, share.device) == (node, device)
        )

    def nodes_with_room(self, memory: Quantity | None) -> list[str]:
        """Lists the nodes that could take the claim, those with most free devices first."""
        fitting = [node for node in sorted(self.devices) if self._first_fit(node, memory) is not None]
        return sorted(fitting, key=lambda node: sum(share.node == node for share in self._shares.values()))

    def has_room(self, node: str, memory: Quantity | None, *, but: str = "") -> bool:
        """The claim `but` is the one to take: its own share does not count."""
        return self._first_fit(node, memory, but=but) is not None

    def _first_fit(self, node: str, memory: Quantity | None, *, but: str = "") -> str | None:
        for device in self.devices.get(node) or ():
            taken = [
                share
                for uid, share in self._shares.items()
                if uid != but and (share.node, share.device) == (node, device["name"])
            ]
            if not taken and (memory is None or not device.get("memory")):
                return str(device["name"])
            if memory is None or not device.get("memory") or any(share.memory is None for share in taken):
                continue
            used = sum((share.memory.value() for share in taken if share.memory is not None), 0)
            if used + memory.value() <= _memory_of(node, device).value():
                return str(device["name"])
        return None


def _memory_of(node: str, device: Object) -> Quantity:
    try:
        return read_memory(device["memory"])
    except ParameterError as error:
        raise ParameterError(f'device "{device["name"]}" of node "{node}": {error}') from error


def capacity_ref(driver: str) -> Ref:
    return Ref(driver, "v1alpha1", "nodecapacities", True, "NodeCapacity")


def definition(driver: str) -> Object:
    ref = capacity_ref(driver)
    names = {"plural": ref.plural, "singular": "nodecapacity", "kind": ref.kind}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SCHEMA}}}
    version = {"name": ref.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{ref.plural}.{ref.group}"},
        "spec": {"group": ref.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


class CapacityPublisher:
    """Keeps the capacity objects up to date with the nodes' devices; `run` until cancelled."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        driver: str,
        hardware: Callable[[], Mapping[str, Sequence[Object]]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._driver = driver
        self._ref = capacity_ref(driver)
        self._hardware = hardware
        self._published: dict[str, list[Object]] = {}
        self._failure = ""

    async def run(self) -> None:
        """Looks at the driver's own devices; the API server is asked only when these have changed."""
        defined = False
        while True:
            try:
                if not defined:
                    await self._define()
                    defined = True
                for node, devices in self._hardware().items():
                    if self._published.get(node) != devices:
                        await self._publish(node, list(devices))
                self._failure = ""
            except (StatusError, *CONNECTION_ERRORS) as error:
                if str(error) != self._failure:
                    log.info("capacity is not published yet: %s", error)
                self._failure = str(error)
            await self._clock.sleep(_LOOK_SECONDS)

    async def _define(self) -> None:
        try:
            await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(self._driver))
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise

    async def _publish(self, node: str, devices: list[Object]) -> None:
        owner = await self._client.get(NODES, node)
        reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]}
        metadata = {"name": node, "namespace": NAMESPACE, "ownerReferences": [reference]}
        made = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, "metadata": metadata}
        try:
            await self._client.create(self._ref, {**made, "spec": {"devices": devices}})
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise
            stored = await self._client.get(self._ref, node, NAMESPACE)
            metadata = {**stored["metadata"], "ownerReferences": [reference]}
            changed = {**stored, "metadata": metadata, "spec": {"devices": devices}}
            await self._client.update(self._ref, changed)
        self._published[node] = devices


class Key(NamedTuple):
    """The claim to look at."""

    namespace: str
    name: str


class DraftedController:
    """One claim is worked on at a time, so that no device is given twice."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        informers: InformerFactory,
        refs: DRARefs,
        name: str,
        settings: ControllerSettings,
        pool: DevicePool,
    ) -> None:
        self._client = client
        self._ref = refs.claims
        self._name = name
        self._settings = settings
        self._informers = informers
        self._claims = informers.informer(refs.claims)
        self._classes = informers.informer(refs.device_classes)
        self._capacity = informers.informer(capacity_ref(name))
        self._pool = pool
        self._finalizer = f"{name}/deletion-protection"
        self._queue: WorkQueue[Key] = WorkQueue(clock, max_delay=_MAX_DELAY_SECONDS)
        self._recorder = EventRecorder(client, clock, f"resource driver {name}")
        self._claims.add_handler(self._changed, lambda _, claim: self._changed(claim), self._gone)
        renew = self._capacity_changed
        self._capacity.add_handler(renew, lambda _, obj: renew(obj), renew)
        self._classes.add_handler(lambda _: self._look_again(), lambda _old, _new: self._look_again())

    # -- handlers

    def _changed(self, claim: Object) -> None:
        status, uid = claim.get("status") or {}, claim["metadata"]["uid"]
        if self._is_allocated(claim) and self._pool.share_of(uid) is None:
            attributes = status.get("attributes") or {}
            memory = _memory_in(attributes)
            self._pool.learn(uid, Share(attributes.get("node", ""), attributes.get("device", ""), memory))
        self._queue.add(Key(claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _gone(self, claim: Object) -> None:
        self._pool.free(claim["metadata"]["uid"])
        self._look_again()

    def _capacity_changed(self, _: Object) -> None:
        self._pool.devices = {
            found["metadata"]["name"]: (found.get("spec") or {}).get("devices") or ()
            for found in self._capacity.list()
        }
        self._look_again()

    def _look_again(self) -> None:
        """Looks at every claim that waits: which nodes suit it may be different now."""
        for claim in self._claims.list():
            if (claim.get("status") or {}).get("phase") == "Pending":
                self._queue.add(Key(claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _is_allocated(self, claim: Object) -> bool:
        status = claim.get("status") or {}
        return status.get("driverName") == self._name and status.get("phase") in ("Allocated", "Reallocate")

    # -- the loop

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; what is being done then is finished."""
        await run_workers(self._name, stop, self._informers, self._queue, self._recorder, self._process)

    async def _process(self, key: Key) -> None:
        """Works on the claim as it is now: what this controller wrote must not be missed."""
        claim = self._claims.get(*key)
        if claim is None:
            return
        try:
            claim = await self._client.get(self._ref, key.name, key.namespace)
            await self._sync(claim)
            self._queue.forget(key)
        except ExhaustedError as error:
            # Tried again when capacity or another claim changes.
            self._emit_event(claim, error)
            self._queue.forget(key)
        except CONNECTION_ERRORS as error:
            log.debug("processing %s/%s failed: %s", key.namespace, key.name, error)
            self._queue.add_rate_limited(key)
        except (StatusError, ParameterError) as error:
            if is_reason(error, "NotFound"):
                self._queue.forget(key)
                return
            log.info("processing %s/%s failed: %s", key.namespace, key.name, error)
            self._emit_event(claim, error)
            self._queue.add_rate_limited(key)
        except Exception as error:
            log.exception("processing %s/%s", *key)
            self._emit_event(claim, f"internal error: {error!r}")
            self._queue.add_rate_limited(key)

    def _emit_event(self, claim: Object, error: object) -> None:
        about = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, **claim}
        self._recorder.event(about, "Warning", "Failed", str(error))

    async def _sync(self, claim: Object) -> None:
        """Raises ExhaustedError, ParameterError, StatusError or a connection error."""
        status = claim.get("status") or {}
        deleting = bool(claim["metadata"].get("deletionTimestamp"))
        if reserved_for(claim):
            return  # somebody uses it, no matter what is wanted of it
        if deleting or status.get("phase") == "Reallocate":
            if self._is_ours(claim):
                await self._free(claim)
            return
        if status.get("phase") != "Pending":
            return
        resource_class = self._classes.get("", claim["spec"].get("resourceClassName") or "")
        if resource_class is None or resource_class.get("driverName") != self._name:
            return  # the class may come, or be replaced by one of this driver
        if claim["spec"].get("allocationMode") == "Immediate":
            await self._immediate(claim, resource_class)
        else:
            await self._delayed(claim, resource_class)

    def _is_ours(self, claim: Object) -> bool:
        return self._finalizer in (claim["metadata"].get("finalizers") or ())

    # -- freeing

    async def _free(self, claim: Object) -> None:
        """Frees the resource, clears the status, and lets the claim go, in this order."""
        self._pool.free(claim["metadata"]["uid"])
        gone = ("driverName", "attributes", "scheduling")
        status = {key: value for key, value in claim["status"].items() if key not in gone}
        answer = await self._update({**claim, "status": {**status, "phase": "Pending"}}, "status")
        finalizers = [name for name in answer["metadata"].get("finalizers") or () if name != self._finalizer]
        await self._update({**answer, "metadata": {**answer["metadata"], "finalizers": finalizers}})
        self._look_again()

    # -- allocating

    async def _immediate(self, claim: Object, resource_class: Object) -> None:
        """Selects a node by itself, and then allocates for it; for another if that has no room any more."""
        memory, selected = _memory(claim), _scheduler(claim).get("selectedNode") or ""
        if selected in self._suiting(self._pool.devices, memory, claim):
            await self._allocate(claim, resource_class, selected)
            return
        fitting = self._pool.nodes_with_room(memory)
        if not fitting and _is_optional(claim):
            fitting = sorted(self._pool.devices)
        wanted = fitting[0] if fitting else ""
        if wanted != selected:
            scheduling: Object = {"scheduler": {"selectedNode": wanted}} if wanted else {}
            await self._update({**claim, "status": {**claim["status"], "scheduling": scheduling}}, "status")
        if not wanted:
            raise ExhaustedError(_EXHAUSTED)

    async def _delayed(self, claim: Object, resource_class: Object) -> None:
        """Allocates for the selected node, or says which of the nodes do not suit."""
        scheduler, memory = _scheduler(claim), _memory(claim)
        selected = scheduler.get("selectedNode") or ""
        scheduling = claim["status"].get("scheduling") or {}
        driver = scheduling.get("driver") or {}
        before: Sequence[str] = driver.get("unsuitableNodes") or ()
        # Nodes that were unsuitable are no longer potential ones, but have to stay on the list.
        known = {*before, *(scheduler.get("potentialNodes") or ()), *([selected] if selected else ())}
        suiting = self._suiting(known, memory, claim)
        if selected in suiting:
            await self._allocate(claim, resource_class, selected)
            return
        unsuitable = sorted(known - suiting)
        if unsuitable != sorted(before):
            changed = {**scheduling, "driver": {**driver, "unsuitableNodes": unsuitable}}
            await self._update({**claim, "status": {**claim["status"], "scheduling": changed}}, "status")
        if known and len(unsuitable) == len(known) and not self._pool.nodes_with_room(memory):
            raise ExhaustedError(_EXHAUSTED)

    def _suiting(self, nodes: Iterable[str], memory: Quantity | None, claim: Object) -> set[str]:
        """Picks the nodes where a pod could use the claim; for an optional one that fits nowhere, all nodes
        of the driver."""
        fitting = {node for node in nodes if self._has_room(node, memory, claim)}
        if fitting or not _is_optional(claim):
            return fitting
        return {node for node in nodes if node in self._pool.devices}

    def _has_room(self, node: str, memory: Quantity | None, claim: Object) -> bool:
        if self._settings.node_local:
            return self._pool.has_room(node, memory, but=claim["metadata"]["uid"])
        return node in self._pool.devices and bool(self._pool.nodes_with_room(memory))

    async def _allocate(self, claim: Object, resource_class: Object, node: str) -> None:
        """The finalizer comes first: no claim is gone while something is allocated for it."""
        memory, uid = _memory(claim), claim["metadata"]["uid"]
        parameters = _parameters(claim, resource_class)
        if not self._is_ours(claim):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), self._finalizer]
            claim = await self._update({**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}})
        others = [] if self._settings.node_local else self._pool.nodes_with_room(memory)
        share = self._pool.take(uid, others[0] if others else node, memory, optional=_is_optional(claim))
        nodes = [node] if self._settings.node_local else sorted(self._pool.devices)
        status = {
            **claim["status"],
            "phase": "Allocated",
            "driverName": self._name,
            "userLimit": -1 if self._settings.shareable else self._settings.user_limit,
            "attributes": {**parameters, **_attributes_of(share)},
            "scheduling": {"driver": {"availableOnNodes": _on(nodes)}},
        }
        try:
            await self._update({**claim, "status": status}, "status")
        except StatusError:
            self._pool.free(uid)  # the next look begins again
            raise
        self._look_again()

    async def _update(self, claim: Object, subresource: str = "") -> Object:
        return await self._client.update(self._ref, claim, subresource)


def _scheduler(claim: Object) -> Object:
    found: Object = ((claim.get("status") or {}).get("scheduling") or {}).get("scheduler") or {}
    return found


def _memory(claim: Object) -> Quantity | None:
    """None means all of a device's memory. Raises ParameterError."""
    asked = _claim_parameters(claim).get("memory")
    try:
        return None if asked is None else read_memory(asked)
    except ParameterError as error:
        raise ParameterError(f"{_about_parameters(claim)}: {error}") from error


def _is_optional(claim: Object) -> bool:
    """An optional claim does without a device where there is none. Raises ParameterError."""
    asked = _claim_parameters(claim).get("optional", False)
    if not isinstance(asked, bool):
        shown = orjson.dumps(asked).decode()
        raise ParameterError(f"{_about_parameters(claim)}: optional: expected true or false, got: {shown}")
    return asked


def _memory_in(attributes: Object) -> Quantity | None:
    """Memory that cannot be read counts as the whole device, as None does."""
    try:
        return read_memory(attributes["memory"]) if attributes.get("memory") else None
    except ParameterError as error:
        log.warning("attributes of an allocated claim: %s; the whole device counts as taken", error)
        return None


def _claim_parameters(claim: Object) -> Object:
    """Raises ParameterError."""
    return _mapping(claim["spec"].get("parameters"), _about_parameters(claim))


def _about_parameters(claim: Object) -> str:
    return f"claim parameters {claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _mapping(parameters: Any, about: str) -> Object:
    """The API lets parameters be any JSON, the driver only an object. Raises ParameterError."""
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise ParameterError(f"{about}: expected an object, got: {orjson.dumps(parameters).decode()}")
    return parameters


def _attributes_of(share: Share) -> dict[str, str]:
    attributes = {"node": share.node, **({"device": share.device} if share.device else {})}
    return attributes if share.memory is None else {**attributes, "memory": share.memory.canonical()}


def _parameters(claim: Object, resource_class: Object) -> dict[str, str]:
    """Parameters of user and administrator become attributes, which become variables.

    Raises ParameterError.
    """
    found = {}
    about = f"class parameters {resource_class['metadata']['name']}"
    for kind, parameters in (
        ("user", _claim_parameters(claim)),
        ("admin", _mapping(resource_class.get("parameters"), about)),
    ):
        for key, value in parameters.items():
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            found[f"{kind}_{key}"] = text
    return found


def _on(nodes: Sequence[str]) -> Object:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _hardware(parts: ControllerParts) -> dict[str, list[Object]]:
    """The devices of each node, as they are now."""
    found, nodes = {}, parts.nodes()
    for name, number in parts.capacity().items():
        offer = nodes[name].offer
        memory = (offer.capacity or {}).get("memory") or ""
        base = offer.device_name or "gpu"
        found[name] = [{"name": f"{base}-{n}", "memory": str(memory)} for n in range(number)]
    return found


async def run_drafted_controller(parts: ControllerParts) -> None:
    """Works until cancelled."""
    ctx, name, pool = parts.ctx, parts.driver, DevicePool()
    environment = ctx.environment

    def with_users() -> dict[str, list[Object]]:
        return {
            node: [{**device, "claims": pool.users_of(node, device["name"])} for device in devices]
            for node, devices in _hardware(parts).items()
        }

    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    refs = dra_refs(ctx.options.emulated_version)
    controller = DraftedController(ctx.client, environment.clock, informers, refs, name, parts.settings, pool)
    publisher = CapacityPublisher(ctx.client, environment.clock, name, with_users)
    log.info("allocating claims")
    await asyncio.gather(controller.run(asyncio.Event()), publisher.run())
