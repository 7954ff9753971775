"""The replica set controller: as many active pods as the spec says, made and deleted one step at a time.

Behaviour of k8s.io/kubernetes/pkg/controller/replicaset, 1.36.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from apimachinery.client.refs import PODS, REPLICA_SETS
from apimachinery.client.rest import Object
from apimachinery.clock import timestamp
from apimachinery.errors import StatusError
from apimachinery.labels import LabelSelector
from controllers import owners, pods
from controllers.base import Controller, ControllerContext, Key, key_of
from controllers.expectations import Expectations
from controllers.owners import Claimer
from controllers.replica_pods import PodControl, is_namespace_terminating, slow_start

BURST_REPLICAS = 500  # at most this many pods are made or deleted in one go
_STATUS_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


class ReplicaSetController(Controller):
    name = "replicaset-controller"
    component = "replicaset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._counts_terminating = context.world.gates.enabled("DeploymentReplicaSetTerminatingReplicas")
        self._expectations = Expectations(self.clock)
        self._pod_control = PodControl(self.client, self.recorder)
        self._sets = context.informer(REPLICA_SETS)
        self._pods = context.informer(PODS)
        self._sets.add_index("controller", owners.controller_uids)
        self._pods.add_index("controller", owners.controller_uids)
        self._pods.add_index("orphan", owners.orphan_namespaces)
        self._sets.add_handler(self.enqueue, self._set_updated, self._set_deleted)
        self._pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)

    # -- what is told

    def _set_updated(self, _old: Object, new: Object) -> None:
        self.enqueue(new)

    def _set_deleted(self, old: Object) -> None:
        self._expectations.forget(key_of(old))
        self.enqueue(old)

    def _owner(self, pod: Object) -> Object | None:
        return owners.resolve_controller(pod, REPLICA_SETS, self._sets.get)

    def _pod_added(self, pod: Object) -> None:
        if pods.is_terminating(pod):
            # A restarted controller sees it for the first time on its way out.
            self._pod_deleted(pod)
        elif owners.controller_reference(pod) is None:
            self._enqueue_matching(pod)
        elif owner := self._owner(pod):
            self._expectations.creation_seen(key_of(owner))
            self.enqueue(owner)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if pods.is_terminating(new):
            # Deletion begins with a mark; waiting for the removal would hold up the replacement.
            self._pod_deleted(new)
            return
        new_reference = owners.controller_reference(new)
        reference_changed = owners.controller_reference(old) != new_reference
        if reference_changed and (former := self._owner(old)):
            self.enqueue(former)
        if new_reference is None:
            if reference_changed or old["metadata"].get("labels") != new["metadata"].get("labels"):
                self._enqueue_matching(new)
        elif owner := self._owner(new):
            self.enqueue(owner)
            wait = owner["spec"].get("minReadySeconds") or 0
            if wait and pods.is_ready(new) and not pods.is_ready(old):
                # One second more: times of objects have whole seconds.
                self.queue.add_after(key_of(owner), wait + 1)

    def _pod_deleted(self, pod: Object) -> None:
        if owner := self._owner(pod):
            self._expectations.deletion_seen(key_of(owner), key_of(pod))
            self.enqueue(owner)

    def _enqueue_matching(self, pod: Object) -> None:
        """An orphan: whoever selects it may adopt it."""
        labels = pod["metadata"].get("labels")
        if not labels:
            return
        for candidate in self._sets.list(pod["metadata"]["namespace"]):
            selector = LabelSelector.from_object(candidate["spec"].get("selector"))
            if not selector.is_empty() and selector.matches(labels):
                self.enqueue(candidate)

    # -- what is done

    async def sync(self, key: Key) -> None:
        replica_set = self._sets.get(*key)
        if replica_set is None:
            self._expectations.forget(key)
            return
        may_act = self._expectations.satisfied(key)
        claimed = await self._claim(replica_set)
        active = [pod for pod in claimed if pods.is_active(pod)]
        terminating = sum(pods.is_terminating(pod) and not pods.is_terminal(pod) for pod in claimed)
        failure: Exception | None = None
        if may_act and not replica_set["metadata"].get("deletionTimestamp"):
            try:
                await self._manage(key, replica_set, active)
            except Exception as error:
                failure = error
        status = self._status(replica_set, active, terminating, failure)
        await self._write_status(replica_set, status)
        if failure is not None:
            raise failure
        self._look_again(key, replica_set, active)

    async def _claim(self, replica_set: Object) -> list[Object]:
        metadata = replica_set["metadata"]
        selector = LabelSelector.from_object(replica_set["spec"].get("selector"))
        orphans = [pod for pod in self._pods.by_index("orphan", metadata["namespace"]) if pods.is_active(pod)]
        mine = self._pods.by_index("controller", metadata["uid"])
        claimer = Claimer(
            self.client,
            replica_set,
            REPLICA_SETS,
            PODS,
            lambda pod: selector.matches(pod["metadata"].get("labels")),
            lambda: self.client.get(REPLICA_SETS, metadata["name"], metadata["namespace"]),
        )
        return await claimer.claim([*mine, *orphans])

    async def _manage(self, key: Key, replica_set: Object, active: Sequence[Object]) -> None:
        difference = len(active) - _wanted(replica_set)
        if difference < 0:
            await self._create(key, replica_set, min(-difference, BURST_REPLICAS))
        elif difference > 0:
            await self._delete(key, replica_set, active, min(difference, BURST_REPLICAS))

    async def _create(self, key: Key, replica_set: Object, count: int) -> None:
        template = replica_set["spec"].get("template") or {}
        self._expectations.expect_creations(key, count)

        async def create() -> None:
            await self._pod_control.create(template, replica_set, REPLICA_SETS)

        successes, failures = await slow_start(count, 1, create)
        for _ in range(count - successes):
            self._expectations.creation_seen(key)  # it will not come
        failures = [failure for failure in failures if not is_namespace_terminating(failure)]
        if failures:
            raise failures[0]

    async def _delete(self, key: Key, replica_set: Object, active: Sequence[Object], count: int) -> None:
        chosen = list(active)
        if count < len(active):
            chosen = pods.deletion_order(active, self._related_per_node(replica_set), self.clock.now())[
                :count
            ]
        self._expectations.expect_deletions(key, [key_of(pod) for pod in chosen])
        results = await asyncio.gather(
            *(self._pod_control.delete(pod, replica_set) for pod in chosen), return_exceptions=True
        )
        failure = None
        for pod, result in zip(chosen, results, strict=True):
            if result is not True:
                self._expectations.deletion_seen(key, key_of(pod))  # nothing will be told
            if isinstance(result, Exception):
                failure = result
        if failure is not None:
            raise failure

    def _related_per_node(self, replica_set: Object) -> dict[str, int]:
        """Active pods per node of all replica sets with the same owner: their pods spread together."""
        reference = owners.controller_reference(replica_set)
        related = [replica_set]
        if reference is not None:
            related = self._sets.by_index("controller", reference["uid"])
        return Counter(
            pod["spec"].get("nodeName") or ""
            for one in related
            for pod in self._pods.by_index("controller", one["metadata"]["uid"])
            if pods.is_active(pod)
        )

    # -- what is said about it

    def _status(
        self, replica_set: Object, active: Sequence[Object], terminating: int, failure: Exception | None
    ) -> Object:
        spec = replica_set["spec"]
        labels = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
        wait, now = spec.get("minReadySeconds") or 0, self.clock.now()
        status = dict(replica_set.get("status") or {})
        status["replicas"] = len(active)
        status["fullyLabeledReplicas"] = sum(
            labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active
        )
        status["readyReplicas"] = sum(pods.is_ready(pod) for pod in active)
        status["availableReplicas"] = sum(pods.available_in(pod, wait, now) == 0 for pod in active)
        status.pop("terminatingReplicas", None)
        if self._counts_terminating:
            status["terminatingReplicas"] = terminating
        conditions = self._conditions(
            status.get("conditions") or [], len(active) - _wanted(replica_set), failure
        )
        status.pop("conditions", None)
        if conditions:
            status["conditions"] = conditions
        return status

    def _conditions(self, present: list[Object], difference: int, failure: Exception | None) -> list[Object]:
        others = [found for found in present if found["type"] != "ReplicaFailure"]
        if failure is None:
            return others
        if len(others) < len(present):
            return present
        return [
            *others,
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": timestamp(self.clock.now()),
                "reason": "FailedCreate" if difference < 0 else "FailedDelete",
                "message": str(failure),
            },
        ]

    async def _write_status(self, replica_set: Object, status: Object) -> None:
        generation = replica_set["metadata"].get("generation")
        present = replica_set.get("status") or {}
        names = (*_STATUS_COUNTS, "terminatingReplicas", "conditions")
        if present.get("observedGeneration") == generation and all(
            (present.get(name) or 0) == (status.get(name) or 0) for name in names
        ):
            return
        status["observedGeneration"] = generation
        try:
            await self.client.update(REPLICA_SETS, {**replica_set, "status": status}, "status")
        except StatusError as error:
            if error.code == 404:
                return
            if error.code != 409:
                raise
            # Only the spec was ahead of us; what we counted is still what is there.
            metadata = replica_set["metadata"]
            fresh = await self.client.get(REPLICA_SETS, metadata["name"], metadata["namespace"])
            await self.client.update(REPLICA_SETS, {**fresh, "status": status}, "status")

    def _look_again(self, key: Key, replica_set: Object, active: Sequence[Object]) -> None:
        """Come back when the next ready pod becomes available."""
        wait = replica_set["spec"].get("minReadySeconds") or 0
        if not wait:
            return
        times = (pods.available_in(pod, wait, self.clock.now()) for pod in active)
        pending = [seconds for seconds in times if seconds]
        if pending:
            self.queue.add_after(key, min(pending))


def _wanted(replica_set: Object) -> int:
    replicas = replica_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)
