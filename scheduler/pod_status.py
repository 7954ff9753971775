"""Writes the status of pods for all of the scheduler.

Source: k8s.io/kubernetes/pkg/scheduler/util, PatchPodStatus, 1.36.
"""

import errno
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.scheduler.framework.pod_info import PodInfo

_PAUSES_SECONDS = (0.01, 0.05, 0.25)  # client-go, retry.DefaultBackoff
_PASSING = frozenset({"InternalError", "ServiceUnavailable"})


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
