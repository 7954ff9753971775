"""The namespace controller: empties namespaces that are being deleted, then finalizes them.

Behaviour of k8s.io/kubernetes/pkg/controller/namespace/deletion, 1.36.
"""

from collections import Counter
from dataclasses import dataclass, field

from kubeskew.apimachinery.client.refs import NAMESPACES, PODS
from kubeskew.apimachinery.client.workqueue import backoff_seconds
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.discovery import ServedResource, served_resources
from kubeskew.controllers.namespace.features import NamespaceFeatures

_FINALIZER = "kubernetes"


@dataclass(slots=True)
class RemainingObjects:
    undiscovered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)  # by resource.group
    finalizers: Counter[str] = field(default_factory=Counter)

    @property
    def nothing(self) -> bool:
        return not (self.undiscovered or self.failures or self.objects)

    def conditions(self, now: str) -> list[Object]:
        """All conditions are always set, one per kind of failure."""
        kinds = ", ".join(
            f"{name} has {count} resource instances" for name, count in sorted(self.objects.items())
        )
        finalizers = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items())
        )
        discovery = f"Discovery failed for some groups, {len(self.undiscovered)} failing: "
        deletion = f"Failed to delete all resource types, {len(self.failures)} remaining: "
        rows = (
            ("NamespaceDeletionDiscoveryFailure", self.undiscovered, "DiscoveryFailed",
             discovery + ", ".join(self.undiscovered),
             "ResourcesDiscovered", "All resources successfully discovered"),
            ("NamespaceDeletionGroupVersionParsingFailure", (), "", "",
             "ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ("NamespaceDeletionContentFailure", self.failures, "ContentDeletionFailed",
             deletion + ", ".join(self.failures),
             "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ("NamespaceContentRemaining", self.objects, "SomeResourcesRemain",
             f"Some resources are remaining: {kinds}",
             "ContentRemoved", "All content successfully removed"),
            ("NamespaceFinalizersRemaining", self.finalizers, "SomeFinalizersRemain",
             f"Some content in the namespace has finalizers remaining: {finalizers}",
             "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        )  # fmt: skip
        return [
            {
                "type": kind,
                "status": "True" if trouble else "False",
                "lastTransitionTime": now,
                "reason": bad if trouble else good,
                "message": bad_text if trouble else good_text,
            }
            for kind, trouble, bad, bad_text, good, good_text in rows
        ]


class NamespaceController(Controller):
    name = "namespace-controller"
    component = "namespace-controller"
    default_workers = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = NamespaceFeatures.of(context.environment.gates)
        self._rounds: dict[Key, int] = {}  # rounds that left objects
        self._namespaces = context.informer(NAMESPACES)
        self._namespaces.add_handler(self._changed, lambda _, new: self._changed(new))

    def _changed(self, namespace: Object) -> None:
        if namespace["metadata"].get("deletionTimestamp"):
            self.enqueue(namespace)

    async def sync(self, key: Key) -> None:
        namespace = await self._live(key.name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if _FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return
        remains = await self._empty(key.name)
        namespace = await self._report(namespace, remains)
        if remains.nothing:
            await self._finalize(namespace)
            self._rounds.pop(key, None)
            return
        periods = self.environment.periods
        rounds = self._rounds[key] = self._rounds.get(key, 0) + 1
        self.queue.add_after(
            key, backoff_seconds(periods.namespace_first, rounds - 1, periods.namespace_longest)
        )

    async def _live(self, name: str) -> Object | None:
        try:
            return await self.client.get(NAMESPACES, name)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _empty(self, name: str) -> RemainingObjects:
        remains = RemainingObjects()
        try:
            served = await served_resources(self.client)
        except StatusError as error:
            remains.undiscovered.append(str(error))
            return remains
        doomed = [
            resource
            for resource in served
            if resource.preferred and resource.ref.namespaced and "delete" in resource.verbs
        ]
        if self._features.ordered_deletion:
            # Claims, config maps and policies that pods depend on are deleted after them.
            doomed.sort(key=lambda one: one.ref != PODS)
        for one in doomed:
            await self._delete_all(one, name, remains)
            if self._features.ordered_deletion and one.ref == PODS and remains.objects:
                break
        return remains

    async def _delete_all(self, one: ServedResource, namespace: str, remains: RemainingObjects) -> None:
        try:
            if "deletecollection" in one.verbs:
                await self.client.delete_collection(one.ref, namespace, propagation="Background")
            if "list" not in one.verbs:
                return
            left = await self._left(one, namespace)
            if left and "deletecollection" not in one.verbs:
                for obj in left:
                    await self._delete(one, obj)
                left = await self._left(one, namespace)
        except StatusError as error:
            if error.code not in (404, 405):  # the resource is gone, or cannot be deleted
                remains.failures.append(str(error))
            return
        if left:
            remains.objects[f"{one.ref.plural}.{one.ref.group}"] += len(left)
        for obj in left:
            remains.finalizers.update(obj["metadata"].get("finalizers") or ())

    async def _left(self, one: ServedResource, namespace: str) -> list[Object]:
        found = await self.client.list(one.ref, namespace, metadata_only=True)
        items: list[Object] = found["items"]
        return items

    async def _delete(self, one: ServedResource, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            await self.client.delete(
                one.ref, metadata["name"], metadata["namespace"], propagation="Background"
            )
        except StatusError as error:
            if error.code != 404:
                raise

    async def _report(self, namespace: Object, remains: RemainingObjects) -> Object:
        """Writes the conditions if one changed; the time of a condition stays while its status does."""
        status = namespace.get("status") or {}
        former = {condition["type"]: condition for condition in status.get("conditions") or ()}
        if remains.nothing and not former:
            return namespace  # nothing ever failed: the namespace is about to go
        conditions = remains.conditions(timestamp(self.clock.now()))
        for condition in conditions:
            known = former.get(condition["type"])
            if known is not None and known["status"] == condition["status"]:
                condition["lastTransitionTime"] = known["lastTransitionTime"]
        if status.get("phase") == "Terminating" and [*former.values()] == conditions:
            return namespace
        changed = {**namespace, "status": {**status, "phase": "Terminating", "conditions": conditions}}
        return await self.client.update(NAMESPACES, changed, "status")

    async def _finalize(self, namespace: Object) -> None:
        left = [finalizer for finalizer in namespace["spec"]["finalizers"] if finalizer != _FINALIZER]
        changed = {**namespace, "spec": {**namespace["spec"], "finalizers": left}}
        try:
            await self.client.update(NAMESPACES, changed, "finalize")
        except StatusError as error:
            if error.code != 404:
                raise
