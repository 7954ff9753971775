"""Keeps the last two points of each node and container, between which usage is a rate.

A point has the counters of a node or a container that its kubelet reported at one time.

Source: metrics-server, pkg/storage/{types,node,pod}.go.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PodName = tuple[str, str]  # namespace, name
_BILLION = 1_000_000_000


class Point(NamedTuple):
    """One measurement. Times are nanoseconds since 1970; `cpu` is nano core seconds since the start."""

    started: int = 0
    at: int = 0
    cpu: int = 0
    memory: int = 0


class Usage(NamedTuple):
    """Usage between two points: nano cores, bytes, and end and length of the period in nanoseconds."""

    cpu: int
    memory: int
    at: int
    window: int


class UsageError(ValueError):
    """Two points that cannot be of one run of a node or container."""


@dataclass(slots=True)
class Batch:
    """Points of nodes by name, and of pods' containers by pod and name."""

    nodes: dict[str, Point] = field(default_factory=dict)
    pods: dict[PodName, dict[str, Point]] = field(default_factory=dict)


def usage_between(before: Point, last: Point) -> Usage:
    """Raises UsageError."""
    if last.started < before.started:
        raise UsageError("unexpected decrease in startTime of node/container")
    if last.cpu < before.cpu:
        raise UsageError("unexpected decrease in cumulative CPU usage value")
    window = last.at - before.at
    return Usage(int((last.cpu - before.cpu) / (window / _BILLION)), last.memory, last.at, window)


log = logging.getLogger(__name__)

_FRESH_SECONDS = 10.0  # a container that runs for less has no usage yet

_Points = dict[str, Point]


class PodUsage(NamedTuple):
    """Usage of each container of a pod; time and period are those of the earliest."""

    containers: Mapping[str, Usage]
    at: int
    window: int


class Storage:
    """The points of one server. `resolution` is the seconds between two rounds."""

    def __init__(self, resolution: float) -> None:
        self._resolution = int(resolution * _BILLION)
        self._nodes: tuple[_Points, _Points] = {}, {}  # last ones, and those before
        self._pods: tuple[dict[PodName, _Points], dict[PodName, _Points]] = {}, {}

    @property
    def ready(self) -> bool:
        """True once there is usage of any node and of any pod."""
        return bool(self._nodes[1]) and bool(self._pods[1])

    def store(self, batch: Batch) -> None:
        """Takes new points; nodes and pods without any are forgotten."""
        self._nodes = batch.nodes, self._nodes_before(batch.nodes)
        self._pods = batch.pods, self._pods_before(batch.pods)

    def node(self, name: str) -> Usage | None:
        """None while the usage is not known."""
        last, before = (points.get(name) for points in self._nodes)
        if last is None or before is None:
            return None
        return _usage(before, last, f"node {name}")

    def pod(self, pod: PodName) -> PodUsage | None:
        """None while the usage of a container is not known."""
        last, before = (points.get(pod) for points in self._pods)
        if last is None or before is None or not last.keys() <= before.keys():
            return None
        found = {}
        for name, point in last.items():
            usage = _usage(before[name], point, f"container {name} of pod {pod[0]}/{pod[1]}")
            if usage is not None:
                found[name] = usage
        first = min(found.values(), key=lambda usage: usage.at, default=None)
        return PodUsage(found, first.at, first.window) if first is not None else PodUsage({}, 0, 0)

    def _nodes_before(self, new: Mapping[str, Point]) -> _Points:
        last, before = self._nodes
        found = {}
        for name, point in new.items():
            earlier = _earlier(point, last.get(name), before.get(name))
            if earlier is not None:
                found[name] = earlier
        return found

    def _pods_before(self, new: Mapping[PodName, _Points]) -> dict[PodName, _Points]:
        last, before = self._pods
        found = {}
        for pod, containers in new.items():
            earlier = {}
            for name, point in containers.items():
                known = self._container_before(
                    point, last.get(pod, {}).get(name), before.get(pod, {}).get(name)
                )
                if known is not None:
                    earlier[name] = known
            if earlier:
                found[pod] = earlier
        return found

    def _container_before(self, point: Point, last: Point | None, before: Point | None) -> Point | None:
        """The point before a new one: of a container that began since the last round its start, if that is
        long enough ago; None if it has restarted."""
        age = point.at - point.started
        if _FRESH_SECONDS * _BILLION <= age < self._resolution:
            return point._replace(at=point.started, cpu=0)
        if last is None or point.started >= last.at:
            return None
        return _earlier(point, last, before)


def _earlier(new: Point, last: Point | None, before: Point | None) -> Point | None:
    """The last point, or the one before if the new one is no newer; None if there is neither."""
    if last is None:
        return None
    if new.at > last.at:
        return last
    return before if before is not None and before.at < new.at else None


def _usage(before: Point, last: Point, what: str) -> Usage | None:
    try:
        return usage_between(before, last)
    except UsageError as error:
        log.error("Skipping usage metric of %s: %s", what, error)
        return None
