"""Reads a kubelet's page `/metrics/resource`.

Source: metrics-server, pkg/scraper/client/resource/decode.go.
"""

import logging
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kubeskew.metricsserver.points import Batch, PodName, Point

log = logging.getLogger(__name__)

_BILLION = 1_000_000_000
# Metric → the field of a point that it is for.
_OF_NODE = {"node_cpu_usage_seconds_total": "cpu", "node_memory_working_set_bytes": "memory"}
_OF_CONTAINER = {
    "container_cpu_usage_seconds_total": "cpu",
    "container_memory_working_set_bytes": "memory",
    "container_start_time_seconds": "started",
}


class PageError(ValueError):
    """A page that is not in Prometheus' text format."""


def decoded(page: str, now: int, node: str) -> Batch:
    """Returns the points of a node's page; those without a time of their own are of `now`. What is incomplete
    is left out. Raises PageError."""
    of_node, pods = Point(), dict[PodName, dict[str, Point]]()
    for sample in _samples(page):
        if sample.name in _OF_NODE:
            of_node = _with(of_node, _OF_NODE[sample.name], sample, now)
        elif sample.name in _OF_CONTAINER:
            labels = sample.labels
            containers = pods.setdefault((labels.get("namespace", ""), labels.get("pod", "")), {})
            name = labels.get("container", "")
            field = _OF_CONTAINER[sample.name]
            containers[name] = _with(containers.get(name, Point()), field, sample, now)
    batch = Batch(pods={pod: points for pod, points in pods.items() if _is_complete(points)})
    if _is_whole(of_node):
        batch.nodes[node] = of_node
    else:
        log.info("Failed getting complete node metric of node %s", node)
    return batch


def _samples(page: str) -> list[Sample]:
    try:
        return [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    except ValueError as error:
        raise PageError(f"failed parsing metrics: {error}") from error


def _with(point: Point, field: str, sample: Sample, now: int) -> Point:
    if field == "started":
        return point._replace(started=int(sample.value * _BILLION))
    at = now if sample.timestamp is None else round(float(sample.timestamp) * 1000) * 1_000_000
    if field == "cpu":
        return point._replace(cpu=int(sample.value * _BILLION), at=at)
    return point._replace(memory=int(sample.value), at=at)


def _is_whole(point: Point) -> bool:
    return bool(point.at and point.cpu and point.memory)


def _is_complete(containers: Mapping[str, Point]) -> bool:
    """Returns whether each container of a pod has processor time and memory: else nothing is known of it."""
    return all(point.cpu and point.memory for point in containers.values())
