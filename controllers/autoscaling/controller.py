"""The horizontal pod autoscaler of a cluster without metrics: it keeps the limits, and reports missing
metrics.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, 1.36.
"""

from collections.abc import Coroutine
from typing import Any

from kubeskew.apimachinery.client.refs import HORIZONTAL_POD_AUTOSCALERS, Ref
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.autoscaling import status
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError
from kubeskew.controllers.framework.discovery import served_resources

_RESYNC_SECONDS = 15.0


class HorizontalController(Controller):
    name = "horizontal-pod-autoscaler-controller"
    component = "horizontal-pod-autoscaler"
    queue_name = "horizontalpodautoscaler"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._autoscalers = context.informer(HORIZONTAL_POD_AUTOSCALERS)
        self._autoscalers.add_handler(self.enqueue, self._changed)
        self._refs: dict[tuple[str, str], Ref] = {}

    def _changed(self, old: Object, new: Object) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"] or old["spec"] != new["spec"]:
            self.enqueue(new)

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
        """Scales the target into its limits, or reports that there are no metrics."""
        spec = autoscaler["spec"]
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        least = spec.get("minReplicas")
        found["currentReplicas"] = current
        if current == 0 and least != 0:
            why = "scaling is disabled since the replica count of the target is zero"
            self._condition(found, status.SCALING_ACTIVE, "False", "ScalingDisabled", why)
            found["desiredReplicas"] = 0
            return
        wanted = status.rescaling(current, 1 if least is None else least, spec["maxReplicas"])
        if wanted is None:
            self._unmeasured(autoscaler, found)
            return
        size, why = wanted
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
        found |= {"desiredReplicas": size, "lastScaleTime": timestamp(self.clock.now())}

    def _unmeasured(self, autoscaler: Object, found: Object) -> None:
        metrics = autoscaler["spec"].get("metrics") or []
        failures = [status.failure(metric) for metric in metrics]
        found.setdefault("desiredReplicas", 0)
        found["currentMetrics"] = [{"type": ""} for _ in metrics]
        if not failures:
            return
        for reason, why, _ in failures:
            self.recorder.event(autoscaler, "Warning", reason, why)
        reason, why, summary = failures[0]
        message = f"the HPA was unable to compute the replica count: {why}"
        self._condition(found, status.SCALING_ACTIVE, "False", reason, message)
        count = len(failures)
        why = f"invalid metrics ({count} invalid out of {count}), first error is: {summary}"
        self.recorder.event(autoscaler, "Warning", "FailedComputeMetricsReplicas", why)

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
