"""PrioritySort: higher priority first, then the pod that waited longer."""

from typing import Any

from kubeskew.scheduler.framework.pod_info import PodInfo

NAME = "PrioritySort"


class PrioritySort:
    name = NAME

    def sort_key(self, pod: PodInfo, enqueued: float) -> tuple[Any, ...]:
        return (-pod.priority, enqueued)
