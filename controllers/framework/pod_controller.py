"""The base of controllers that own pods directly: it finds the owner to reconcile when a pod changes. An
owner waits until informers show the creations and deletions that the controller has ordered (expectations),
and the last write for it.

A controller acts on a key only when its informer has caught up with its own writes, else it would repeat
them.

Sources: k8s.io/kubernetes/pkg/controller/controller_utils.go;
k8s.io/kubernetes/pkg/controller/util/consistency, 1.36 (KEP-5647, stale controller mitigation); the pod
handlers that pkg/controller/{replicaset,statefulset,daemon,job} share, 1.36.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, Ref
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of, is_resync
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import owner_references, pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError, key_of
from kubeskew.controllers.framework.owner_references import ControllerRefManager, Dependents, OwnerMatch
from kubeskew.controllers.framework.pod_control import PodControl

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[Hashable] = field(default_factory=set)


class Expectations:
    """Keeps ordered creations and deletions per key. Deletions are tracked by object, because each is seen
    twice (mark, removal).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[Hashable, _Expected] = {}

    def satisfied(self, key: Hashable) -> bool:
        """Expectations count as met after TIMEOUT_SECONDS in any case."""
        expected = self._keys.get(key)
        if expected is None or (expected.creations <= 0 and not expected.deletions):
            return True
        return self._clock.monotonic() - expected.since > TIMEOUT_SECONDS

    def expect_creations(self, key: Hashable, count: int) -> None:
        self._keys[key] = _Expected(self._clock.monotonic(), creations=count)

    def expect_deletions(self, key: Hashable, objects: Iterable[Hashable]) -> None:
        self._keys[key] = _Expected(self._clock.monotonic(), deletions=set(objects))

    def expect(self, key: Hashable, creations: int, deletions: Iterable[Hashable]) -> None:
        self._keys[key] = _Expected(self._clock.monotonic(), creations, set(deletions))

    def creation_seen(self, key: Hashable) -> None:
        """Failed creations count, too, as they never arrive in the informer."""
        if expected := self._keys.get(key):
            expected.creations -= 1

    def deletion_seen(self, key: Hashable, deleted: Hashable) -> None:
        if expected := self._keys.get(key):
            expected.deletions.discard(deleted)

    def forget(self, key: Hashable) -> None:
        self._keys.pop(key, None)


class StaleCacheError(SyncError):
    """The informer does not show the controller's own writes yet; the key is tried again later."""


class OwnWrites:
    """Remembers the newest revision written for each object, by resource.

    Where it is not `enabled`, as before 1.36, nothing is remembered and nobody waits.
    """

    def __init__(self, informers: Mapping[Ref, Informer], *, enabled: bool) -> None:
        self._enabled = enabled
        self._informers = dict(informers) if enabled else {}
        self._newest: dict[Key, dict[Ref, int]] = {}

    def watch(self, ref: Ref, informer: Informer) -> None:
        """Writes of another resource count as well."""
        if self._enabled:
            self._informers[ref] = informer

    def note(self, key: Key, ref: Ref, written: Object) -> None:
        """`written` is the server's response to a write for the object of `key`."""
        if ref not in self._informers:
            return
        revision = int(written["metadata"]["resourceVersion"])
        newest = self._newest.setdefault(key, {})
        newest[ref] = max(revision, newest.get(ref, 0))

    def ensure_seen(self, key: Key) -> None:
        """Raises StaleCacheError if an informer is older than the writes for the object of `key`."""
        for ref, revision in self._newest.get(key, {}).items():
            seen = self._informers[ref].resource_version
            if int(seen or 0) < revision:
                raise StaleCacheError(
                    f"the cache of {ref.plural} is at revision {seen or 0}, and {revision} was written"
                )
        self._newest.pop(key, None)

    def forget(self, key: Key) -> None:
        self._newest.pop(key, None)


