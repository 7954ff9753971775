"""The controller of a classic DRA driver: allocates and frees claims, and decides which nodes do not suit.

A driver implements `Driver`; the rest is here. Nobody leads: one controller of a driver runs at a time. What
a driver allocates or frees is written in the order that survives a crash at any point.

    class MyDriver:
        async def class_parameters(self, resource_class): ...

    controller = DriverController(client, clock, informers, Version(30), "gpu.example.com", MyDriver())
    await controller.run(stop)

Source: k8s.io/dynamic-resource-allocation/controller (syncClaim, allocateClaims), 0.26 to 0.31.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kubeskew.apimachinery.claim_users import is_for_pod
from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PODS, Ref, dra_refs, scheduling_context_ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.classic.controller.features import LibraryFeatures
from kubeskew.kubelet.drivers.work_loop import run_workers

log = logging.getLogger(__name__)

RECHECK_SECONDS = 30.0  # that suitable nodes are asked for again while a pod waits
_WORKERS = 5
_MAX_NODES = 128
_MAX_DELAY_SECONDS = 30.0  # upstream: 1000


class DriverError(Exception):
    """A driver could not do what it was asked; the text becomes an event, and the work is done again."""


@dataclass(slots=True)
class ClaimAllocation:
    """One claim of a pod, or an immediate one. The driver fills in the last three."""

    entry: str  # in the pod's spec.resourceClaims; empty for an immediate claim
    claim: Object
    resource_class: Object | None  # None in 1.31, where a claim may have several
    class_parameters: Any = None
    claim_parameters: Any = None
    unsuitable_nodes: list[str] = field(default_factory=list)
    allocation: Object | None = None
    error: str = ""


class Driver(Protocol):
    """Does what only the driver can. All calls may be repeated: each must be idempotent."""

    async def class_parameters(self, resource_class: Object) -> Any:
        """Reads what the class's `parametersRef` points to. Raises DriverError."""
        ...

    async def claim_parameters(self, claim: Object, resource_class: Object, class_parameters: Any) -> Any:
        """Reads what the claim's `parametersRef` points to. Raises DriverError."""
        ...

    async def allocate(self, claims: Sequence[ClaimAllocation], node: str) -> None:
        """Fills in `allocation` or `error` of each; `node` is empty for an immediate claim.

        Raises DriverError if nothing can be allocated.
        """
        ...

    async def deallocate(self, claim: Object) -> None:
        """Frees what the claim has, or what was begun for it. Raises DriverError."""
        ...

    async def unsuitable_nodes(
        self, pod: Object, claims: Sequence[ClaimAllocation], nodes: Sequence[str]
    ) -> None:
        """Fills in `unsuitable_nodes` of each. Raises DriverError."""
        ...


