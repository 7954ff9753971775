"""Resizes pods in place: what their containers have been given, and what becomes of a changed request.

The fake runtime gives what is allocated at once, so a resize is never seen in progress.

Source: pkg/kubelet/allocation/allocation_manager.go, kuberuntime_manager.go (computePodResizeAction), 1.36.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation.admission import Rejection

_MUTABLE = ("cpu", "memory")
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
RETRY_SECONDS = 10.0  # seconds until a deferred resize is tried again


class PendingResize(NamedTuple):
    """The reason and message of the condition PodResizePending, for a resize that is not done yet."""

    reason: str
    message: str


class FitCheck(NamedTuple):
    """Decides whether the node has room for a pod, beside the others and if it were alone."""

    beside_others: Callable[[Object], Rejection | None]
    alone: Callable[[Object], Rejection | None]


class Resizer:
    """One pod's allocation; `known` is what an earlier kubelet gave its containers."""

    def __init__(self, known: Mapping[str, Object] | None = None) -> None:
        self._allocated: dict[str, Object] = dict(known or {})
        self.pending: PendingResize | None = None

    def resize(self, pod: Object, fit_check: FitCheck | None) -> list[str]:
        """Allocates what the pod requests now if the node has it; returns the containers that must restart
        for it."""
        wanted = _resources(pod)
        # of containers that are new, and of those that are never resized
        self._allocated = {name: self._allocated.get(name, asked) for name, asked in wanted.items()}
        if wanted == self._allocated or fit_check is None:
            self.pending = None
            return []
        alone = fit_check.alone(pod)
        if alone is not None and alone.reason.startswith("OutOf"):
            message = alone.message.replace("enough resource:", "enough capacity:").replace(" used: 0,", "")
            self.pending = PendingResize(INFEASIBLE, message)
            return []
        crowded = fit_check.beside_others(pod)
        if crowded is not None and crowded.reason.startswith("OutOf"):
            self.pending = PendingResize(DEFERRED, crowded.message)
            return []
        self.pending = None
        before, self._allocated = self._allocated, wanted
        return [
            spec["name"]
            for spec in pod_spec.all_containers(pod)
            if _needs_restart(spec, before.get(spec["name"]) or {}, wanted[spec["name"]])
        ]

    def allocated(self, pod: Object) -> Object:
        """Returns the pod with the resources that it has been given."""
        if all(self._allocated.get(name, asked) == asked for name, asked in _resources(pod).items()):
            return pod
        shown = copy.deepcopy(pod)
        for spec in pod_spec.all_containers(shown):
            resources = self._allocated.get(spec["name"])
            if resources is not None:
                spec["resources"] = resources
        return shown


def _resources(pod: Object) -> dict[str, Object]:
    return {spec["name"]: spec.get("resources") or {} for spec in pod_spec.all_containers(pod)}


def _needs_restart(spec: Object, before: Object, after: Object) -> bool:
    policies = {policy["resourceName"]: policy["restartPolicy"] for policy in spec.get("resizePolicy") or []}
    return any(
        policies.get(name) == "RestartContainer" and _amounts(before, name) != _amounts(after, name)
        for name in _MUTABLE
    )


def _amounts(resources: Object, name: str) -> list[Any]:
    return [(resources.get(kind) or {}).get(name) for kind in ("requests", "limits")]