class PodOwnerController(Controller):
    ref: ClassVar[Ref]  # of the owners
    deletion_frees: ClassVar[bool] = True  # a pod counts as gone once its deletion has begun
    finalizers: ClassVar[tuple[str, ...]] = ()  # added to adopted pods, removed from released ones

    def __init__(self, context: ControllerContext, *, waits_for_own_writes: bool, match: OwnerMatch) -> None:
        super().__init__(context)
        self.keeps_expectations = False  # of a deleted owner, until its key is synced
        self.expectations = Expectations(self.clock)
        self.pod_control = PodControl(self.client, self.recorder)
        self.objects = context.informer(self.ref)
        self.pods = context.informer(PODS)
        self.own_writes = OwnWrites({self.ref: self.objects, PODS: self.pods}, enabled=waits_for_own_writes)
        self.dependents = Dependents(self.pods, self.ref.kind, match)
        self.objects.add_handler(self.enqueue, self.object_updated, self.object_deleted)
        self.pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)

    @abstractmethod
    def selector(self, obj: Object) -> LabelSelector: ...

    def selects(self, obj: Object) -> Callable[[Object], bool]:
        """Matching pods are adopted; others that the object controls are released."""
        selector = self.selector(obj)
        return lambda pod: selector.matches(pod["metadata"].get("labels"))

    # -- event handlers

    def object_updated(self, _old: Object, new: Object) -> None:
        self.enqueue(new)

    def object_deleted(self, old: Object) -> None:
        if not self.keeps_expectations:
            self.expectations.forget(key_of(old))
        self.own_writes.forget(key_of(old))
        self.enqueue(old)

    def pod_changed(self, owner: Object, old: Object | None, new: Object) -> None:
        """Called when a pod of `owner` is new (`old` is None) or changed; the owner is queued already."""

    def pod_gone(self, owner: Object, pod: Object) -> None:
        """Called when a pod of `owner` was deleted, or its deletion began."""

    def owner_of(self, pod: Object) -> Object | None:
        return owner_references.resolve_controller(pod, self.ref, self.objects.get)

    def _pod_added(self, pod: Object) -> None:
        if self.deletion_frees and pods.is_terminating(pod):
            # A restarted controller first sees it while it terminates.
            self._pod_deleted(pod)
        elif controller_of(pod) is None:
            self.enqueue_matching(pod)
        elif owner := self.owner_of(pod):
            self.expectations.creation_seen(key_of(owner))
            self.enqueue_for_pod(owner)
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
            self.enqueue_for_pod(former)
        if reference is None:
            if reference_changed or old["metadata"].get("labels") != new["metadata"].get("labels"):
                self.enqueue_matching(new)
        elif owner := self.owner_of(new):
            self.enqueue_for_pod(owner)
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
            self.enqueue_for_pod(owner)

    def enqueue_for_pod(self, owner: Object) -> None:
        """Called for the owner of a pod that has changed."""
        self.enqueue(owner)

    def enqueue_matching(self, pod: Object) -> None:
        labels = pod["metadata"].get("labels")
        if not labels:
            return
        for candidate in self.objects.list(pod["metadata"]["namespace"]):
            selector = self.selector(candidate)
            if not selector.is_empty() and selector.matches(labels):
                self.enqueue_for_pod(candidate)

    # -- pods of owners

    async def claim_pods(self, owner: Object, candidates: Sequence[Object] | None = None) -> list[Object]:
        """Keeps matching pods and adopts orphans. `candidates` are by default the pods that `owner` controls
        and those without a controller.
        """
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
        """`prefix` begins the generated name; the owner's name by default."""
        made = await self.pod_control.create(template, owner, self.ref, prefix)
        self.own_writes.note(key_of(owner), PODS, made)

    async def delete_pods(self, key: Key, owner: Object, chosen: Sequence[Object]) -> Exception | None:
        """Deletes the pods concurrently; the deletions must be expected already. The last failure is
        returned.
        """
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
        """Retries once on the fresh object after a conflict; a deleted object is no error."""
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
