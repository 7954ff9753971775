"""The deployment controller: selects the deployments to sync after a change, reconciles them step by step,
and keeps their status: counts, conditions, and the progress of the rollout.

Each step that changed something ends the reconciliation: the informer's event starts the next one.

Sources: k8s.io/kubernetes/pkg/controller/deployment/{sync,progress}.go, 1.36;
k8s.io/kubernetes/pkg/controller/deployment/{sync,rolling,recreate}.go, 1.36.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import DEPLOYMENTS, PODS, REPLICA_SETS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition, without_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of, is_controlled_by, is_resync
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.deployment import replica_sets
from kubeskew.controllers.deployment.features import DeploymentFeatures
from kubeskew.controllers.deployment.replica_sets import max_unavailable, replicas, reported, total
from kubeskew.controllers.framework import owner_references
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.owner_references import ControllerRefManager, Dependents, OwnerMatch
from kubeskew.controllers.framework.pod_control import is_namespace_terminating

NO_LIMIT = 2**31 - 1
NEW_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"


def new_deployment_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    moment = timestamp(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def with_updated_condition(conditions: Sequence[Object], new: Object) -> list[Object]:
    """Appends `new` in place of the condition of its type; nothing changes if status and reason are the same
    (SetDeploymentCondition).
    """
    for present in conditions:
        if present["type"] != new["type"] or present["status"] != new["status"]:
            continue
        if present.get("reason") == new["reason"]:
            return list(conditions)
        new = {**new, "lastTransitionTime": present["lastTransitionTime"]}
    return [*without_condition(conditions, new["type"]), new]


def has_deadline(deployment: Object) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, NO_LIMIT)


def calculate(
    deployment: Object, sets: Sequence[Object], new: Object | None, now: datetime, *, counts_terminating: bool
) -> Object:
    present = deployment.get("status") or {}
    available = reported(sets, "availableReplicas")
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": reported(sets, "replicas"),
        "updatedReplicas": reported([new], "replicas"),
        "readyReplicas": reported(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(sets) - available),
    }
    if counts_terminating and all(
        "terminatingReplicas" in (replica_set.get("status") or {}) for replica_set in sets
    ):
        status["terminatingReplicas"] = reported(sets, "terminatingReplicas")
    if "collisionCount" in present:
        status["collisionCount"] = present["collisionCount"]
    if available >= replicas(deployment) - max_unavailable(deployment):
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status["conditions"] = with_updated_condition(
        present.get("conditions") or [], new_deployment_condition("Available", *verdict, now)
    )
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    """All replicas have the present template and are available, no others are left, and the generation was
    seen.
    """
    wanted = replicas(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    seen = status.get("observedGeneration") or 0
    return all((status.get(name) or 0) == wanted for name in counts) and seen >= deployment["metadata"].get(
        "generation", 0
    )


def is_progressing(deployment: Object, status: Object) -> bool:
    before = deployment.get("status") or {}

    def gained(name: str) -> bool:
        return (status.get(name) or 0) > (before.get(name) or 0)

    def old_ones(counts: Object) -> int:
        return (counts.get("replicas") or 0) - (counts.get("updatedReplicas") or 0)

    return any(
        gained(name) for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or old_ones(status) < old_ones(before)


def is_timed_out(deployment: Object, status: Object, now: datetime) -> bool:
    if not has_deadline(deployment):
        return False
    found = find_condition({"status": status}, "Progressing")
    if found is None or found.get("reason") == NEW_AVAILABLE:
        return False
    if found.get("reason") == TIMED_OUT:
        return True
    return deadline_of(deployment, found) < now


def deadline_of(deployment: Object, progressing: Object) -> datetime:
    since = parse_timestamp(progressing["lastUpdateTime"])
    return since + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])


def with_progress(
    deployment: Object, status: Object, sets: Sequence[Object], new: Object | None, now: datetime
) -> Object:
    conditions: list[Object] = status["conditions"]
    if has_deadline(deployment):
        conditions = _progressing(deployment, status, new, now)
    else:
        conditions = without_condition(conditions, "Progressing")
    failure = _replica_failure(sets, new)
    if failure is None:
        conditions = without_condition(conditions, "ReplicaFailure")
    else:
        conditions = with_updated_condition(conditions, failure)
    return {**status, "conditions": conditions}


def _progressing(deployment: Object, status: Object, new: Object | None, now: datetime) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    current = find_condition(deployment, "Progressing")
    done = current is not None and current.get("reason") == NEW_AVAILABLE
    if done and status["replicas"] == status["updatedReplicas"]:
        return conditions  # a lost pod does not restart a finished rollout
    who = (
        f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        message = f"{who} has successfully progressed."
        return with_updated_condition(
            conditions, new_deployment_condition("Progressing", "True", NEW_AVAILABLE, message, now)
        )
    if is_progressing(deployment, status):
        made = new_deployment_condition(
            "Progressing", "True", "ReplicaSetUpdated", f"{who} is progressing.", now
        )
        if current is not None and current["status"] == "True":
            made["lastTransitionTime"] = current["lastTransitionTime"]
        # Replaced even if only the time changes: the deadline counts from it.
        return [*without_condition(conditions, "Progressing"), made]
    if is_timed_out(deployment, status, now):
        message = f"{who} has timed out progressing."
        return with_updated_condition(
            conditions, new_deployment_condition("Progressing", "False", TIMED_OUT, message, now)
        )
    return conditions


def _replica_failure(sets: Sequence[Object], new: Object | None) -> Object | None:
    """A failure of the new replica set comes before those of the others."""
    for replica_set in ([new] if new is not None else []) + list(sets):
        found = find_condition(replica_set, "ReplicaFailure")
        if found is not None:
            return {
                "type": "ReplicaFailure",
                "status": found["status"],
                "lastUpdateTime": found["lastTransitionTime"],
                "lastTransitionTime": found["lastTransitionTime"],
                "reason": found.get("reason", ""),
                "message": found.get("message", ""),
            }
    return None


def paused_condition(deployment: Object, now: datetime) -> Object | None:
    """Pausing and resuming set a Progressing condition; None if neither just happened."""
    current = find_condition(deployment, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return None
    paused = bool(deployment["spec"].get("paused"))
    if paused and reason != PAUSED:
        return new_deployment_condition("Progressing", "Unknown", PAUSED, "Deployment is paused", now)
    if not paused and reason == PAUSED:
        return new_deployment_condition(
            "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now
        )
    return None


class Rollout:
    def __init__(
        self,
        client: APIClient,
        recorder: EventRecorder,
        clock: Clock,
        deployment: Object,
        sets: Sequence[Object],
        *,
        counts_terminating: bool,
        event_names_from_first: bool,
        names_too_long: bool,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._counts_terminating = counts_terminating
        self._event_names_from_first = event_names_from_first
        self._names_too_long = names_too_long
        self.deployment = deployment
        self.new, self.old = replica_sets.split(deployment, sets)

    @property
    def sets(self) -> list[Object]:
        """Old replica sets come before the new one."""
        return [*self.old, *([self.new] if self.new is not None else [])]

    # -- the strategies

    async def run(self, old_pods: Sequence[Object]) -> None:
        """`old_pods` are the pods of all replica sets except the new one."""
        await self._note_pause()
        if self.deployment["spec"].get("paused") or await self._is_scaling():
            await self.scale_only()
        elif replica_sets.is_rolling(self.deployment):
            await self._roll()
        else:
            await self._recreate(old_pods)

    async def report_only(self) -> None:
        """Called for deployments that are being deleted."""
        await self._write_status(self._calculated())

    async def scale_only(self) -> None:
        """A paused deployment is only scaled, and so is one of which only the size changed."""
        await self._sync_revision(create=False)
        await self._scale()
        if self.deployment["spec"].get("paused"):
            await self._clean_up()
        await self._write_status(self._calculated())

    async def _is_scaling(self) -> bool:
        await self._sync_revision(create=False)
        wanted = replicas(self.deployment)
        noted = (
            replica_sets.annotated(replica_set, replica_sets.DESIRED_REPLICAS)
            for replica_set in replica_sets.active(self.sets)
        )
        return any(desired is not None and desired != wanted for desired in noted)

    async def _roll(self) -> None:
        await self._sync_revision(create=True)
        if not (await self._grow_new() or await self._shrink_old()):
            await self._clean_up_if_complete()
        await self._report_progress()

    async def _grow_new(self) -> bool:
        if self.new is None:
            return False
        wanted, size = replicas(self.deployment), replicas(self.new)
        if size == wanted:
            return False
        target = wanted
        if size < wanted:
            target = replica_sets.new_set_size(self.deployment, self.sets, self.new)
        return await self._resize(self.new, target)

    async def _shrink_old(self) -> bool:
        new = self.new
        if new is None or not replica_sets.may_scale_down(self.deployment, self.old, new):
            return False
        cuts = replica_sets.unhealthy_cuts(self.deployment, replica_sets.active(self.old), new)
        changed = await self._resize_all(cuts)
        cuts = replica_sets.rolling_cuts(self.deployment, replica_sets.active(self.old), new)
        return await self._resize_all(cuts) or changed

    async def _recreate(self, old_pods: Sequence[Object]) -> None:
        await self._sync_revision(create=False)
        gone = await self._resize_all(
            {_name(replica_set): 0 for replica_set in replica_sets.active(self.old)}
        )
        running = replica_sets.reported(self.old, "replicas") > 0 or any(
            not is_terminal(pod) for pod in old_pods
        )
        if not gone and not running:
            await self._sync_revision(create=True)
            if self.new is not None:
                await self._resize(self.new, replicas(self.deployment))
            await self._clean_up_if_complete()
        await self._report_progress()

    # -- the new replica set

    async def _sync_revision(self, *, create: bool) -> None:
        number = replica_sets.next_revision(self.old)
        if self.new is not None:
            await self._update_new(self.new, number)
        elif create:
            await self._create_new(number)

    async def _update_new(self, new: Object, number: int) -> None:
        annotations = replica_sets.annotations_of_new(self.deployment, new, number)
        spec, metadata = new["spec"], new["metadata"]
        wait = self.deployment["spec"].get("minReadySeconds") or 0
        if annotations != (metadata.get("annotations") or {}) or (spec.get("minReadySeconds") or 0) != wait:
            changed = {
                **new,
                "metadata": {**metadata, "annotations": annotations},
                "spec": {**spec, "minReadySeconds": wait},
            }
            self.new = await self._client.update(REPLICA_SETS, changed)
            return
        condition = None
        if has_deadline(self.deployment) and not _has_progressing(self.deployment):
            message = f'Found new replica set "{_name(new)}"'
            condition = self._progressing("True", "FoundNewReplicaSet", message)
        await self._note(replica_sets.revision(new), condition)

    async def _create_new(self, number: int) -> None:
        wanted = replica_sets.new_replica_set(
            self.deployment, self.old, number, names_too_long=self._names_too_long
        )
        existed = False
        try:
            self.new = await self._client.create(REPLICA_SETS, wanted)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                await self._creation_failed(wanted, error)
                raise
            # The informer is behind, or another template has the same hash.
            self.new = await self._taken_by_us(wanted)
            if self.new is None:
                await self._count_collision()
                raise
            existed = True
        if not existed and (size := replicas(wanted)) > 0:
            self._report_scaling("up", self.new, 0, size, created=True)
        condition = None
        if not existed and has_deadline(self.deployment):
            message = f'Created new replica set "{_name(self.new)}"'
            condition = self._progressing("True", "NewReplicaSetCreated", message)
        await self._note(number, condition)

    async def _taken_by_us(self, wanted: Object) -> Object | None:
        metadata = wanted["metadata"]
        found = await self._client.get(REPLICA_SETS, metadata["name"], metadata["namespace"])
        template = self.deployment["spec"]["template"]
        ours = is_controlled_by(found, self.deployment)
        return found if ours and replica_sets.same_template(found["spec"]["template"], template) else None

    async def _count_collision(self) -> None:
        present = self.deployment.get("status") or {}
        count = (present.get("collisionCount") or 0) + 1
        await self._write_status({**present, "collisionCount": count})

    async def _creation_failed(self, wanted: Object, error: StatusError) -> None:
        if is_namespace_terminating(error):
            return
        message = f'Failed to create new replica set "{_name(wanted)}": {error}'
        if has_deadline(self.deployment):
            await self._note(0, self._progressing("False", "ReplicaSetCreateError", message))
        self._recorder.event(self.deployment, "Warning", "ReplicaSetCreateError", message)

    # -- sizes

    async def _scale(self) -> None:
        single = replica_sets.active_or_latest(self.new, self.old)
        if single is not None:
            await self._resize(single, replicas(self.deployment))
        elif replica_sets.is_saturated(self.deployment, self.new):
            await self._resize_all({_name(replica_set): 0 for replica_set in replica_sets.active(self.old)})
        elif replica_sets.is_rolling(self.deployment):
            sets = replica_sets.active(self.sets)
            sizes = replica_sets.proportional_sizes(self.deployment, sets)
            for replica_set in sets:
                await self._resize(replica_set, sizes[_name(replica_set)], notes_too=True)

    async def _resize_all(self, sizes: dict[str, int]) -> bool:
        changed = False
        for scaled_set in [replica_set for replica_set in self.old if _name(replica_set) in sizes]:
            changed = await self._resize(scaled_set, sizes[_name(scaled_set)]) or changed
        return changed

    async def _resize(self, one: Object, size: int, *, notes_too: bool = False) -> bool:
        """Sets a replica set's size and records the deployment's on it; False if the size stays.

        `notes_too`: writes the annotations even if the size stays.
        """
        before = replicas(one)
        notes = replica_sets.size_annotations(self.deployment)
        annotations = one["metadata"].get("annotations") or {}
        if before == size and (not notes_too or notes.items() <= annotations.items()):
            return False
        changed = {
            **one,
            "metadata": {**one["metadata"], "annotations": annotations | notes},
            "spec": {**one["spec"], "replicas": size},
        }
        updated = await self._client.update(REPLICA_SETS, changed)
        self._replace(one, updated)
        if before != size:
            self._report_scaling("up" if size > before else "down", one, before, size)
        return before != size

    def _replace(self, former: Object, updated: Object) -> None:
        if self.new is former:
            self.new = updated
        else:
            self.old = [updated if replica_set is former else replica_set for replica_set in self.old]

    def _report_scaling(
        self, direction: str, one: Object, before: int, after: int, *, created: bool = False
    ) -> None:
        if self._event_names_from_first:
            numbers = f"from {before} to {after}"
        else:
            numbers = f"to {after}" if created else f"to {after} from {before}"
        text = f"Scaled {direction} replica set {_name(one)} {numbers}"
        self._recorder.event(self.deployment, "Normal", "ScalingReplicaSet", text)

    # -- the end of a rollout, and its status

    async def _clean_up_if_complete(self) -> None:
        if is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._clean_up()

    async def _clean_up(self) -> None:
        for replica_set in replica_sets.to_clean_up(self.deployment, self.old):
            try:
                await self._client.delete(
                    REPLICA_SETS, _name(replica_set), replica_set["metadata"]["namespace"]
                )
            except StatusError as error:
                if error.code != 404:
                    raise

    async def _note_pause(self) -> None:
        condition = paused_condition(self.deployment, self._clock.now())
        if condition is not None:
            await self._note(0, condition)

    def _progressing(self, verdict: str, reason: str, message: str) -> Object:
        return new_deployment_condition("Progressing", verdict, reason, message, self._clock.now())

    async def _note(self, number: int, condition: Object | None) -> None:
        deployment = self.deployment
        if number and replica_sets.revision(deployment) != number:
            annotations = deployment["metadata"].get("annotations") or {}
            metadata = {
                **deployment["metadata"],
                "annotations": {**annotations, replica_sets.REVISION: str(number)},
            }
            deployment = {**deployment, "metadata": metadata}
        if condition is not None:
            present = deployment.get("status") or {}
            conditions = with_updated_condition(present.get("conditions") or [], condition)
            deployment = {**deployment, "status": {**present, "conditions": conditions}}
        if deployment is not self.deployment:
            self.deployment = await self._client.update(DEPLOYMENTS, deployment, "status")

    def _calculated(self) -> Object:
        return calculate(
            self.deployment,
            self.sets,
            self.new,
            self._clock.now(),
            counts_terminating=self._counts_terminating,
        )

    async def _report_progress(self) -> None:
        calculated = self._calculated()
        now = self._clock.now()
        await self._write_status(with_progress(self.deployment, calculated, self.sets, self.new, now))

    async def _write_status(self, wanted: Object) -> None:
        if _comparable(self.deployment.get("status") or {}) != _comparable(wanted):
            changed = {**self.deployment, "status": wanted}
            self.deployment = await self._client.update(DEPLOYMENTS, changed, "status")


def _name(one: Object) -> str:
    name: str = one["metadata"]["name"]
    return name


def _has_progressing(deployment: Object) -> bool:
    return find_condition(deployment, "Progressing") is not None


def _comparable(found: Object) -> Object:
    """Makes zero and absent equal, as on the wire, except for terminatingReplicas."""
    return {name: value for name, value in found.items() if value or name == "terminatingReplicas"}


class DeploymentController(Controller):
    name = "deployment-controller"
    component = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = DeploymentFeatures.of(context.environment.gates)
        self._deployments = context.informer(DEPLOYMENTS)
        self._sets = context.informer(REPLICA_SETS)
        self._pods = context.informer(PODS)
        self._sets_of = Dependents(self._sets, DEPLOYMENTS.kind, OwnerMatch.UID_IN_NAMESPACE)
        self._pods_of = Dependents(self._pods, REPLICA_SETS.kind, self._features.pod_match)
        self._deployments.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self.enqueue)
        self._sets.add_handler(self._set_added, self._set_updated, self._set_deleted)
        self._pods.add_handler(deleted=self._pod_deleted)

    # -- event handlers

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
        if owner is not None and not replica_sets.is_rolling(owner):
            self.enqueue(owner)

    def _enqueue_matching(self, replica_set: Object) -> None:
        labels = replica_set["metadata"].get("labels")
        for deployment in self._deployments.list(replica_set["metadata"]["namespace"]) if labels else ():
            selector = LabelSelector.from_object(deployment["spec"].get("selector"))
            if not selector.is_empty() and selector.matches(labels):
                self.enqueue(deployment)

    # -- reconciliation

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
        _, old = replica_sets.split(deployment, sets)
        found = [pod for replica_set in old for pod in self._pods_of.of(replica_set)]
        if self._features.pod_match is OwnerMatch.WHOLE_REFERENCE:
            return found
        return [pod for pod in found if selector.matches(pod["metadata"].get("labels"))]

    def _look_again(self, key: Key, deployment: Object) -> None:
        found = find_condition(deployment, "Progressing")
        if found is None or not has_deadline(deployment) or deployment["spec"].get("paused"):
            return
        settled = found.get("reason") in (TIMED_OUT, NEW_AVAILABLE)
        if settled or is_complete(deployment, deployment.get("status") or {}):
            return
        left = (deadline_of(deployment, found) - self.clock.now()).total_seconds()
        self.queue.add_after(key, max(left, 0) + 1)
