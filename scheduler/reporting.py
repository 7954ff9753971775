"""Reports how an attempt ended, for people and for other components: events and the PodScheduled
condition."""

from collections.abc import Mapping

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.features.scheduler import SchedulerFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.pod_status import patch_pod_status

_NOTE_LIMIT = 1024  # characters of an event, with the ellipsis


class FailureHandler:
    """Reports by API calls."""

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
        """Returns the new PodScheduled condition; None if the pod has it already."""
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
