"""Reads the usage of pods from the API metrics.k8s.io.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/metrics/client.go, 1.36; k8s.io/client-go for the texts
of answers that are no Status.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity

_POD_METRICS = Ref("metrics.k8s.io", "v1beta1", "pods", True, "PodMetrics")
_GENERIC = {
    404: "the server could not find the requested resource",
    503: "the server is currently unable to handle the request",
}


class MetricError(Exception):
    """No number of replicas can be computed from the metric; the text says why."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    """The pod used `value` thousandths in the time `window` that ended `at`."""

    value: int
    at: datetime
    window: timedelta


async def resource_metrics(
    client: APIClient,
    resource: str,
    namespace: str,
    selector: str,
    container: str,
    *,
    needs_container: bool,
) -> dict[str, PodMetric]:
    """Sums the usage of each pod's containers, or takes the named one; pods without metrics are absent.

    `needs_container`: metrics of a pod without that container are an error; else the pod is left out. Raises
    MetricError.
    """
    try:
        found = await client.list(_POD_METRICS, namespace, selector)
    except (StatusError, *CONNECTION_ERRORS) as error:
        raise MetricError(f"unable to fetch metrics from resource metrics API: {_text(error)}") from error
    items: Sequence[Object] = found["items"]
    if not items:
        raise MetricError("no metrics returned from resource metrics API")
    metrics = {}
    for item in items:
        if container and needs_container and container not in _containers(item):
            raise MetricError(f"failed to get container metrics: {_missing(item, container)}")
        value = _of_container(item, resource, container) if container else _of_pod(item, resource)
        if value is not None:
            window = timedelta(seconds=parse_duration(item["window"]))
            metrics[item["metadata"]["name"]] = PodMetric(value, parse_timestamp(item["timestamp"]), window)
    return metrics


def _text(error: Exception) -> str:
    """Answers that are no Status get client-go's general text and the request."""
    if isinstance(error, StatusError) and not error.details and error.code in _GENERIC:
        return f"{_GENERIC[error.code]} (get pods.metrics.k8s.io)"
    return str(error)


def _of_pod(item: Object, resource: str) -> int | None:
    """The result is None unless all containers have the resource."""
    usages: list[dict[str, Any]] = [container["usage"] for container in item.get("containers") or ()]
    if not usages or any(resource not in usage for usage in usages):
        return None
    return sum(Quantity.parse(usage[resource]).milli_value() for usage in usages)


def _of_container(item: Object, resource: str, container: str) -> int | None:
    """None without that container, or if it has no usage of the resource."""
    amount = _containers(item).get(container, {}).get(resource)
    return None if amount is None else Quantity.parse(amount).milli_value()


def _containers(item: Object) -> dict[str, dict[str, Any]]:
    return {each["name"]: each["usage"] for each in item.get("containers") or ()}


def _missing(item: Object, container: str) -> str:
    pod = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return f"container {container} not present in metrics for pod {pod}"
