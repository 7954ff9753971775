"""The garbage collector's loop: watches the metadata of all objects, and asks the server before each
deletion.

Behaviour of k8s.io/kubernetes/pkg/controller/garbagecollector/garbagecollector.go, 1.36.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, SyncError
from kubeskew.controllers.framework.discovery import ServedResource, served_resources
from kubeskew.controllers.garbagecollector.features import GarbageCollectorFeatures
from kubeskew.controllers.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Identity,
    Node,
    Work,
    is_deleting_dependents,
)

log = logging.getLogger(__name__)

_SYNC_POLL_SECONDS = 0.01
_INITIAL_SYNC_SECONDS = 30.0  # since 1.32 a resource that cannot be listed delays the rest for this time
_MONITORED_VERBS = {"delete", "list", "watch"}
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
_REMEMBERED_ABSENCES = 500
_CONFLICT_TRIES = 5
_ORPHANING_AT_ONCE = 20


class GarbageCollector(Controller):
    name = "garbage-collector-controller"
    component = "garbage-collector-controller"
    queue_name = "garbage_collector_attempt_to_delete"
    default_workers = 20

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._shared = context.informers
        self._graph = Graph()
        self._kinds: dict[tuple[str, str], Ref] = {}  # by apiVersion and kind
        self._own: dict[Ref, Informer] = {}  # monitors of this controller alone; others are shared
        self._monitors = context.monitors
        self._absent: dict[Identity, None] = {}  # owners known to be gone, as references name them
        self._unsynced: dict[Ref, Informer] = {}  # monitors whose first list has not arrived yet
        self._monitoring = asyncio.Event()
        self._features = GarbageCollectorFeatures.of(context.environment.gates)
        self._began = 0.0  # monotonic

    @property
    def ready(self) -> bool:
        """A server that refuses to list a resource does not make it unready: nothing is collected then."""
        is_blocked = any(monitor.failure for monitor in self._unsynced.values())
        return super().ready and (self._monitoring.is_set() or is_blocked)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._follow_discovery()]

    async def stop(self) -> None:
        await super().stop()
        await asyncio.gather(*(monitor.stop() for monitor in self._own.values()))

    # -- monitors

    async def _follow_discovery(self) -> None:
        self._began = self.clock.monotonic()
        while True:
            try:
                await self._discover()
            except (*CONNECTION_ERRORS, StatusError) as error:
                log.debug("discovery failed: %s", error)
                await self.clock.sleep(self.environment.periods.garbage_collector_retry)
            else:
                await self.clock.sleep(self.environment.periods.garbage_collector_discovery)

    async def _discover(self) -> None:
        served = await served_resources(self.client)
        self._kinds = {
            (resource.ref.api_version, resource.ref.kind): resource.ref for resource in reversed(served)
        }
        wanted = dict.fromkeys(resource.ref for resource in served if _is_monitored(resource))
        for ref in [ref for ref in self._own if ref not in wanted]:
            # Its objects stay in the graph: that a version is no longer served is no deletion.
            self._monitors.remove(ref)
            await self._own.pop(ref).stop()
        new = {ref: self._monitor(ref) for ref in wanted if ref not in self._monitors}
        left = {ref: monitor for ref, monitor in self._unsynced.items() if ref in wanted}
        self._unsynced = left | new
        await self._await_monitors()

    async def _await_monitors(self) -> None:
        """Waits for first lists until discovery is looked at again; collection begins once all have arrived.

        A resource that cannot be listed keeps everything from being collected up to 1.31, as upstream; since
        then it is gone on without it after half a minute.
        """
        until = self.clock.monotonic() + self.environment.periods.garbage_collector_discovery
        while self._unsynced and self.clock.monotonic() < until:
            for ref, monitor in [*self._unsynced.items()]:
                if monitor.has_synced:
                    del self._unsynced[ref]
                    if self._monitoring.is_set():
                        self._forget_missed(ref, monitor)
            if self._unsynced:
                await self.clock.sleep(_SYNC_POLL_SECONDS)
        waited = self.clock.monotonic() - self._began
        late = self._unsynced and not self._features.waits_for_all and waited >= _INITIAL_SYNC_SECONDS
        if late and not self._monitoring.is_set():
            log.info("Garbage collector: not all resource monitors could be synced, proceeding anyways")
        if late or not self._unsynced:
            self._monitoring.set()

    def _monitor(self, ref: Ref) -> Informer:
        """Uses the informer that another controller has of the resource, as upstream does, else one of
        metadata.
        """
        shared = self._shared.existing(ref)
        monitor = shared or Informer(
            *(self.client, ref, self.clock),
            entropy=self.environment.entropy,
            metadata_only=True,
            periods=self.environment.periods,
        )
        monitor.add_handler(
            lambda obj: self._seen(ref, obj),
            lambda _, obj: self._seen(ref, obj),
            lambda obj: self._gone(obj["metadata"]["uid"]),
        )
        if shared is None:
            self._own[ref] = monitor
        self._monitors.add(ref, monitor)
        monitor.start()
        return monitor

    def _forget_missed(self, ref: Ref, monitor: Informer) -> None:
        """Objects may have been deleted while their resource moved from one version to another."""
        present = {obj["metadata"]["uid"] for obj in monitor.list()}
        for identity in self._graph.seen():
            group = identity.api_version.rpartition("/")[0]
            if (group, identity.kind) == (ref.group, ref.kind) and identity.uid not in present:
                self._gone(identity.uid)

    def _seen(self, ref: Ref, obj: Object) -> None:
        metadata = obj["metadata"]
        identity = Identity(
            ref.api_version, ref.kind, metadata.get("namespace") or "", metadata["name"], metadata["uid"]
        )
        self._do(self._graph.put(identity, obj))

    def _gone(self, uid: str) -> None:
        node = self._graph.node(uid)
        if node is not None:
            self._remember_absence(node.identity)
        self._do(self._graph.remove(uid))

    def _do(self, work: Iterable[Work]) -> None:
        for item in work:
            self.queue.add(item)

    def _remember_absence(self, owner: Identity) -> None:
        self._absent[owner] = None
        if len(self._absent) > _REMEMBERED_ABSENCES:
            del self._absent[next(iter(self._absent))]

    # -- reconciliation

    async def sync(self, key: Work) -> None:
        # Before everything has been listed, an owner may only seem to be absent.
        await self._monitoring.wait()
        node = self._graph.node(key.uid)
        if node is None:
            return
        if key.action == "orphan":
            await self._orphan_dependents(node)
        else:
            await self._look_at(node)

    async def _look_at(self, node: Node) -> None:
        if node.being_deleted and not node.deleting_dependents and not node.virtual:
            return
        live = await self._live(node.identity)
        if live is None or live["metadata"]["uid"] != node.identity.uid:
            self._remember_absence(node.identity)
            self._do(self._graph.absent(node.identity.uid))
            return
        if node.virtual:
            # It exists, but its event has not come yet.
            self.queue.add_after(Work("delete", node.identity.uid), 0.2)
            return
        if node.deleting_dependents:
            await self._finish_foreground(node)
            return
        await self._judge(node, live)

    async def _judge(self, node: Node, live: Object) -> None:
        owners: list[Object] = live["metadata"].get("ownerReferences") or []
        if not owners:
            return
        solid, dangling, waiting = await self._classify(node.identity, owners)
        if solid:
            if dangling or waiting:
                await self._drop_owners(
                    node.identity, live, {owner["uid"] for owner in (*dangling, *waiting)}
                )
            return
        if waiting and node.dependents:
            await self._break_circle(node)
            await self._delete(node.identity, live, "Foreground")
            return
        await self._delete(node.identity, live, _policy_of(live))

    async def _classify(
        self, dependent: Identity, owners: list[Object]
    ) -> tuple[list[Object], list[Object], list[Object]]:
        """Owners exist, do not exist, or wait for the deletion of their dependents, in this order."""
        solid, dangling, waiting = [], [], []
        for owner in owners:
            found = await self._owner(dependent, owner)
            if found is None:
                dangling.append(owner)
            elif is_deleting_dependents(found):
                waiting.append(owner)
            else:
                solid.append(owner)
        return solid, dangling, waiting

    async def _owner(self, dependent: Identity, owner: Object) -> Object | None:
        """Asks the server; None if the owner is gone or another object has its name."""
        ref = self._ref(owner["apiVersion"], owner["kind"])
        namespace = dependent.namespace if ref.namespaced else ""
        identity = Identity(owner["apiVersion"], owner["kind"], namespace, owner["name"], owner["uid"])
        if identity in self._absent:
            return None
        if ref.namespaced and not dependent.namespace:
            return None  # a cluster-scoped object cannot be owned by a namespaced one
        found = await self._live(identity)
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            self._remember_absence(identity)
            return None
        return found

    async def _finish_foreground(self, node: Node) -> None:
        blocking = [
            dependent for dependent in self._graph.dependents(node) if dependent.blocks(node.identity.uid)
        ]
        if not blocking:
            await self._remove_finalizer(node.identity, FOREGROUND)
            return
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self.queue.add(Work("delete", dependent.identity.uid))

    async def _break_circle(self, node: Node) -> None:
        """Owners in a cycle would wait for each other for ever."""
        if any(dependent.deleting_dependents for dependent in self._graph.dependents(node)):
            unblocked = [{**owner, "blockOwnerDeletion": False} for owner in node.owners]
            await self._patch(node.identity, {"ownerReferences": unblocked})

    async def _orphan_dependents(self, node: Node) -> None:
        uid, limit = node.identity.uid, asyncio.Semaphore(_ORPHANING_AT_ONCE)

        async def free(identity: Identity) -> None:
            async with limit:
                live = await self._live(identity)
                if live is not None:
                    await self._drop_owners(identity, live, {uid})

        await asyncio.gather(*(free(dependent.identity) for dependent in self._graph.dependents(node)))
        await self._remove_finalizer(node.identity, ORPHAN)

    # -- the server

    def _ref(self, api_version: str, kind: str) -> Ref:
        ref = self._kinds.get((api_version, kind))
        if ref is None:
            raise SyncError(f"unable to get REST mapping for {api_version}/{kind}.")
        return ref

    async def _live(self, identity: Identity) -> Object | None:
        ref = self._ref(identity.api_version, identity.kind)
        namespace = identity.namespace if ref.namespaced else ""
        if ref.namespaced and not namespace:
            return None
        try:
            return await self.client.get(ref, identity.name, namespace, metadata_only=True)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _delete(self, identity: Identity, live: Object, propagation: str) -> None:
        """Preconditions restrict the deletion to the object in the state in which its owners were found to be
        gone.
        """
        metadata = live["metadata"]
        ref = self._ref(identity.api_version, identity.kind)
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        await _unless_gone(
            self.client.delete(
                ref,
                identity.name,
                identity.namespace,
                propagation=propagation,
                preconditions=preconditions,
            )
        )

    async def _drop_owners(self, identity: Identity, live: Object, uids: set[str]) -> None:
        owners = [
            reference
            for reference in live["metadata"].get("ownerReferences") or ()
            if reference["uid"] not in uids
        ]
        await self._patch(
            identity, {"ownerReferences": owners, "resourceVersion": live["metadata"]["resourceVersion"]}
        )

    async def _remove_finalizer(self, identity: Identity, finalizer: str) -> None:
        for _ in range(_CONFLICT_TRIES):
            live = await self._live(identity)
            if live is None or live["metadata"]["uid"] != identity.uid:
                return
            finalizers = live["metadata"].get("finalizers") or []
            if finalizer not in finalizers:
                return
            left = [name for name in finalizers if name != finalizer]
            version = live["metadata"]["resourceVersion"]
            try:
                await self._patch(identity, {"finalizers": left, "resourceVersion": version})
            except StatusError as error:
                if error.code != 409:
                    raise
            else:
                return
        raise SyncError(f"cannot remove finalizer {finalizer} of {identity.kind} {identity.name}: conflicts")

    async def _patch(self, identity: Identity, metadata: Object) -> None:
        ref = self._ref(identity.api_version, identity.kind)
        body = {"metadata": {"uid": identity.uid, **metadata}}
        await _unless_gone(self.client.patch(ref, identity.name, identity.namespace, body))


async def _unless_gone(call: Coroutine[Any, Any, Object]) -> None:
    try:
        await call
    except StatusError as error:
        if error.code != 404:
            raise


def _is_monitored(one: ServedResource) -> bool:
    place = (one.ref.group, one.ref.plural)
    return one.preferred and place not in _IGNORED and one.verbs >= _MONITORED_VERBS


def _policy_of(live: Object) -> str:
    """Deletions that have begun keep their policy; the default is Background."""
    finalizers = live["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
