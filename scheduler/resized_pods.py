"""Counts containers that are being resized: with what they ask for, or with what their node gave them.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests with UseStatusResources), 1.32 and 1.33; up
to 1.31 pkg/api/v1/resource/helpers.go.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.scheduler.features.resizing import ResizingFeatures
from kubeskew.scheduler.framework.pod_info import Amounts, Resized, amounts, container_requests

_INFEASIBLE = "Infeasible"


def resized(pod: Object, features: ResizingFeatures) -> Resized:
    """Returns the containers of a pod on a node that count otherwise than by their spec.

    That is the largest of what a container asks for, has and was allocated; what it asks for does not count
    once the node found that impossible. Raises Panic with 132895.
    """
    if not features.counts:
        return {}
    infeasible = _is_infeasible(pod, features)
    found: dict[str, Amounts] = {}
    for container, status in _reported(pod, features):
        asked = container_requests(container)
        amounts_given = [asked, *_given(status, features)]
        counted = _largest(amounts_given[infeasible:], features)
        if counted != asked:
            found[container["name"]] = counted
    return found


def _is_infeasible(pod: Object, features: ResizingFeatures) -> bool:
    if features.by_condition:
        return (find_condition(pod, "PodResizePending") or {}).get("reason") == _INFEASIBLE
    return (pod.get("status") or {}).get("resize") == _INFEASIBLE


def _reported(pod: Object, features: ResizingFeatures) -> Iterator[tuple[Object, Object]]:
    """Yields the containers with the statuses that tell of their resources."""
    spec, status = pod["spec"], pod.get("status") or {}
    containers = [*(spec.get("containers") or ())]
    reports = [*(status.get("containerStatuses") or ())]
    if features.sidecars:
        containers += filter(is_sidecar, spec.get("initContainers") or ())
        reports += status.get("initContainerStatuses") or ()
    field = "resources" if features.actual else "allocatedResources"
    by_name = {report["name"]: report for report in reports if report.get(field) is not None}
    for container in containers:
        if container["name"] in by_name:
            yield container, by_name[container["name"]]


def _given(status: Object, features: ResizingFeatures) -> Iterator[Amounts]:
    """Yields what a container has and what it was allocated, as far as a release looks at it."""
    if features.actual:
        yield amounts(status["resources"].get("requests"))
    if features.allocated:
        yield amounts(status.get("allocatedResources"))


def _largest(several: list[Amounts], features: ResizingFeatures) -> Amounts:
    """Returns the largest amount of each resource. Raises Panic if others come to first amounts that are not
    there, with 132895: upstream writes them into a map that was never made."""
    first, *others = several
    if features.needs_requests and not first and any(others):
        raise Panic("assignment to entry in nil map")
    names = dict.fromkeys(name for each in several for name in each)
    return {name: max(each.get(name, 0) for each in several) for name in names}
