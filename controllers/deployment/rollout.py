"""Reconciles one deployment, step by step.

Each step that changed something ends the reconciliation: the informer's event starts the next one.

Behaviour of k8s.io/kubernetes/pkg/controller/deployment/{sync,rolling,recreate}.go, 1.36.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import DEPLOYMENTS, REPLICA_SETS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.deployment import arithmetic, revisions, status
from kubeskew.controllers.deployment.arithmetic import replicas
from kubeskew.controllers.framework.owner_references import is_controlled_by
from kubeskew.controllers.framework.pod_control import is_namespace_terminating
from kubeskew.controllers.framework.pods import is_terminal


class Rollout:
    """A deployment with its replica sets, updated during the reconciliation."""

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
        self.new, self.old = revisions.split(deployment, sets)

    @property
    def sets(self) -> list[Object]:
        """Returns all replica sets, the new one last."""
        return [*self.old, *([self.new] if self.new is not None else [])]

    # -- the strategies

    async def run(self, old_pods: Sequence[Object]) -> None:
        """Runs a rollout; `old_pods` are the pods of all replica sets but the new one."""
        await self._note_pause()
        if self.deployment["spec"].get("paused") or await self._is_scaling():
            await self.scale_only()
        elif arithmetic.is_rolling(self.deployment):
            await self._roll()
        else:
            await self._recreate(old_pods)

    async def report_only(self) -> None:
        """Updates only the status, of a deployment that is being deleted."""
        await self._write_status(self._calculated())

    async def scale_only(self) -> None:
        """Scales without a rollout, when the deployment is paused or only its size changed."""
        await self._sync_revision(create=False)
        await self._scale()
        if self.deployment["spec"].get("paused"):
            await self._clean_up()
        await self._write_status(self._calculated())

    async def _is_scaling(self) -> bool:
        await self._sync_revision(create=False)
        wanted = replicas(self.deployment)
        noted = (
            arithmetic.annotated(replica_set, arithmetic.DESIRED_REPLICAS)
            for replica_set in arithmetic.active(self.sets)
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
            target = arithmetic.new_set_size(self.deployment, self.sets, self.new)
        return await self._resize(self.new, target)

    async def _shrink_old(self) -> bool:
        new = self.new
        if new is None or not arithmetic.may_scale_down(self.deployment, self.old, new):
            return False
        cuts = arithmetic.unhealthy_cuts(self.deployment, arithmetic.active(self.old), new)
        changed = await self._resize_all(cuts)
        cuts = arithmetic.rolling_cuts(self.deployment, arithmetic.active(self.old), new)
        return await self._resize_all(cuts) or changed

    async def _recreate(self, old_pods: Sequence[Object]) -> None:
        await self._sync_revision(create=False)
        gone = await self._resize_all({_name(replica_set): 0 for replica_set in arithmetic.active(self.old)})
        running = arithmetic.reported(self.old, "replicas") > 0 or any(
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
        number = revisions.next_revision(self.old)
        if self.new is not None:
            await self._update_new(number)
        elif create:
            await self._create_new(number)

    async def _update_new(self, number: int) -> None:
        assert self.new is not None  # noqa: S101 - for the type checker
        annotations = revisions.annotations_of_new(self.deployment, self.new, number)
        spec, metadata = self.new["spec"], self.new["metadata"]
        wait = self.deployment["spec"].get("minReadySeconds") or 0
        if annotations != (metadata.get("annotations") or {}) or (spec.get("minReadySeconds") or 0) != wait:
            changed = {
                **self.new,
                "metadata": {**metadata, "annotations": annotations},
                "spec": {**spec, "minReadySeconds": wait},
            }
            self.new = await self._client.update(REPLICA_SETS, changed)
            return
        condition = None
        if status.has_deadline(self.deployment) and not _has_progressing(self.deployment):
            message = f'Found new replica set "{_name(self.new)}"'
            condition = self._progressing("True", "FoundNewReplicaSet", message)
        await self._note(revisions.revision(self.new), condition)

    async def _create_new(self, number: int) -> None:
        wanted = revisions.new_replica_set(
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
            self._tell_scaling("up", self.new, 0, size, created=True)
        condition = None
        if not existed and status.has_deadline(self.deployment):
            message = f'Created new replica set "{_name(self.new)}"'
            condition = self._progressing("True", "NewReplicaSetCreated", message)
        await self._note(number, condition)

    async def _taken_by_us(self, wanted: Object) -> Object | None:
        metadata = wanted["metadata"]
        found = await self._client.get(REPLICA_SETS, metadata["name"], metadata["namespace"])
        template = self.deployment["spec"]["template"]
        ours = is_controlled_by(found, self.deployment)
        return found if ours and revisions.same_template(found["spec"]["template"], template) else None

    async def _count_collision(self) -> None:
        present = self.deployment.get("status") or {}
        count = (present.get("collisionCount") or 0) + 1
        await self._write_status({**present, "collisionCount": count})

    async def _creation_failed(self, wanted: Object, error: StatusError) -> None:
        if is_namespace_terminating(error):
            return
        message = f'Failed to create new replica set "{_name(wanted)}": {error}'
        if status.has_deadline(self.deployment):
            await self._note(0, self._progressing("False", "ReplicaSetCreateError", message))
        self._recorder.event(self.deployment, "Warning", "ReplicaSetCreateError", message)

    # -- sizes

    async def _scale(self) -> None:
        single = arithmetic.active_or_latest(self.new, self.old)
        if single is not None:
            await self._resize(single, replicas(self.deployment))
        elif arithmetic.is_saturated(self.deployment, self.new):
            await self._resize_all({_name(replica_set): 0 for replica_set in arithmetic.active(self.old)})
        elif arithmetic.is_rolling(self.deployment):
            sets = arithmetic.active(self.sets)
            sizes = arithmetic.proportional_sizes(self.deployment, sets)
            for replica_set in sets:
                await self._resize(replica_set, sizes[_name(replica_set)], notes_too=True)

    async def _resize_all(self, sizes: dict[str, int]) -> bool:
        changed = False
        for scaled_set in [replica_set for replica_set in self.old if _name(replica_set) in sizes]:
            changed = await self._resize(scaled_set, sizes[_name(scaled_set)]) or changed
        return changed

    async def _resize(self, one: Object, size: int, *, notes_too: bool = False) -> bool:
        """Sets a replica set's size, and records the deployment's on it; returns whether it changed.

        `notes_too`: writes the annotations even if the size stays.
        """
        before = replicas(one)
        notes = revisions.size_annotations(self.deployment)
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
            self._tell_scaling("up" if size > before else "down", one, before, size)
        return before != size

    def _replace(self, former: Object, updated: Object) -> None:
        if self.new is former:
            self.new = updated
        else:
            self.old = [updated if replica_set is former else replica_set for replica_set in self.old]

    def _tell_scaling(
        self, direction: str, one: Object, before: int, after: int, *, created: bool = False
    ) -> None:
        if self._event_names_from_first:
            numbers = f"from {before} to {after}"
        else:
            numbers = f"to {after}" if created else f"to {after} from {before}"
        text = f"Scaled {direction} replica set {_name(one)} {numbers}"
        self._recorder.event(self.deployment, "Normal", "ScalingReplicaSet", text)

    # -- the end of a rollout, and what is said about it

    async def _clean_up_if_complete(self) -> None:
        if status.is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._clean_up()

    async def _clean_up(self) -> None:
        for replica_set in revisions.to_clean_up(self.deployment, self.old):
            try:
                await self._client.delete(
                    REPLICA_SETS, _name(replica_set), replica_set["metadata"]["namespace"]
                )
            except StatusError as error:
                if error.code != 404:
                    raise

    async def _note_pause(self) -> None:
        condition = status.paused_condition(self.deployment, self._clock.now())
        if condition is not None:
            await self._note(0, condition)

    def _progressing(self, verdict: str, reason: str, message: str) -> Object:
        return status.new_condition("Progressing", verdict, reason, message, self._clock.now())

    async def _note(self, number: int, condition: Object | None) -> None:
        """Writes a revision (unless 0) and a condition to the deployment, if they changed."""
        deployment = self.deployment
        if number and revisions.revision(deployment) != number:
            annotations = deployment["metadata"].get("annotations") or {}
            metadata = {
                **deployment["metadata"],
                "annotations": {**annotations, revisions.REVISION: str(number)},
            }
            deployment = {**deployment, "metadata": metadata}
        if condition is not None:
            present = deployment.get("status") or {}
            conditions = status.with_updated_condition(present.get("conditions") or [], condition)
            deployment = {**deployment, "status": {**present, "conditions": conditions}}
        if deployment is not self.deployment:
            self.deployment = await self._client.update(DEPLOYMENTS, deployment, "status")

    def _calculated(self) -> Object:
        return status.calculate(
            self.deployment,
            self.sets,
            self.new,
            self._clock.now(),
            counts_terminating=self._counts_terminating,
        )

    async def _report_progress(self) -> None:
        calculated = self._calculated()
        now = self._clock.now()
        await self._write_status(status.with_progress(self.deployment, calculated, self.sets, self.new, now))

    async def _write_status(self, wanted: Object) -> None:
        if _comparable(self.deployment.get("status") or {}) != _comparable(wanted):
            changed = {**self.deployment, "status": wanted}
            self.deployment = await self._client.update(DEPLOYMENTS, changed, "status")


def _name(one: Object) -> str:
    name: str = one["metadata"]["name"]
    return name


def _has_progressing(deployment: Object) -> bool:
    present = (deployment.get("status") or {}).get("conditions") or ()
    return any(found["type"] == "Progressing" for found in present)


def _comparable(found: Object) -> Object:
    """Makes zero and absent equal, as on the wire, except for terminatingReplicas."""
    return {name: value for name, value in found.items() if value or name == "terminatingReplicas"}
