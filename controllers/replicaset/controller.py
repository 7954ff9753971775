"""Replica sets and replication controllers: keep as many active pods as the spec says.

Behaviour of k8s.io/kubernetes/pkg/controller/replicaset, 1.36.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kubeskew.apimachinery.client.refs import REPLICA_SETS, REPLICATION_CONTROLLERS
from kubeskew.apimachinery.conditions import new_condition, without_condition
from kubeskew.apimachinery.objects import Object, controller_of, is_controlled_by
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import ControllerContext, Key, key_of
from kubeskew.controllers.framework.owner_references import OwnerMatch
from kubeskew.controllers.framework.pod_control import is_namespace_terminating, slow_start
from kubeskew.controllers.framework.pod_controller import PodOwnerController
from kubeskew.controllers.replicaset.features import ReplicaSetFeatures

BURST_REPLICAS = 500  # pods created or deleted in one sync
_STATUS_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


class ReplicaSetController(PodOwnerController):
    name = "replicaset-controller"
    component = "replicaset-controller"
    ref = REPLICA_SETS

    def __init__(self, context: ControllerContext, features: ReplicaSetFeatures | None = None) -> None:
        environment = context.environment
        features = features or ReplicaSetFeatures.of(environment.gates)
        super().__init__(
            context, waits_for_own_writes=features.waits_for_own_writes, match=features.owner_match
        )
        self._counts_terminating = features.terminating_replicas
        self._waits_whole_periods = features.waits_whole_periods
        self.objects.add_index(OwnerMatch.UID.value, OwnerMatch.UID.keys)

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object(obj["spec"].get("selector"))

    # -- reconciliation

    async def sync(self, key: Key) -> None:
        self.own_writes.ensure_seen(key)
        replica_set = self.objects.get(*key)
        if replica_set is None:
            self.expectations.forget(key)
            return
        may_act = self.expectations.satisfied(key)
        found = self.dependents.candidates(replica_set)
        active = await self.claim_pods(replica_set, [pod for pod in found if pods.is_active(pod)])
        terminating = self._terminating(replica_set, found) if self._counts_terminating else 0
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
        self._look_again(key, replica_set, active, status)

    async def _manage(self, key: Key, replica_set: Object, active: Sequence[Object]) -> None:
        difference = len(active) - _wanted(replica_set)
        if difference < 0:
            await self._create(key, replica_set, min(-difference, BURST_REPLICAS))
        elif difference > 0:
            await self._delete(key, replica_set, active, min(difference, BURST_REPLICAS))

    async def _create(self, key: Key, replica_set: Object, count: int) -> None:
        template = replica_set["spec"].get("template") or {}
        self.expectations.expect_creations(key, count)

        async def create() -> None:
            await self.create_pod(template, replica_set)

        successes, failures = await slow_start(count, 1, create)
        for _ in range(count - successes):
            self.expectations.creation_seen(key)  # its event will not come
        failures = [failure for failure in failures if not is_namespace_terminating(failure)]
        if failures:
            raise failures[0]

    async def _delete(self, key: Key, replica_set: Object, active: Sequence[Object], count: int) -> None:
        chosen = list(active)
        if count < len(active):
            chosen = pods.deletion_order(active, self._related_per_node(replica_set), self.clock.now())[
                :count
            ]
        self.expectations.expect_deletions(key, [key_of(pod) for pod in chosen])
        failure = await self.delete_pods(key, replica_set, chosen)
        if failure is not None:
            raise failure

    def _terminating(self, replica_set: Object, found: Sequence[Object]) -> int:
        """Terminating pods that match no more are not released, as no inactive ones are."""
        selects = self.selects(replica_set)
        return sum(
            pods.is_terminating(pod)
            and not is_terminal(pod)
            and is_controlled_by(pod, replica_set)
            and selects(pod)
            for pod in found
        )

    def _related_per_node(self, replica_set: Object) -> dict[str, int]:
        """Replica sets with the same owner count together, because their pods spread together. A set without
        one counts none, not even its own (upstream logs that as an error).
        """
        reference = controller_of(replica_set)
        if reference is None:
            return {}
        return Counter(
            pod["spec"].get("nodeName") or ""
            for related in self.objects.by_index(OwnerMatch.UID.value, reference["uid"])
            for pod in self.dependents.of(related)
            if pods.is_active(pod)
        )

    # -- status

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
        others = without_condition(present, "ReplicaFailure")
        if failure is None:
            return others
        if len(others) < len(present):
            return present
        reason = "FailedCreate" if difference < 0 else "FailedDelete"
        now = self.clock.now()
        return [*others, new_condition("ReplicaFailure", "True", reason, str(failure), now)]

    async def _write_status(self, replica_set: Object, status: Object) -> None:
        generation = replica_set["metadata"].get("generation")
        present = replica_set.get("status") or {}
        names = (*_STATUS_COUNTS, "terminatingReplicas", "conditions")
        if present.get("observedGeneration") == generation and all(
            (present.get(name) or 0) == (status.get(name) or 0) for name in names
        ):
            return
        status["observedGeneration"] = generation
        await self.write_status(replica_set, status)

    def _look_again(self, key: Key, replica_set: Object, active: Sequence[Object], status: Object) -> None:
        wait = replica_set["spec"].get("minReadySeconds") or 0
        if not wait:
            return
        if self._waits_whole_periods:
            if status["readyReplicas"] == _wanted(replica_set) != status["availableReplicas"]:
                self.queue.add_after(key, wait)
            return
        times = (pods.available_in(pod, wait, self.clock.now()) for pod in active)
        pending = [seconds for seconds in times if seconds]
        if pending:
            self.queue.add_after(key, min(pending))


def _wanted(replica_set: Object) -> int:
    replicas = replica_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


class ReplicationManager(ReplicaSetController):
    """Handles replication controllers, whose selector is a plain map (pkg/controller/replication)."""

    name = "replicationcontroller-controller"
    component = "replication-controller"
    queue_name = "replicationmanager"
    ref = REPLICATION_CONTROLLERS

    def __init__(self, context: ControllerContext) -> None:
        environment = context.environment
        features = ReplicaSetFeatures.of(environment.gates)
        super().__init__(context, replace(features, terminating_replicas=False, waits_for_own_writes=False))

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object({"matchLabels": obj["spec"].get("selector") or {}})
