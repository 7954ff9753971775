"""Chooses among templates: the one that wastes the smallest share of cpu and memory, the first of equal ones.

Source: cluster-autoscaler 1.35, expander/waste/waste.go (`--expander=least-waste`, the default); there a
random one of equal ones is chosen.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kubeskew.scheduler.autoscaling.templates import NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo, amounts


class Option(NamedTuple):
    """A template, how many of its nodes would be added, and the pods that would get a node."""

    template: NodeTemplate
    nodes: int
    pods: Sequence[PodInfo]


def least_waste(options: Sequence[Option]) -> Option:
    """Returns the best of the options, of which there is at least one."""
    return min(options, key=_wasted)


def _wasted(option: Option) -> float:
    capacity = amounts((option.template.node.get("status") or {}).get("capacity"))
    return sum(_share(option, capacity.get(name, 0), name) for name in ("cpu", "memory"))


def _share(option: Option, capacity: int, name: str) -> float:
    available = capacity * option.nodes
    requested = sum(pod.requests.get(name, 0) for pod in option.pods)
    return (available - requested) / available if available else 0.0