class ClaimAllocator:
    """Methods raise DriverError, with the text of upstream's error, or a connection error."""

    def __init__(
        self,
        client: APIClient,
        ref: Ref,
        name: str,
        driver: Driver,
        features: LibraryFeatures,
        written: Callable[[Object], None],
        *,
        reserves: bool,
    ) -> None:
        """`written` is called with every answer.

        `reserves`: the pod for which a claim is allocated gets its reservation in the same write.
        """
        self._written = written
        self._client = client
        self._ref = ref
        self._name = name
        self._driver = driver
        self._features = features
        self._reserves = reserves
        self.finalizer = f"{name}/deletion-protection"

    def is_ours(self, claim: Object) -> bool:
        return self.finalizer in (claim["metadata"].get("finalizers") or ())

    async def free(self, claim: Object) -> None:
        """Deallocates, clears the status, and lets the claim go, in this order."""
        status = claim.get("status") or {}
        if status.get("allocation") is not None:
            await self._deallocate(claim, "deallocate")
            gone = ("allocation", "driverName", "deallocationRequested")
            left = {key: value for key, value in status.items() if key not in gone}
            claim = await self._update({**claim, "status": left}, "status", "remove allocation")
        else:
            await self._deallocate(claim, "stop allocation")
            if status.get("deallocationRequested"):
                left = {key: value for key, value in status.items() if key != "deallocationRequested"}
                claim = await self._update({**claim, "status": left}, "status", "remove deallocation")
        finalizers = [name for name in claim["metadata"].get("finalizers") or () if name != self.finalizer]
        metadata = {**claim["metadata"], "finalizers": finalizers}
        await self._update({**claim, "metadata": metadata}, "", "remove finalizer")

    async def allocate(self, claims: Sequence[ClaimAllocation], node: str, user: Object | None) -> None:
        """Allocates the claims of one pod, or an immediate one (without `user`).

        Up to 0.27 they are allocated one after the other, until the first error; later together, and each has
        its own.
        """
        batches = [list(claims)] if self._features.batches else [[claim] for claim in claims]
        for batch in batches:
            await self._allocate_batch(batch, node, user)
            if not self._features.batches and batch[0].error:
                return

    async def _allocate_batch(self, batch: list[ClaimAllocation], node: str, user: Object | None) -> None:
        waiting = [claim for claim in batch if (claim.claim.get("status") or {}).get("allocation") is None]
        for claim in waiting:
            try:
                await self._protect(claim)
            except DriverError as error:
                claim.error = str(error)
        ready = [claim for claim in waiting if not claim.error]
        if not ready:
            return
        prefix = "allocate: " if user is None or not self._features.batches else ""
        try:
            await self._driver.allocate(ready, node)
        except DriverError as error:
            for claim in ready:
                claim.error = f"{prefix}{error}"
            return
        for claim in ready:
            if claim.error:
                claim.error = f"{prefix}{claim.error}"
            elif claim.allocation is None:
                claim.error = "allocating claim: missing allocation from driver"
            else:
                await self._store(claim, claim.allocation, user)

    async def _protect(self, claim: ClaimAllocation) -> None:
        if self.is_ours(claim.claim):
            return
        finalizers = [*(claim.claim["metadata"].get("finalizers") or ()), self.finalizer]
        changed = {**claim.claim, "metadata": {**claim.claim["metadata"], "finalizers": finalizers}}
        claim.claim = await self._update(changed, "", "add finalizer")

    async def _store(self, claim: ClaimAllocation, allocation: Object, user: Object | None) -> None:
        status = dict(claim.claim.get("status") or {})
        if self._features.by_controller:
            status["allocation"] = {**allocation, "controller": self._name}
        else:
            status |= {"allocation": allocation, "driverName": self._name}
        if user is not None and self._reserves:
            status["reservedFor"] = [*(status.get("reservedFor") or ()), user]
        try:
            claim.claim = await self._update({**claim.claim, "status": status}, "status", "add allocation")
        except DriverError as error:
            claim.error = str(error)

    async def _deallocate(self, claim: Object, what: str) -> None:
        try:
            await self._driver.deallocate(claim)
        except DriverError as error:
            raise DriverError(f"{what}: {error}") from error

    async def _update(self, claim: Object, subresource: str, what: str) -> Object:
        try:
            answer = await self._client.update(self._ref, claim, subresource)
        except StatusError as error:
            raise DriverError(f"{what}: {error.message}") from error
        self._written(answer)
        return answer


class Task(NamedTuple):
    """A claim or a context to look at."""

    kind: str
    namespace: str
    name: str


class Outcome(Enum):
    """The next step of the queue for a task that was processed."""

    DONE = "done"
    REQUEUE = "requeue"  # quietly, with growing delays: it may become ours
    PERIODIC = "periodic"


