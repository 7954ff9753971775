"""The deployment controller's loop: which deployments to sync after a change, and when to sync again."""

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.apimachinery.client.refs import DEPLOYMENTS, PODS, REPLICA_SETS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object, is_resync
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.deployment import arithmetic, revisions, status
from kubeskew.controllers.deployment.features import DeploymentFeatures
from kubeskew.controllers.deployment.rollout import Rollout
from kubeskew.controllers.framework import owner_references
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.owner_references import ControllerRefManager, Dependents, OwnerMatch


class DeploymentController(Controller):
    name = "deployment-controller"
    component = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = DeploymentFeatures.of(context.environment.version, context.environment.gates)
        self._deployments = context.informer(DEPLOYMENTS)
        self._sets = context.informer(REPLICA_SETS)
        self._pods = context.informer(PODS)
        self._sets_of = Dependents(self._sets, DEPLOYMENTS.kind, OwnerMatch.UID_IN_NAMESPACE)
        self._pods_of = Dependents(self._pods, REPLICA_SETS.kind, self._features.pod_match)
        self._deployments.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self.enqueue)
        self._sets.add_handler(self._set_added, self._set_updated, self._set_deleted)
        self._pods.add_handler(deleted=self._pod_deleted)

    # -- what is told

    def _owner(self, replica_set: Object) -> Object | None:
        return owner_references.resolve_controller(replica_set, DEPLOYMENTS, self._deployments.get)

    def _set_added(self, replica_set: Object) -> None:
        if controller_of(replica_set) is None:
            self._enqueue_matching(replica_set)
        elif owner := self._owner(replica_set):
            self.enqueue(owner)

    def _set_updated(self, old: Object, new: Object) -> None:
        if is_resync(old, new):
            return
        reference = controller_of(new)
        reference_changed = controller_of(old) != reference
        if reference_changed and (former := self._owner(old)):
            self.enqueue(former)
        if reference is not None:
            if owner := self._owner(new):
                self.enqueue(owner)
        elif reference_changed or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._enqueue_matching(new)

    def _set_deleted(self, replica_set: Object) -> None:
        if owner := self._owner(replica_set):
            self.enqueue(owner)

    def _pod_deleted(self, pod: Object) -> None:
        """Syncs a deployment with strategy Recreate, whose new pods wait for the last old one's end."""
        replica_set = owner_references.resolve_controller(pod, REPLICA_SETS, self._sets.get)
        owner = self._owner(replica_set) if replica_set is not None else None
        if owner is not None and not arithmetic.is_rolling(owner):
            self.enqueue(owner)

    def _enqueue_matching(self, replica_set: Object) -> None:
        labels = replica_set["metadata"].get("labels")
        for deployment in self._deployments.list(replica_set["metadata"]["namespace"]) if labels else ():
            selector = LabelSelector.from_object(deployment["spec"].get("selector"))
            if not selector.is_empty() and selector.matches(labels):
                self.enqueue(deployment)

    # -- what is done

    async def sync(self, key: Key) -> None:
        deployment = self._deployments.get(*key)
        if deployment is None:
            return
        selector = LabelSelector.from_object(deployment["spec"].get("selector"))
        if selector.is_empty():
            await self._refuse_all(deployment)
            return
        sets = await self._claim(deployment, selector)
        rollout = Rollout(
            self.client,
            self.recorder,
            self.clock,
            deployment,
            sets,
            counts_terminating=self._features.terminating_replicas,
            event_names_from_first=self._features.event_names_from_first,
            names_too_long=self._features.names_too_long,
        )
        if deployment["metadata"].get("deletionTimestamp"):
            await rollout.report_only()
            return
        await rollout.run(self._old_pods(deployment, sets, selector))
        self._look_again(key, rollout.deployment)

    async def _refuse_all(self, deployment: Object) -> None:
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self.recorder.event(deployment, "Warning", "SelectingAll", message)
        generation, present = deployment["metadata"].get("generation", 0), deployment.get("status") or {}
        if (present.get("observedGeneration") or 0) < generation:
            changed = {**deployment, "status": {**present, "observedGeneration": generation}}
            await self.client.update(DEPLOYMENTS, changed, "status")

    async def _claim(self, deployment: Object, selector: LabelSelector) -> list[Object]:
        metadata = deployment["metadata"]
        ref_manager = ControllerRefManager(
            self.client,
            deployment,
            DEPLOYMENTS,
            REPLICA_SETS,
            lambda replica_set: selector.matches(replica_set["metadata"].get("labels")),
            lambda: self.client.get(DEPLOYMENTS, metadata["name"], metadata["namespace"]),
        )
        return await ref_manager.claim(self._sets_of.candidates(deployment))

    def _old_pods(self, deployment: Object, sets: list[Object], selector: LabelSelector) -> list[Object]:
        _, old = revisions.split(deployment, sets)
        found = [pod for replica_set in old for pod in self._pods_of.of(replica_set)]
        if self._features.pod_match is OwnerMatch.WHOLE_REFERENCE:
            return found
        return [pod for pod in found if selector.matches(pod["metadata"].get("labels"))]

    def _look_again(self, key: Key, deployment: Object) -> None:
        """Syncs the deployment again when the progress deadline passes."""
        found = find_condition(deployment, "Progressing")
        if found is None or not status.has_deadline(deployment) or deployment["spec"].get("paused"):
            return
        settled = found.get("reason") in (status.TIMED_OUT, status.NEW_AVAILABLE)
        if settled or status.is_complete(deployment, deployment.get("status") or {}):
            return
        left = (status.deadline_of(deployment, found) - self.clock.now()).total_seconds()
        self.queue.add_after(key, max(left, 0) + 1)
