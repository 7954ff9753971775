"""Adds up which points of a control plane the runs of an exploration have reached."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Coverage:
    """Counts runs by the points that they reached, and faults by how often they were drawn and fired.

    A point is a text `GROUP: POINT`, such as `crash: scheduler after update resourceclaims/status`.
    """

    points: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)  # faults, by kind
    fired: Counter[str] = field(default_factory=Counter)

    def add(self, points: Iterable[str], drawn: Mapping[str, int], fired: Mapping[str, int]) -> int:
        """Takes what one run reached; returns how many points no run had reached before."""
        reached = dict.fromkeys(points, 1)
        new = sum(point not in self.points for point in reached)
        self.points.update(reached)
        self.drawn.update(drawn)
        self.fired.update(fired)
        return new

    def as_json(self) -> dict[str, Any]:
        """Returns the numbers of points by group, and by kind of fault how many were drawn and fired."""
        groups = Counter(point.partition(":")[0] for point in self.points)
        return {
            "points": len(self.points),
            "groups": dict(sorted(groups.items())),
            "faults": {
                kind: {"drawn": self.drawn[kind], "fired": self.fired[kind]} for kind in sorted(self.drawn)
            },
        }
