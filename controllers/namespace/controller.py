"""The namespace controller: empties namespaces that are being deleted, then finalizes them.

Behaviour of k8s.io/kubernetes/pkg/controller/namespace/deletion, 1.36.
"""

from collections import Counter
from dataclasses import dataclass, field

from kubeskew.apimachinery.client.refs import NAMESPACES, PODS
from kubeskew.apimachinery.client.workqueue import backoff_seconds
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError, key_of
from kubeskew.controllers.framework.discovery import ServedResource, served_resources
from kubeskew.controllers.namespace.features import NamespaceFeatures

_FINALIZER = "kubernetes"
_FINALIZERS_SECONDS = 15  # that objects with finalizers are thought to take


@dataclass(slots=True)
class RemainingObjects:
    """Counts what a round has found and left in a namespace."""

    undiscovered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)  # by resource.group
    finalizers: Counter[str] = field(default_factory=Counter)
    estimate: int = 0  # seconds until what is left may be gone

    @property
    def errors(self) -> list[str]:
        """Each has the round repeated like any that failed."""
        return [*self.undiscovered, *self.failures]

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
            self.queue.add_after(key_of(namespace), self.environment.periods.namespace_grace)

    async def sync(self, key: Key) -> None:
        namespace = await self._live(key.name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if not namespace["spec"].get("finalizers"):
            return
        remains = await self._empty(namespace)
        namespace = await self._report(namespace, remains)
        if remains.errors:
            raise SyncError(", ".join(remains.errors))
        if remains.estimate:
            self._look_again(key, remains.estimate)
            return
        self._rounds.pop(key, None)
        await self._finalize(namespace)

    def _look_again(self, key: Key, estimate: int) -> None:
        periods = self.environment.periods
        rounds = self._rounds[key] = self._rounds.get(key, 0) + 1
        most = backoff_seconds(periods.namespace_first, rounds - 1, periods.namespace_longest)
        self.queue.add_after(key, min(estimate // 2 + 1, most))

    async def _live(self, name: str) -> Object | None:
        try:
            return await self.client.get(NAMESPACES, name)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _empty(self, namespace: Object) -> RemainingObjects:
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
            await self._delete_all(one, namespace, remains)
            if self._features.ordered_deletion and one.ref == PODS and remains.objects:
                # As upstream, conditions tell of what is left only once there are no pods.
                remains.objects.clear()
                remains.finalizers.clear()
                break
        return remains

    async def _delete_all(self, one: ServedResource, namespace: Object, remains: RemainingObjects) -> None:
        name, estimate = namespace["metadata"]["name"], 0
        try:
            if one.ref == PODS:
                estimate = await self._grace_of_pods(namespace)
            if "deletecollection" in one.verbs:
                await self.client.delete_collection(one.ref, name, propagation="Background")
            if "list" not in one.verbs:
                return
            left = await self._left(one, name)
            if left and "deletecollection" not in one.verbs:
                for obj in left:
                    await self._delete(one, obj)
                left = await self._left(one, name)
        except StatusError as error:
            if error.code not in (404, 405):  # the resource is gone, or cannot be deleted
                remains.failures.append(str(error))
                remains.estimate = max(remains.estimate, estimate)
            return
        if not left:
            return
        remains.objects[f"{one.ref.plural}.{one.ref.group}"] += len(left)
        held = Counter(each for obj in left for each in obj["metadata"].get("finalizers") or ())
        remains.finalizers.update(held)
        if not estimate and not held:
            remains.failures.append(
                f"unexpected items still remain in namespace: {name} for gvr: "
                f"{one.ref.group}/{one.ref.version}, Resource={one.ref.plural}"
            )
        remains.estimate = max(remains.estimate, estimate or (_FINALIZERS_SECONDS if held else 0))

    async def _grace_of_pods(self, namespace: Object) -> int:
        """Returns the longest grace period of pods that are not over; 0 when it has passed."""
        pods = (await self.client.list(PODS, namespace["metadata"]["name"]))["items"]
        longest = max(
            (
                pod["spec"].get("terminationGracePeriodSeconds") or 0
                for pod in pods
                if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
            ),
            default=0,
        )
        deleted = parse_timestamp(namespace["metadata"]["deletionTimestamp"])
        return 0 if (self.clock.now() - deleted).total_seconds() >= longest else longest

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
