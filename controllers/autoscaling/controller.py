"""The controller of horizontal pod autoscalers: every 15 seconds it scales their targets by what pods use.

A new autoscaler, or a changed one, is looked at once at first.
Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, 1.36.
"""

from collections.abc import Coroutine
from typing import Any

from kubeskew.apimachinery.client.refs import HORIZONTAL_POD_AUTOSCALERS, PODS, Ref
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.autoscaling import status
from kubeskew.controllers.autoscaling.features import AutoscalerFeatures
from kubeskew.controllers.autoscaling.limits import History
from kubeskew.controllers.autoscaling.proposing import Proposals, Proposer
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError, key_of
from kubeskew.controllers.framework.discovery import served_resources

_RESYNC_SECONDS = 15.0


class HorizontalController(Controller):
    name = "horizontal-pod-autoscaler-controller"
    component = "horizontal-pod-autoscaler"
    queue_name = "horizontalpodautoscaler"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._autoscalers = context.informer(HORIZONTAL_POD_AUTOSCALERS)
        self._autoscalers.add_handler(self.enqueue, self._changed, self._deleted)
        self._refs: dict[tuple[str, str], Ref] = {}
        self._features = AutoscalerFeatures.of(self.environment.version, self.environment.gates)
        self._proposer = Proposer(self.client, context.informer(PODS), self.clock, self._features)
        self._histories: dict[Key, History] = {}

    def _changed(self, old: Object, new: Object) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"] or old["spec"] != new["spec"]:
            self.enqueue(new)

    def _deleted(self, autoscaler: Object) -> None:
        self._histories.pop(key_of(autoscaler), None)
        self._proposer.forget(key_of(autoscaler))

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._resync()]

    async def _resync(self) -> None:
        while True:
            await self.clock.sleep(_RESYNC_SECONDS)
            for autoscaler in self._autoscalers.list():
                self.enqueue(autoscaler)

    async def sync(self, key: Key) -> None:
        autoscaler = self._autoscalers.get(*key)
        if autoscaler is None:
            return
        found = dict(autoscaler.get("status") or {})
        found["conditions"] = list(found.get("conditions") or ())
        try:
            ref = await self._target(autoscaler)
            scale = await self._scale(ref, autoscaler)
        except (StatusError, SyncError) as error:
            why = str(error) if isinstance(error, SyncError) else error.message
            self.recorder.event(autoscaler, "Warning", "FailedGetScale", why)
            why = f"the HPA controller was unable to get the target's current scale: {why}"
            self._condition(found, status.ABLE_TO_SCALE, "False", "FailedGetScale", why)
            await self._write(autoscaler, found)
            return
        self._condition(found, status.ABLE_TO_SCALE, "True", *status.GOT_SCALE)
        await self._keep(autoscaler, ref, scale, found)
        await self._write(autoscaler, found)

    async def _keep(self, autoscaler: Object, ref: Ref, scale: Object, found: Object) -> None:
        """Scales the target as its limits or its metrics want, and fills in the status."""
        spec = autoscaler["spec"]
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        least = 1 if spec.get("minReplicas") is None else spec["minReplicas"]
        history = self._histories.setdefault(key_of(autoscaler), History())
        history.begin(current, self.clock.now())
        self._set_status(autoscaler, found, current)
        if current == 0 and least != 0:
            why = "scaling is disabled since the replica count of the target is zero"
            self._condition(found, status.SCALING_ACTIVE, "False", "ScalingDisabled", why)
            found["desiredReplicas"] = 0
            return
        limited = status.rescaling(current, least, spec["maxReplicas"])
        if limited is not None:
            await self._rescale(autoscaler, ref, scale, found, *limited)
            return
        proposals = await self._proposer.propose(autoscaler, scale)
        self._tell(autoscaler, found, proposals)
        if proposals.replicas is None:
            return
        wanted, why = proposals.replicas, "All metrics below target"
        if wanted > current:
            why = f"{proposals.metric} above target"
        within = history.limit(spec, current, wanted, least, self.clock.now())
        self._condition(found, status.ABLE_TO_SCALE, "True", *within.able)
        self._condition(found, status.SCALING_LIMITED, str(within.is_limited), *within.limit)
        if within.replicas == current:
            found["desiredReplicas"] = current
            return
        await self._rescale(autoscaler, ref, scale, found, within.replicas, why)

    def _set_status(self, autoscaler: Object, found: Object, current: int) -> None:
        """Begins the status anew, but for what stays."""
        found["currentReplicas"] = current
        found.setdefault("desiredReplicas", 0)
        found.pop("currentMetrics", None)
        if self._features.observed_generation:
            found["observedGeneration"] = autoscaler["metadata"].get("generation", 0)

    def _tell(self, autoscaler: Object, found: Object, proposals: Proposals) -> None:
        """Tells what became of the metrics."""
        for reason, message in proposals.warnings:
            self.recorder.event(autoscaler, "Warning", reason, message)
        if proposals.replicas is None:
            self.recorder.event(autoscaler, "Warning", "FailedComputeMetricsReplicas", proposals.error)
        self._condition(found, status.SCALING_ACTIVE, *proposals.active)
        if proposals.statuses is not None:
            found["currentMetrics"] = proposals.statuses

    async def _rescale(
        self, autoscaler: Object, ref: Ref, scale: Object, found: Object, size: int, why: str
    ) -> None:
        current = found["currentReplicas"]
        try:
            await self.client.update(ref, {**scale, "spec": {"replicas": size}}, "scale")
        except StatusError as error:
            message = f"New size: {size}; reason: {why}; error: {error.message}"
            self.recorder.event(autoscaler, "Warning", "FailedRescale", message)
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            self._condition(found, status.ABLE_TO_SCALE, "False", "FailedUpdateScale", message)
            await self._write(autoscaler, found)
            raise
        message = f"the HPA controller was able to update the target scale to {size}"
        self._condition(found, status.ABLE_TO_SCALE, "True", "SucceededRescale", message)
        self.recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {size}; reason: {why}")
        now = self.clock.now()
        self._histories[key_of(autoscaler)].scaled(autoscaler["spec"].get("behavior"), current, size, now)
        found |= {"desiredReplicas": size, "lastScaleTime": timestamp(now)}

    def _condition(self, found: Object, kind: str, value: str, reason: str, message: str) -> None:
        now = self.clock.now()
        found["conditions"] = with_condition(
            found["conditions"], status.new_condition(kind, value, reason, message, now)
        )

    async def _write(self, autoscaler: Object, found: Object) -> None:
        if found != (autoscaler.get("status") or {}):
            new = {**autoscaler, "status": found}
            await self.client.update(HORIZONTAL_POD_AUTOSCALERS, new, "status")

    async def _scale(self, ref: Ref, autoscaler: Object) -> Object:
        target = autoscaler["spec"]["scaleTargetRef"]
        namespace = autoscaler["metadata"]["namespace"]
        return await self.client.get(ref, target["name"], namespace, subresource="scale")

    async def _target(self, autoscaler: Object) -> Ref:
        """Returns the resource of the target's kind; raises SyncError."""
        target = autoscaler["spec"]["scaleTargetRef"]
        group = target.get("apiVersion", "").rpartition("/")[0]
        key = group, target["kind"]
        if key not in self._refs:
            served = await served_resources(self.client)
            self._refs = {
                (resource.ref.group, resource.ref.kind): resource.ref
                for resource in served
                if resource.preferred
            }
        if key not in self._refs:
            why = f'no matches for kind "{target["kind"]}" in group "{group}"'
            raise SyncError(f"unable to determine resource for scale target reference: {why}")
        return self._refs[key]
