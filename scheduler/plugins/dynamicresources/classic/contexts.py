"""The objects through which scheduler and drivers' controllers find a node for a pod: PodScheduling in 1.26,
PodSchedulingContext from 1.27 to 1.31.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31 (podSchedulingState).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.pod_info import PodInfo

log = logging.getLogger(__name__)

MAX_NODES = 128  # that one list of a context may have
_FIELD_MANAGER = "kube-scheduler"
_ADDED = ClusterEvent(EventResource.POD_SCHEDULING_CONTEXT, Action.ADD)
_UPDATED = ClusterEvent(EventResource.POD_SCHEDULING_CONTEXT, Action.UPDATE)

Listener = Callable[[ClusterEvent, Object | None, Object | None], None]


class ForeignContextError(Exception):
    """The context of that name belongs to another pod; the text is upstream's."""


@dataclass(slots=True)
class PodContext:
    """The context of one pod during one attempt: as it is stored, and what is to be changed."""

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
        """Returns what the driver said of a claim of the pod; None before it said anything."""
        for status in entries(self.stored):
            if status["name"] == entry:
                return frozenset(status.get("unsuitableNodes") or ())
        return None

    def select(self, node: str) -> None:
        """Note that the node is to be selected, unless it is already."""
        if self.stored is None or self.stored_node != node:
            self.selected_node = node

    def spec(self) -> Object:
        """Returns the spec as it is to be written."""
        spec = dict(self._spec)
        if self.selected_node is not None:
            spec["selectedNode"] = self.selected_node
            if not self.selected_node:
                del spec["selectedNode"]
        if self.potential_nodes is not None:
            spec["potentialNodes"] = self.potential_nodes
        return spec


def entries(context: Object | None) -> list[Object]:
    """Returns what drivers said of the pod's claims."""
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
        """Write what is to be changed. Raises StatusError or a connection error."""
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
        """Delete the context of a pod that is bound; what fails is left to the garbage collector."""
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
