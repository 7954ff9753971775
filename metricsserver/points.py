"""Holds what kubelets told at one time: points, each with counters of a node or a container.

Source: metrics-server, pkg/storage/types.go.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

PodName = tuple[str, str]  # namespace, name
_BILLION = 1_000_000_000


class Point(NamedTuple):
    """Holds one measurement. Times are nanoseconds since 1970; `cpu` is nano core seconds since the start."""

    started: int = 0
    at: int = 0
    cpu: int = 0
    memory: int = 0


class Usage(NamedTuple):
    """Holds what was used between two points: nano cores, bytes, and both of the period in nanoseconds."""

    cpu: int
    memory: int
    at: int
    window: int


class UsageError(ValueError):
    """Two points that cannot be of one run of a node or container."""


@dataclass(slots=True)
class Batch:
    """Holds the points of nodes by name, and of pods' containers by pod and name."""

    nodes: dict[str, Point] = field(default_factory=dict)
    pods: dict[PodName, dict[str, Point]] = field(default_factory=dict)


def usage_between(before: Point, last: Point) -> Usage:
    """Returns the usage from one point to the next. Raises UsageError."""
    if last.started < before.started:
        raise UsageError("unexpected decrease in startTime of node/container")
    if last.cpu < before.cpu:
        raise UsageError("unexpected decrease in cumulative CPU usage value")
    window = last.at - before.at
    return Usage(int((last.cpu - before.cpu) / (window / _BILLION)), last.memory, last.at, window)
