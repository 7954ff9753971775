"""The base of controllers that own pods directly: it finds the owner to reconcile when a pod changes.

Semantics of the pod handlers that pkg/controller/{replicaset,statefulset,daemon,job} share, 1.36.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.apimachinery.client.refs import PODS, Ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, is_resync
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import owner_references, pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.framework.expectations import Expectations
from kubeskew.controllers.framework.own_writes import OwnWrites
from kubeskew.controllers.framework.owner_references import ControllerRefManager, Dependents, OwnerMatch
from kubeskew.controllers.framework.pod_control import PodControl


class PodOwnerController(Controller):
    """Keeps an index of pods by owner, and expectations; claims pods."""

    ref: ClassVar[Ref]  # of the owners
    deletion_frees: ClassVar[bool] = True  # a pod counts as gone once its deletion has begun
    finalizers: ClassVar[tuple[str, ...]] = ()  # added to adopted pods, removed from released ones

    def __init__(self, context: ControllerContext, *, waits_for_own_writes: bool, match: OwnerMatch) -> None:
        super().__init__(context)
        self.keeps_expectations = False  # of a deleted owner, until its key is looked at
        self.expectations = Expectations(self.clock)
        self.pod_control = PodControl(self.client, self.recorder)
        self.objects = context.informer(self.ref)
        self.pods = context.informer(PODS)
        self.own_writes = OwnWrites({self.ref: self.objects, PODS: self.pods}, enabled=waits_for_own_writes)
        self.dependents = Dependents(self.pods, self.ref.kind, match)
        self.objects.add_handler(self.enqueue, self.object_updated, self.object_deleted)
        self.pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)

    @abstractmethod
    def selector(self, obj: Object) -> LabelSelector:
        """Returns the selector of the object's pods."""

    def selects(self, obj: Object) -> Callable[[Object], bool]:
        """Returns which pods the object wants: it adopts these, and releases others that it controls."""
        selector = self.selector(obj)
        return lambda pod: selector.matches(pod["metadata"].get("labels"))

    # -- what is told

    def object_updated(self, _old: Object, new: Object) -> None:
        self.enqueue(new)

    def object_deleted(self, old: Object) -> None:
        if not self.keeps_expectations:
            self.expectations.forget(key_of(old))
        self.own_writes.forget(key_of(old))
        self.enqueue(old)

    def pod_changed(self, owner: Object, old: Object | None, new: Object) -> None:
        """Handles that a pod of `owner` came (`old` is None) or changed; the owner is queued already."""

    def pod_gone(self, owner: Object, pod: Object) -> None:
        """Handles that a pod of `owner` was deleted, or begins to be."""

    def owner_of(self, pod: Object) -> Object | None:
        return owner_references.resolve_controller(pod, self.ref, self.objects.get)

    def _pod_added(self, pod: Object) -> None:
        if self.deletion_frees and pods.is_terminating(pod):
            # A restarted controller first sees it while it terminates.
            self._pod_deleted(pod)
        elif controller_of(pod) is None:
            self._enqueue_matching(pod)
        elif owner := self.owner_of(pod):
            self.expectations.creation_seen(key_of(owner))
            self.enqueue(owner)
            self.pod_changed(owner, None, pod)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if is_resync(old, new):
            return
        if self.deletion_frees and pods.is_terminating(new):
            # Deletion begins with a timestamp; waiting for the removal would delay the replacement.
            self._pod_deleted(new)
            return
        reference = controller_of(new)
        reference_changed = controller_of(old) != reference
        if reference_changed and (former := self.owner_of(old)):
            self.enqueue(former)
        if reference is None:
            if reference_changed or old["metadata"].get("labels") != new["metadata"].get("labels"):
                self._enqueue_matching(new)
        elif owner := self.owner_of(new):
            self.enqueue(owner)
            self.pod_changed(owner, old, new)
            self._look_when_available(owner, old, new)

    def _look_when_available(self, owner: Object, old: Object, new: Object) -> None:
        wait = owner["spec"].get("minReadySeconds") or 0
        if wait and pods.is_ready(new) and not pods.is_ready(old):
            # One second more: times of objects have whole seconds.
            self.queue.add_after(key_of(owner), wait + 1)

    def _pod_deleted(self, pod: Object) -> None:
        if owner := self.owner_of(pod):
            self.expectations.deletion_seen(key_of(owner), key_of(pod))
            self.pod_gone(owner, pod)
            self.enqueue(owner)

    def _enqueue_matching(self, pod: Object) -> None:
        """Enqueues the owners that select an orphan, and may adopt it."""
        labels = pod["metadata"].get("labels")
        if not labels:
            return
        for candidate in self.objects.list(pod["metadata"]["namespace"]):
            selector = self.selector(candidate)
            if not selector.is_empty() and selector.matches(labels):
                self.enqueue(candidate)

    # -- what owners do with pods

    async def claim_pods(self, owner: Object, candidates: Sequence[Object] | None = None) -> list[Object]:
        """Returns the pods of `owner`, of `candidates` (default: those that it controls and those that nobody
        does): its own that still match, and those it adopts."""
        metadata = owner["metadata"]
        ref_manager = ControllerRefManager(
            self.client,
            owner,
            self.ref,
            PODS,
            self.selects(owner),
            lambda: self.client.get(self.ref, metadata["name"], metadata["namespace"]),
            finalizers=self.finalizers,
            written=lambda pod: self.own_writes.note(key_of(owner), PODS, pod),
        )
        return await ref_manager.claim(
            self.dependents.candidates(owner) if candidates is None else candidates
        )

    async def create_pod(self, template: Object, owner: Object, prefix: str = "") -> None:
        """Creates a pod of `owner`; `prefix` begins the generated name, if it is not the owner's name."""
        made = await self.pod_control.create(template, owner, self.ref, prefix)
        self.own_writes.note(key_of(owner), PODS, made)

    async def delete_pods(self, key: Key, owner: Object, chosen: Sequence[Object]) -> Exception | None:
        """Deletes the pods at the same time; deletions must be expected already. Returns the last failure."""
        results = await asyncio.gather(
            *(self.pod_control.delete(pod, owner) for pod in chosen), return_exceptions=True
        )
        failure = None
        for pod, result in zip(chosen, results, strict=True):
            if result is not True:
                self.expectations.deletion_seen(key, key_of(pod))  # no event will come
            if isinstance(result, Exception):
                failure = result
        return failure

    async def write_status(self, obj: Object, status: Object) -> Object:
        """Writes the status, again on the fresh object if it changed meanwhile; a deleted object is no
        error."""
        try:
            return await self._put_status(obj, status)
        except StatusError as error:
            if error.code == 404:
                return obj
            if error.code != 409:
                raise
        metadata = obj["metadata"]
        fresh = await self.client.get(self.ref, metadata["name"], metadata["namespace"])
        return await self._put_status(fresh, status)

    async def _put_status(self, obj: Object, status: Object) -> Object:
        written = await self.client.update(self.ref, {**obj, "status": status}, "status")
        self.own_writes.note(key_of(obj), self.ref, written)
        return written
