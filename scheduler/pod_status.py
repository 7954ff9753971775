"""Writes the status of pods for all of the scheduler, and reports how an attempt ended: by events and by the
PodScheduled condition.

Source: k8s.io/kubernetes/pkg/scheduler/util, PatchPodStatus, 1.36.
"""

import errno
from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo

_PAUSES_SECONDS = (0.01, 0.05, 0.25)  # client-go, retry.DefaultBackoff
_PASSING = frozenset({"InternalError", "ServiceUnavailable"})
_NOTE_LIMIT = 1024  # characters of an event, with the ellipsis


async def patch_pod_status(client: APIClient, clock: Clock, pod: PodInfo, body: dict[str, Any]) -> None:
    """Patches the status; repeats after server errors and refused connections.

    Then raises StatusError or a connection error.
    """
    for pause in _PAUSES_SECONDS:
        try:
            await _patch(client, pod, body)
        except (StatusError, *CONNECTION_ERRORS) as error:
            if not _is_passing(error):
                raise
        else:
            return
        await clock.sleep(pause)
    await _patch(client, pod, body)


async def _patch(client: APIClient, pod: PodInfo, body: dict[str, Any]) -> None:
    await client.patch(PODS, pod.name, pod.namespace, body, STRATEGIC_PATCH, subresource="status")


def _is_passing(error: Exception) -> bool:
    if isinstance(error, StatusError):
        return error.reason in _PASSING
    return getattr(error, "errno", None) == errno.ECONNREFUSED


class FailureHandler:
    def __init__(
        self,
        client: APIClient,
        recorders: Mapping[str, EventRecorder],
        clock: Clock,
        features: SchedulerFeatures,
    ) -> None:
        """`recorders` are by scheduler name: events appear under the name that the pod gives."""
        self._features = features
        self._client = client
        self._recorders = recorders
        self._clock = clock

    def scheduled(self, pod: PodInfo, node: str) -> None:
        message = f"Successfully assigned {pod.key} to {node}"
        self._recorders[pod.scheduler_name].event(pod.pod, "Normal", "Scheduled", message, action="Binding")

    def skipped(self, pod: PodInfo) -> None:
        """The pod is being deleted (skipPodSchedule in pkg/scheduler/schedule_one.go, 1.26 to 1.36)."""
        note = f"skip schedule deleting pod: {pod.key}"
        recorder = self._recorders[pod.scheduler_name]
        recorder.event(pod.pod, "Warning", "FailedScheduling", note, action="Scheduling")

    async def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nominated_node: str | None
    ) -> None:
        """Writes an event, and the pod's condition if it changed; raises StatusError or a connection
        error."""
        note = message if len(message) <= _NOTE_LIMIT else message[: _NOTE_LIMIT - 4] + " ..."
        recorder = self._recorders[pod.scheduler_name]
        recorder.event(pod.pod, "Warning", "FailedScheduling", note, action="Scheduling")
        status: Object = {}
        condition = self._condition(pod.pod, reason, message)
        if condition is not None:
            status["conditions"] = [condition]
        current = (pod.pod.get("status") or {}).get("nominatedNodeName") or ""
        if nominated_node is not None and nominated_node != current:
            status["nominatedNodeName"] = nominated_node or None
        if status:
            body = {"metadata": {"uid": pod.uid}, "status": status}
            await patch_pod_status(self._client, self._clock, pod, body)

    def _condition(self, pod: Object, reason: str, message: str) -> Object | None:
        """None if the pod has the condition already."""
        old = find_condition(pod, "PodScheduled") or {}
        new = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        generation = pod["metadata"].get("generation")
        if self._features.observed_generation and generation:
            new["observedGeneration"] = generation
        if all(old.get(key) == value for key, value in new.items()):
            return None
        lasts = old.get("status") == "False"  # then its time stays, even if there is none
        since = old.get("lastTransitionTime") if lasts else timestamp(self._clock.now())
        return {**new, "lastProbeTime": None, "lastTransitionTime": since}