class NewestClaims:
    """The informer's claims, and newer ones that were written here."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self._written: dict[tuple[str, str], Object] = {}

    def written(self, claim: Object) -> None:
        """Takes the answer to a write, which counts until the informer has it."""
        self._written[claim["metadata"]["namespace"], claim["metadata"]["name"]] = claim

    def get(self, namespace: str, name: str) -> Object | None:
        known, own = self.informer.get(namespace, name), self._written.get((namespace, name))
        if own is None:
            return known
        if known is not None and known["metadata"]["uid"] == own["metadata"]["uid"] and _is_older(known, own):
            return own
        del self._written[namespace, name]
        return known


class DriverController:
    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        informers: InformerFactory,
        version: Version,
        name: str,
        driver: Driver,
        *,
        reserves: bool = True,
    ) -> None:
        """`version` is the release of the library; the API server has to serve its API version."""
        self.name = name
        self._client = client
        self._clock = clock
        self._driver = driver
        self._features = LibraryFeatures.of(FeatureGates(version))
        refs = dra_refs(version)
        self._claims_ref, self._contexts_ref = refs.claims, scheduling_context_ref(version)
        self._classes_ref = refs.device_classes
        self._informers = informers
        self._claims = NewestClaims(informers.informer(refs.claims))
        self._classes = informers.informer(refs.device_classes)
        self._contexts = informers.informer(self._contexts_ref)
        self._allocator = ClaimAllocator(
            client, refs.claims, name, driver, self._features, self._claims.written, reserves=reserves
        )
        self._queue: WorkQueue[Task] = WorkQueue(clock, max_delay=_MAX_DELAY_SECONDS)
        self._recorder = EventRecorder(client, clock, f"resource driver {name}")
        for kind, informer in (("claim", self._claims.informer), ("context", self._contexts)):
            self._follow(kind, informer)

    def _follow(self, kind: str, informer: Informer) -> None:
        def task(obj: Object) -> Task:
            return Task(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])

        informer.add_handler(
            lambda obj: self._queue.add(task(obj)),
            lambda _, obj: self._queue.add(task(obj)),
            lambda obj: self._queue.forget(task(obj)),
        )

    @property
    def has_synced(self) -> bool:
        return self._informers.has_synced

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; what is being done then is finished."""
        await run_workers(
            self.name, stop, self._informers, self._queue, self._recorder, self._process, _WORKERS
        )

    async def _process(self, task: Task) -> None:
        is_claim = task.kind == "claim"
        ref = self._claims_ref if is_claim else self._contexts_ref
        obj = (self._claims if is_claim else self._contexts).get(task.namespace, task.name)
        if obj is None:
            return
        try:
            outcome = await (self._sync_claim(obj) if is_claim else self._sync_context(obj))
        except CONNECTION_ERRORS as error:
            log.debug("%s: %s", task, error)
            self._queue.add_rate_limited(task)
        except (DriverError, StatusError) as error:
            log.info("processing %s/%s failed: %s", task.namespace, task.name, error)
            self._emit_event(ref, obj, error)
            self._queue.add_rate_limited(task)
        except Exception as error:
            log.exception("processing %s/%s", task.namespace, task.name)
            self._emit_event(ref, obj, f"internal error: {error!r}")
            self._queue.add_rate_limited(task)
        else:
            if outcome is Outcome.DONE:
                self._queue.forget(task)
            elif outcome is Outcome.PERIODIC:
                self._queue.add_after(task, RECHECK_SECONDS)
            else:
                self._queue.add_rate_limited(task)

    def _emit_event(self, ref: Ref, obj: Object, error: object) -> None:
        about = {"apiVersion": ref.api_version, "kind": ref.kind, **obj}
        self._recorder.event(about, "Warning", "Failed", str(error))

    # -- claims

    async def _sync_claim(self, claim: Object) -> Outcome:
        status = claim.get("status") or {}
        if status.get("reservedFor"):
            return Outcome.DONE
        if claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested"):
            if self._allocator.is_ours(claim):
                await self._allocator.free(claim)
            return Outcome.DONE
        immediate = self._features.immediate and claim["spec"].get("allocationMode") == "Immediate"
        if status.get("allocation") is not None or not immediate:
            return Outcome.DONE
        resource_class = self._class_of(claim)
        if resource_class["driverName"] != self.name:
            return Outcome.REQUEUE  # the class may be replaced by one of this driver
        if resource_class.get("parameterTypes"):
            return Outcome.DONE  # KEP-4381 as drafted: the scheduler allocates such claims
        allocation = ClaimAllocation("", claim, resource_class)
        await self._fetch_parameters(allocation, [])
        await self._allocator.allocate([allocation], "", None)
        if allocation.error:
            raise DriverError(allocation.error)
        return Outcome.DONE

    def _class_of(self, claim: Object) -> Object:
        name = claim["spec"]["resourceClassName"]
        found = self._classes.get("", name)
        if found is None:
            raise DriverError(f'resourceclass.resource.k8s.io "{name}" not found')
        return found

    async def _fetch_parameters(self, claim: ClaimAllocation, pods: Sequence[Object]) -> None:
        """Asks the driver what the parameters mean. Raises DriverError."""
        resource_class = claim.resource_class
        if resource_class is None:
            return
        about = f"{claim.claim['metadata']['namespace']}/{claim.claim['metadata']['name']}"
        try:
            claim.class_parameters = await self._driver.class_parameters(resource_class)
        except DriverError as error:
            if self._features.reports_to_owners:
                self._emit_event(self._classes_ref, resource_class, error)
            raise DriverError(f"class parameters {resource_class['metadata']['name']}: {error}") from error
        try:
            parameters = claim.class_parameters
            claim.claim_parameters = await self._driver.claim_parameters(
                claim.claim, resource_class, parameters
            )
        except DriverError as error:
            if self._features.reports_to_owners:
                self._emit_event(self._claims_ref, claim.claim, error)
                for pod in pods:
                    self._emit_event(PODS, pod, error)
            raise DriverError(f"claim parameters {about}: {error}") from error

    # -- contexts

    async def _sync_context(self, context: Object) -> Outcome:
        spec, metadata = context.get("spec") or {}, context["metadata"]
        selected, potential = spec.get("selectedNode") or "", list(spec.get("potentialNodes") or ())
        if metadata.get("deletionTimestamp") or not (selected or potential):
            return Outcome.DONE
        pod = await self._pod(metadata)
        if pod is None:
            return Outcome.DONE
        claims = [
            claim
            for entry in pod["spec"].get("resourceClaims") or ()
            if (claim := await self._of_pod(pod, entry))
        ]
        if not claims:
            return Outcome.PERIODIC
        await self._check_nodes(pod, claims, potential, selected)
        if selected and all(selected not in claim.unsuitable_nodes for claim in claims):
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            await self._allocator.allocate(claims, selected, user)
            self._raise_errors(claims)
        await self._publish(context, claims, selected)
        return Outcome.PERIODIC

    async def _pod(self, metadata: Object) -> Object | None:
        """The context's pod, live; None if it is not to run any more."""
        try:
            pod = await self._client.get(PODS, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        owner: Object = next(
            (reference for reference in metadata.get("ownerReferences") or () if reference.get("controller")),
            {},
        )
        gone = pod["metadata"].get("deletionTimestamp") or owner.get("uid") != pod["metadata"]["uid"]
        return None if gone else pod

    async def _of_pod(self, pod: Object, entry: Object) -> ClaimAllocation | None:
        """None means that this driver has nothing to allocate for the entry. Raises DriverError."""
        try:
            return await self._judged(pod, entry)
        except DriverError as error:
            raise DriverError(f"pod claim {entry['name']}: {error}") from error

    async def _judged(self, pod: Object, entry: Object) -> ClaimAllocation | None:
        name, owned = self._name_of(pod, entry)
        claim = self._claims.get(pod["metadata"]["namespace"], name) if name else None
        if claim is None:
            return None
        if owned and not is_for_pod(claim, pod):
            metadata, of_pod = claim["metadata"], pod["metadata"]
            raise DriverError(
                f"ResourceClaim {metadata['namespace']}/{metadata['name']} was not created for pod "
                f"{of_pod['namespace']}/{of_pod['name']} (pod is not owner)"
            )
        if self._features.by_controller:
            if claim["spec"].get("controller") != self.name:
                return None
        elif claim["spec"].get("allocationMode") != "WaitForFirstConsumer":
            return None
        if self._features.passes_over_allocated and (claim.get("status") or {}).get("allocation") is not None:
            return None
        if self._features.by_controller:
            return ClaimAllocation(entry["name"], claim, None)
        resource_class = self._class_of(claim)
        if resource_class["driverName"] != self.name:
            return None
        allocation = ClaimAllocation(entry["name"], claim, resource_class)
        await self._fetch_parameters(allocation, [pod])
        return allocation

    def _name_of(self, pod: Object, entry: Object) -> tuple[str, bool]:
        source = (entry.get("source") or {}) if self._features.nested_source else entry
        if source.get("resourceClaimName"):
            return source["resourceClaimName"], False
        if self._features.fixed_names:
            return f"{pod['metadata']['name']}-{entry['name']}", True
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            if status["name"] == entry["name"]:
                return status.get("resourceClaimName") or "", True
        where = f'pod "{pod["metadata"]["namespace"]}/{pod["metadata"]["name"]}"'
        raise DriverError(f"{where}: ResourceClaim not created yet")

    async def _check_nodes(
        self, pod: Object, claims: Sequence[ClaimAllocation], potential: list[str], selected: str
    ) -> None:
        if not potential:
            return
        nodes = potential
        if self._features.checks_selected_node and selected and selected not in potential:
            nodes = [*potential, selected]
        try:
            await self._driver.unsuitable_nodes(pod, claims, nodes)
        except DriverError as error:
            raise DriverError(f"checking potential nodes: {error}") from error

    def _raise_errors(self, claims: Sequence[ClaimAllocation]) -> None:
        """Raises DriverError for claims that could not be allocated; unsuitable nodes are not published
        then."""
        failed = [claim for claim in claims if claim.error]
        if not failed:
            return
        if not self._features.batches:
            raise DriverError(f"allocation of pod claim {failed[0].entry} failed: {failed[0].error}")
        if not self._features.joins_errors:
            errors = " ".join(f"Claim {claim.entry}: {claim.error}." for claim in failed)
            raise DriverError(f"allocation of one or more pod claims failed. {errors}")
        lines = [
            claim.error
            if claim.claim["metadata"]["name"] in claim.error
            else f"claim {claim.entry}: {claim.error}"
            for claim in failed
        ]
        raise DriverError("\n".join(lines))

    async def _publish(self, context: Object, claims: Sequence[ClaimAllocation], selected: str) -> None:
        """Publishes the nodes that do not suit: even an empty list shows that the driver has answered. Raises
        DriverError."""
        entries = list((context.get("status") or {}).get("resourceClaims") or ())
        changed = False
        for claim in claims:
            index = next((n for n, entry in enumerate(entries) if entry["name"] == claim.entry), None)
            if index is not None and (entries[index].get("unsuitableNodes") or []) == claim.unsuitable_nodes:
                continue
            answer = {"name": claim.entry, "unsuitableNodes": self._cut(claim.unsuitable_nodes, selected)}
            changed = True
            if index is None:
                entries.append(answer)
            else:
                entries[index] = answer
        if not changed:
            return
        status = {**(context.get("status") or {}), "resourceClaims": entries}
        try:
            await self._client.update(self._contexts_ref, {**context, "status": status}, "status")
        except StatusError as error:
            raise DriverError(f"update unsuitable node status: {error.message}") from error

    def _cut(self, nodes: list[str], selected: str) -> list[str]:
        """A list that is too long loses one node, as upstream; the selected one stays."""
        if not self._features.cuts_lists or len(nodes) <= _MAX_NODES:
            return nodes
        return nodes[:-1] if nodes[0] == selected else nodes[1:]


def _is_older(claim: Object, other: Object) -> bool:
    return int(claim["metadata"]["resourceVersion"]) < int(other["metadata"]["resourceVersion"])
