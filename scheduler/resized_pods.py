"""Counts containers that are being resized: with what they ask for, or with what their node gave them.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests with UseStatusResources), 1.33; up to 1.31
pkg/api/v1/resource/helpers.go.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.apimachinery.quota.pod_resources import is_infeasible
from kubeskew.scheduler.features.resizing import ResizingFeatures
from kubeskew.scheduler.framework.pod_info import Amounts, Resized, amounts, container_requests


def resized(pod: Object, features: ResizingFeatures) -> Resized:
    """Returns the containers of a pod on a node that count otherwise than by their spec.

    That is the largest of what a container asks for, was allocated and has; what it asks for does not count
    once the node found that impossible. Raises Panic with 132895.
    """
    if not features.counts:
        return {}
    infeasible = is_infeasible(pod)
    found: dict[str, Amounts] = {}
    for container, status in _reported(pod, features):
        asked = container_requests(container)
        given = amounts(status.get("allocatedResources"))
        if features.actual:
            given = _largest(given, amounts(status["resources"].get("requests")))
        if given and not asked and features.needs_requests:
            raise Panic("assignment to entry in nil map")
        counted = given if infeasible else _largest(asked, given)
        if counted != asked:
            found[container["name"]] = counted
    return found


def _reported(pod: Object, features: ResizingFeatures) -> Iterator[tuple[Object, Object]]:
    """Yields the containers with the statuses that tell of their resources."""
    spec, status = pod["spec"], pod.get("status") or {}
    containers = [*(spec.get("containers") or ())]
    reports = [*(status.get("containerStatuses") or ())]
    if features.sidecars:
        containers += filter(is_sidecar, spec.get("initContainers") or ())
        reports += status.get("initContainerStatuses") or ()
    by_name = {report["name"]: report for report in reports if report.get("resources") is not None}
    for container in containers:
        if container["name"] in by_name:
            yield container, by_name[container["name"]]


def _largest(one: Amounts, other: Amounts) -> Amounts:
    """Returns the larger amount of each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
