"""Keeps changes of replicas within limits: the autoscaler's, its behaviour's, what was recommended lately.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go (normalizeDesiredReplicas…), 1.36.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object

STABILIZATION_SECONDS = 300  # before fewer replicas than recommended lately are believed
_FACTOR, _AT_LEAST = 2.0, 4.0  # how many replicas may come at once without a behaviour
_READY = ("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")

Why = tuple[str, str]  # reason and message of a condition


class Limited(NamedTuple):
    """A number of replicas within the limits: the conditions AbleToScale and ScalingLimited tell of it."""

    replicas: int
    able: Why
    is_limited: bool
    limit: Why


@dataclass(slots=True)
class History:
    """Holds what the controller recommended for one autoscaler, and what it changed, each with its time."""

    recommendations: list[tuple[int, datetime]] = field(default_factory=list)
    ups: list[tuple[int, datetime]] = field(default_factory=list)
    downs: list[tuple[int, datetime]] = field(default_factory=list)

    def begin(self, current: int, now: datetime) -> None:
        """Takes the replicas that there are for the first recommendation."""
        if not self.recommendations:
            self.recommendations = [(current, now)]

    def scaled(self, behaviour: Object | None, before: int, after: int, now: datetime) -> None:
        """Takes note of a change; without a behaviour nobody asks for it."""
        if behaviour is None:
            return
        rules = behaviour["scaleUp" if after > before else "scaleDown"]
        oldest = now - timedelta(seconds=max(policy["periodSeconds"] for policy in rules["policies"]))
        if after > before:
            self.ups = [*_since(self.ups, oldest), (after - before, now)]
        else:
            self.downs = [*_since(self.downs, oldest), (before - after, now)]

    def limit(self, spec: Object, current: int, wanted: int, least: int, now: datetime) -> Limited:
        """Returns how many replicas there may be now, and keeps the recommendation."""
        behaviour = spec.get("behavior")
        if behaviour is None:
            stable, able = self._stabilized(wanted, now)
            replicas, limit = _by_rules(current, stable, least, spec["maxReplicas"])
        else:
            stable, able = self._stabilized_as_wanted(behaviour, current, wanted, now)
            replicas, limit = self._by_behaviour(behaviour, current, stable, least, spec["maxReplicas"], now)
        return Limited(replicas, able, replicas != stable, limit)

    def _stabilized(self, wanted: int, now: datetime) -> tuple[int, Why]:
        """Returns the highest recommendation of late."""
        recent = _since(self.recommendations, now - timedelta(seconds=STABILIZATION_SECONDS), inclusive=True)
        stable = max([wanted, *(count for count, _ in recent)])
        self.recommendations = [*recent, (wanted, now)]
        return stable, _READY if stable == wanted else _DOWN_STABILIZED

    def _stabilized_as_wanted(
        self, behaviour: Object, current: int, wanted: int, now: datetime
    ) -> tuple[int, Why]:
        """Keeps the replicas between the lowest and the highest recommendation of late, in windows of the
        behaviour's."""
        window = behaviour["scaleDown"].get("stabilizationWindowSeconds")
        down = timedelta(seconds=STABILIZATION_SECONDS if window is None else window)
        up = timedelta(seconds=behaviour["scaleUp"]["stabilizationWindowSeconds"])
        lowest = min([wanted, *(count for count, at in self.recommendations if at > now - up)])
        highest = max([wanted, *(count for count, at in self.recommendations if at > now - down)])
        stable = min(max(current, lowest), highest)
        kept = _since(self.recommendations, now - max(up, down), inclusive=True)
        self.recommendations = [*kept, (wanted, now)]
        if stable == wanted:
            return stable, _READY
        return stable, _UP_STABILIZED if wanted >= current else _DOWN_STABILIZED

    def _by_behaviour(
        self, behaviour: Object, current: int, wanted: int, least: int, most: int, now: datetime
    ) -> tuple[int, Why]:
        if wanted > current:
            rate = max(self._most_by_rules(behaviour["scaleUp"], current, now), current)
            limit, why = (rate, _TOO_FAST_UP) if most > rate else (most, _TOO_MANY)
            if wanted > limit:
                return limit, why
        elif wanted < current:
            rate = min(self._least_by_rules(behaviour["scaleDown"], current, now), current)
            limit, why = (rate, _TOO_FAST_DOWN) if least < rate else (least, _TOO_FEW)
            if wanted < limit:
                return limit, why
        return wanted, _WITHIN

    def _most_by_rules(self, rules: Object, current: int, now: datetime) -> int:
        def proposed(policy: Object, before: int) -> int:
            value = int(policy["value"])
            return before + value if policy["type"] == "Pods" else math.ceil(before * (1 + value / 100))

        return self._by_policies(rules, current, now, proposed, max)

    def _least_by_rules(self, rules: Object, current: int, now: datetime) -> int:
        def proposed(policy: Object, before: int) -> int:
            value = int(policy["value"])
            return before - value if policy["type"] == "Pods" else int(before * (1 - value / 100))

        return self._by_policies(rules, current, now, proposed, min)

    def _by_policies(
        self,
        rules: Object,
        current: int,
        now: datetime,
        proposed: Callable[[Object, int], int],
        furthest: Callable[[list[int]], Any],
    ) -> int:
        """Returns what the policies allow: the largest change, or the smallest with `Min`."""
        if rules["selectPolicy"] == "Disabled":
            return current
        nearest = min if furthest is max else max
        select = nearest if rules["selectPolicy"] == "Min" else furthest
        found = []
        for policy in rules["policies"]:
            since = now - timedelta(seconds=policy["periodSeconds"])
            added = sum(count for count, _ in _since(self.ups, since))
            removed = sum(count for count, _ in _since(self.downs, since))
            found.append(proposed(policy, current - added + removed))
        return int(select(found))


def _by_rules(current: int, wanted: int, least: int, most: int) -> tuple[int, Why]:
    fastest = int(max(_FACTOR * current, _AT_LEAST))
    limit, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
    if wanted < least:
        return least, _TOO_FEW
    if wanted > limit:
        return limit, why
    return wanted, _WITHIN


def _since(
    entries: Iterable[tuple[int, datetime]], moment: datetime, *, inclusive: bool = False
) -> list[tuple[int, datetime]]:
    return [(count, at) for count, at in entries if at > moment or (inclusive and at == moment)]
