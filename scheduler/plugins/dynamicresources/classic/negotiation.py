"""Finds a node for a pod together with the drivers that are to allocate its claims, through PodScheduling
objects in 1.26 and PodSchedulingContexts from 1.27 to 1.31. The scheduler names potential nodes, drivers
say which of them do not suit, and the scheduler selects one: PreScore, Reserve, PreBind, Unreserve and
PostBind.

Sources: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31 (podSchedulingState);
pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Code, Status, failed
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import (
    HandledClaim,
    Resources,
    SchedulerAllocation,
)
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import ForeignContextError

log = logging.getLogger(__name__)

MAX_NODES = 128  # that one list of a context may have
_FIELD_MANAGER = "kube-scheduler"
_ADDED = ClusterEvent(EventResource.POD_SCHEDULING_CONTEXT, Action.ADD)
_UPDATED = ClusterEvent(EventResource.POD_SCHEDULING_CONTEXT, Action.UPDATE)

Listener = Callable[[ClusterEvent, Object | None, Object | None], None]
Selector = Mapping[str, Any]


@dataclass(slots=True)
class PodContext:
    """The context of one pod during one attempt: as it is stored, and the changes to write."""

    stored: Object | None
    selected_node: str | None = None  # to be written; empty withdraws what was selected
    potential_nodes: list[str] | None = None  # to be written

    @property
    def is_dirty(self) -> bool:
        return self.selected_node is not None or self.potential_nodes is not None

    @property
    def stored_node(self) -> str:
        return str(self._spec.get("selectedNode") or "")

    @property
    def stored_nodes(self) -> list[str]:
        found: list[str] = self._spec.get("potentialNodes") or []
        return found

    @property
    def _spec(self) -> Object:
        return {} if self.stored is None else self.stored.get("spec") or {}

    def unsuitable_nodes(self, entry: str) -> frozenset[str] | None:
        """Nodes that the driver named for a claim of the pod; None before it named any."""
        for status in entries(self.stored):
            if status["name"] == entry:
                return frozenset(status.get("unsuitableNodes") or ())
        return None

    def select(self, node: str) -> None:
        """Nothing is to be written if the node is selected already."""
        if self.stored is None or self.stored_node != node:
            self.selected_node = node

    def spec(self) -> Object:
        spec = dict(self._spec)
        if self.selected_node is not None:
            spec["selectedNode"] = self.selected_node
            if not self.selected_node:
                del spec["selectedNode"]
        if self.potential_nodes is not None:
            spec["potentialNodes"] = self.potential_nodes
        return spec


def entries(context: Object | None) -> list[Object]:
    found: list[Object] = ((context or {}).get("status") or {}).get("resourceClaims") or []
    return found


class SchedulingContexts:
    """The contexts of all pods: the informer's, and newer ones that the scheduler wrote itself."""

    def __init__(self, ref: Ref, features: ClassicFeatures) -> None:
        self._ref = ref
        self._features = features
        self._contexts: dict[tuple[str, str], Object] = {}
        self.listener: Listener = lambda *_: None

    def of_pod(self, pod: PodInfo) -> PodContext:
        """Raises ForeignContextError."""
        context = self._contexts.get((pod.namespace, pod.name))
        owner = controller_of(context) if context is not None else None
        if context is not None and (owner is None or owner.get("uid") != pod.uid):
            kind, uid = self._features.context_kind, context["metadata"].get("uid", "")
            raise ForeignContextError(f"{kind} with UID {uid} is not owned by Pod {pod.key}")
        return PodContext(context)

    # -- news from the informer

    def set_context(self, context: Object) -> None:
        key = context["metadata"].get("namespace", ""), context["metadata"]["name"]
        old = self._contexts.get(key)
        same = old is not None and old["metadata"].get("uid") == context["metadata"].get("uid")
        if old is not None and same and _revision(context) <= _revision(old):
            return  # what we wrote ourselves is newer, or this is its echo
        self._contexts[key] = context
        self.listener(_UPDATED if same else _ADDED, old if same else None, context)

    def remove_context(self, context: Object) -> None:
        key = context["metadata"].get("namespace", ""), context["metadata"]["name"]
        known = self._contexts.get(key)
        if known is not None and known["metadata"].get("uid") == context["metadata"].get("uid"):
            del self._contexts[key]

    # -- writing

    async def publish(self, client: APIClient, own: PodContext, pod: PodInfo) -> None:
        """Raises StatusError or a connection error."""
        if own.stored is None:
            answer = await client.create(self._ref, self._new(own, pod))
        else:
            answer = await self._update(client, own, own.stored)
        answer["metadata"].pop("managedFields", None)
        own.stored, own.selected_node, own.potential_nodes = answer, None, None
        self.set_context(answer)

    def _new(self, own: PodContext, pod: PodInfo) -> Object:
        owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        owner["controller"] = True
        if self._features.blocks_owner_deletion:
            owner["blockOwnerDeletion"] = True
        metadata = {"name": pod.name, "namespace": pod.namespace, "ownerReferences": [owner]}
        return {"metadata": metadata, "spec": own.spec()}

    async def _update(self, client: APIClient, own: PodContext, stored: Object) -> Object:
        try:
            return await client.update(self._ref, {**stored, "spec": own.spec()})
        except StatusError as error:
            if not self._features.applies_on_conflict or not is_reason(error, "Conflict"):
                raise
        # What is not sent would be taken away; drivers change the status alone.
        named = {key: stored["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {"metadata": named, "spec": own.spec()}
        return await client.apply(self._ref, body, field_manager=_FIELD_MANAGER, force=True)

    async def delete(self, client: APIClient, pod: PodInfo) -> None:
        """Called once the pod is bound; a context that cannot be deleted is left to the garbage collector."""
        known = (pod.namespace, pod.name) in self._contexts
        if not known and not self._features.deletes_unseen_contexts:
            return
        try:
            await client.delete(self._ref, pod.name, pod.namespace)
        except (StatusError, *CONNECTION_ERRORS) as error:
            if not is_reason(error, "NotFound"):
                log.error("delete %s of pod %s: %s", self._features.context_kind, pod.key, error)


def _revision(context: Object) -> int:
    text = context["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


@dataclass(slots=True)
class DriverClaim:
    """A claim of the pod. `class_name` is looked up per node until 1.27; later the selectors are here."""

    entry: str
    claim: Object
    class_name: str = ""
    class_selectors: Sequence[Selector] = ()  # of nodes that the class allows, while it is not allocated
    unsuitable: frozenset[str] | None = None  # nodes, by the driver; None before it said anything
    handler: SchedulerAllocation | None = None  # what allocates it in the scheduler; None if a driver does
    handled: HandledClaim | None = None  # the claim, as its handler sees it
    result: Object | None = None  # the scheduler's allocation, set by Reserve and written by PreBind

    @property
    def uid(self) -> str:
        return str(self.claim["metadata"]["uid"])

    @property
    def is_pending(self) -> bool:
        return allocation(self.claim) is None

    @property
    def available_on(self) -> Selector | None:
        """Limits the nodes where the allocated claim can be used; None allows all."""
        result = allocation(self.claim) or {}
        found: Selector | None = result.get("availableOnNodes") or result.get("nodeSelector")
        return found


@dataclass(slots=True)
class DriverClaims:
    """The pod's claims that drivers allocate or have allocated, in the order of its spec."""

    claims: list[DriverClaim]
    context: PodContext
    scored: bool = False  # whether PreScore has chosen the potential nodes
    unavailable: dict[int, None] = field(default_factory=dict)  # claims that kept the pod from some node
    resources: Resources | None = None  # of what the scheduler itself allocates

    @property
    def pending(self) -> list[DriverClaim]:
        return [claim for claim in self.claims if claim.is_pending and claim.handled is None]

    @property
    def handled(self) -> list[DriverClaim]:
        return [claim for claim in self.claims if claim.is_pending and claim.handled is not None]


class Negotiation:
    """The scheduler's side, for the claims of one pod at a time."""

    def __init__(
        self, features: ClassicFeatures, contexts: SchedulingContexts, client: APIClient, entropy: Entropy
    ) -> None:
        self._features = features
        self._contexts = contexts
        self._client = client
        self._entropy = entropy
        self._waiting = Code.PENDING if features.waits_as_pending else Code.UNRESOLVABLE

    def pre_score(self, own: DriverClaims, nodes: Sequence[str]) -> None:
        """Too many names do no harm: only missing ones are written."""
        if not own.pending or set(nodes) <= set(own.context.stored_nodes):
            return
        own.scored = True
        own.context.potential_nodes = sorted(self._some(nodes))

    def _some(self, nodes: Sequence[str]) -> list[str]:
        chosen = list(nodes)
        while len(chosen) > MAX_NODES:
            del chosen[int(self._entropy.random() * len(chosen))]
        return chosen

    async def reserve(self, own: DriverClaims, pod: PodInfo, node: str, *, handled: int = 0) -> Status:
        """Decides what drivers are to know; `handled` claims are allocated by the scheduler itself.

        Until 1.29 this is written here, and the pod waits for the answer; later PreBind does.
        """
        pending = own.pending
        if not pending:
            return SUCCESS
        if not own.scored and node not in own.context.stored_nodes:
            own.context.potential_nodes = [node]
        informed = sum(claim.unsuitable is not None for claim in pending) + handled
        # One claim alone can be had without asking first. The comparison is upstream's, odd as it is where
        # the scheduler allocates some of the claims.
        selects = (len(pending) == 1 and not handled) or informed == len(pending) > handled
        if selects:
            own.context.select(node)
        if self._features.writes_in_reserve:
            return await self._write(own, pod, "allocate resource" if selects else "provide information")
        if own.context.is_dirty:
            return SUCCESS
        return self._wait("waiting for resource driver to provide information")

    async def _write(self, own: DriverClaims, pod: PodInfo, what: str) -> Status:
        if own.context.is_dirty:
            try:
                await self._contexts.publish(self._client, own.context, pod)
            except (StatusError, *CONNECTION_ERRORS) as error:
                return failed(error)
        return self._wait(f"waiting for resource driver to {what}")

    async def pre_bind(self, own: DriverClaims, pod: PodInfo) -> Status:
        """Writes what Reserve decided; the pod cannot be bound then. Raises StatusError."""
        if not own.context.is_dirty:
            return SUCCESS
        await self._contexts.publish(self._client, own.context, pod)
        return self._wait("waiting for resource driver")

    async def unreserve(self, own: DriverClaims, pod: PodInfo) -> None:
        """Writes the potential nodes even if another plugin failed: the drivers' answer helps next time."""
        if self._features.writes_in_reserve or not own.context.is_dirty:
            return
        try:
            await self._contexts.publish(self._client, own.context, pod)
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.error("publish %s of pod %s: %s", self._features.context_kind, pod.key, error)

    async def withdraw_node(self, own: DriverClaims, pod: PodInfo) -> None:
        """Selects no node, so that a claim that is given back is not allocated again for it. Raises
        StatusError."""
        if self._features.withdraws_node and own.context.stored_node:
            own.context.selected_node = ""
            await self._contexts.publish(self._client, own.context, pod)

    async def post_bind(self, pod: PodInfo) -> None:
        await self._contexts.delete(self._client, pod)

    def _wait(self, text: str) -> Status:
        return Status(self._waiting, (text,))
