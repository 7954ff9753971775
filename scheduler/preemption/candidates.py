"""Chooses the node where preemption costs least.

Source: k8s.io/kubernetes/pkg/scheduler/framework/preemption/preemption.go, 1.36.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import Status
from kubeskew.scheduler.preemption.victims import Candidate, start_time

MIN_PERCENT, MIN_ABSOLUTE = 10, 100  # DefaultPreemptionArgs: nodes that are tried

_PRIORITY_OFFSET = 2**31  # so that a sum of priorities grows with their number


def enough(nodes: int, percent: int = MIN_PERCENT, absolute: int = MIN_ABSOLUTE) -> int:
    """Returns how many candidates end the search."""
    return min(max(nodes * percent // 100, absolute), nodes)


def dry_run(
    nodes: Sequence[NodeInfo], offset: int, wanted: int, attempt: Callable[[NodeInfo], Candidate | Status]
) -> tuple[list[Candidate], dict[str, Status]]:
    """Returns candidates, those without violations first, until there are enough, and why the other nodes
    are none."""
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    statuses: dict[str, Status] = {}
    for index in range(len(nodes)):
        found = attempt(nodes[(offset + index) % len(nodes)])
        if isinstance(found, Status):
            statuses[nodes[(offset + index) % len(nodes)].name] = found
            continue
        (violating if found.violations else clean).append(found)
        if clean and len(clean) + len(violating) >= wanted:
            break
    return [*clean, *violating], statuses


def cost(candidate: Candidate) -> tuple[Any, ...]:
    """Returns the cost, smaller is better: violations, the most important victim, the sum of priorities,
    the number."""
    priorities = [victim.priority for victim in candidate.victims]
    return (
        candidate.violations,
        priorities[0],
        sum(priority + _PRIORITY_OFFSET for priority in priorities),
        len(priorities),
    )


def earliest_start(candidate: Candidate) -> str:
    """Returns when the first of its most important victims started."""
    highest = max(victim.priority for victim in candidate.victims)
    return min(start_time(victim) for victim in candidate.victims if victim.priority == highest)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """Returns the cheapest candidate; among equals the one whose victims started last, then the first."""
    cheapest = min(cost(candidate) for candidate in candidates)
    equals = [candidate for candidate in candidates if cost(candidate) == cheapest]
    return max(equals, key=earliest_start)
