"""Computes the requests and limits of a pod as a whole.

Containers run together. Init containers run before them one after the other; sidecars (restartable init
containers) run from their turn to the end. Pod-level resources replace the sums.

Source: k8s.io/component-helpers/resource/helpers.go, 1.36.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, needed_at_once
from kubeskew.apimachinery.quota.amounts import Amounts, add, amounts, raised

_POD_LEVEL = ("cpu", "memory")
_HUGEPAGES = "hugepages-"
Part = Callable[[Object], Amounts]


@dataclass(frozen=True, slots=True)
class PodResources:
    """Computes requests and limits of pods.

    `status`: a container counts with the larger of spec and status. `pod_level`: the pod's own resources
    replace the sums; `pod_level_resize`: these may be resized themselves. `overhead`: the overhead of the
    runtime class is added.
    """

    status: bool = False
    pod_level: bool = False
    pod_level_resize: bool = False
    overhead: bool = True

    @classmethod
    def of(cls, gates: FeatureGates) -> "PodResources":
        """Returns the computation that quotas use at a version with these gates."""
        return cls(
            status=gates.enabled("InPlacePodVerticalScaling"),
            pod_level=gates.enabled("PodLevelResources"),
            pod_level_resize=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        )

    def requests(self, pod: Object) -> Amounts:
        total = self._aggregated(pod, "requests")
        overhead = amounts(pod["spec"].get("overhead")) if self.overhead else {}
        return add(total, overhead) if overhead else total

    def limits(self, pod: Object) -> Amounts:
        total = self._aggregated(pod, "limits")
        overhead = amounts(pod["spec"].get("overhead")) if self.overhead else {}
        limited = {name: more for name, more in overhead.items() if name in total and total[name].sign()}
        return add(total, limited) if limited else total

    def _aggregated(self, pod: Object, field: str) -> Amounts:
        """Returns the sum of the containers, or the resources of the whole pod."""
        spec = pod["spec"]
        running = self._running(pod)
        infeasible = bool(running) and is_infeasible(pod)

        def counted(container: Object) -> Amounts:
            return _counted(container, running, field, infeasible=infeasible)

        total = needed_at_once(
            map(counted, spec.get("containers") or ()),
            (
                (True, counted(container)) if is_sidecar(container) else (False, _asked(container, field))
                for container in spec.get("initContainers") or ()
            ),
        )
        return {**total, **self._own(pod, field)} if self.pod_level else total

    def _running(self, pod: Object) -> dict[str, Object]:
        """Returns the statuses of containers, by name, if they count."""
        status = pod.get("status") or {}
        if not self.status:
            return {}
        fields = ("initContainerStatuses", "containerStatuses")
        return {
            container_status["name"]: container_status
            for name in fields
            for container_status in status.get(name) or ()
        }

    def _own(self, pod: Object, field: str) -> Amounts:
        """Returns the pod-level resources; during a resize, the larger of spec and status."""
        own = amounts((pod["spec"].get("resources") or {}).get(field))
        status = pod.get("status") or {}
        if own and self.pod_level_resize and self.status and status.get("resources") is not None:
            wanted: Amounts = {} if is_infeasible(pod) else own
            own = raised(wanted, amounts(status["resources"].get(field)))
            if field == "requests":
                own = raised(own, amounts(status.get("allocatedResources")))
        return {name: quantity for name, quantity in own.items() if is_pod_level(name)}


def _counted(container: Object, running: dict[str, Object], field: str, *, infeasible: bool) -> Amounts:
    """Returns the resources that a container counts with: the largest of requested, allocated and actual
    ones."""
    asked = _asked(container, field)
    found = running.get(container.get("name") or "")
    if found is None or found.get("resources") is None:
        return asked
    has = amounts(found["resources"].get(field))
    if field == "requests":
        has = raised(has, amounts(found.get("allocatedResources")))
    return has if infeasible else raised(asked, has)


def _asked(container: Object, field: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(field))


def is_infeasible(pod: Object) -> bool:
    """Returns whether the node refused the pod's resize for good: the new spec does not count then."""
    status = pod.get("status") or {}
    if status.get("resize") == "Infeasible":
        return True
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def is_pod_level(name: str) -> bool:
    """Returns whether a resource may be given for a pod as a whole."""
    return name in _POD_LEVEL or name.startswith(_HUGEPAGES)
