"""Measures the usage of pods, whose requests and limits are computed as a whole.

Containers run together. Init containers run before them one after the other; sidecars (restartable init
containers) run from their turn to the end. Pod-level resources replace the sums.

Sources: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go, k8s.io/component-helpers/resource/helpers.go,
1.36.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from kubeskew.apimachinery.clock import Clock, parse_timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import (
    IMPLICIT,
    REQUESTS,
    is_extended_resource,
    is_sidecar,
    is_terminal,
    needed_at_once,
)
from kubeskew.apimachinery.quota.amounts import ONE, Amounts, add, amounts, raised
from kubeskew.apimachinery.quota.evaluators import (
    CREATE,
    HUGEPAGES,
    LIMITS,
    UPDATE,
    Evaluator,
    is_extended_in_quota,
    is_implicit_in_quota,
    is_terminating,
    pod_in_scope,
)
from kubeskew.apimachinery.quota.features import PodUsageFeatures

_POD_LEVEL = ("cpu", "memory")
_HUGEPAGES = "hugepages-"
Part = Callable[[Object], Amounts]
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    {
        "count/pods", "pods", *_COMPUTE,
        *(REQUESTS + name for name in _COMPUTE), *(LIMITS + name for name in _COMPUTE),
    }
)  # fmt: skip
# With a quota on one of these, every container must request (or limit) it.
_MUST_SAY = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


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
        """Adds up the containers; pod-level resources replace the sums, where they count."""
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
        """Pod-level resources; during a resize, the larger of spec and status."""
        own = amounts((pod["spec"].get("resources") or {}).get(field))
        status = pod.get("status") or {}
        if own and self.pod_level_resize and self.status and status.get("resources") is not None:
            wanted: Amounts = {} if is_infeasible(pod) else own
            own = raised(wanted, amounts(status["resources"].get(field)))
            if field == "requests":
                own = raised(own, amounts(status.get("allocatedResources")))
        return {name: quantity for name, quantity in own.items() if is_pod_level(name)}


def _counted(container: Object, running: dict[str, Object], field: str, *, infeasible: bool) -> Amounts:
    """The largest of requested, allocated and actual resources."""
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
    """True if the node refused the pod's resize for good: the new spec does not count then."""
    status = pod.get("status") or {}
    if status.get("resize") == "Infeasible":
        return True
    return (find_condition(pod, "PodResizePending") or {}).get("reason") == "Infeasible"


def is_pod_level(name: str) -> bool:
    """Only cpu, memory and huge pages may be given for a pod as a whole."""
    return name in _POD_LEVEL or name.startswith(_HUGEPAGES)


class PodEvaluator(Evaluator):
    """Measures pods: their resources count until they have ended; `count/pods` counts all of them."""

    def __init__(self, gates: FeatureGates, clock: Clock) -> None:
        super().__init__(GroupResource("", "pods"))
        self._clock = clock
        self._features = features = PodUsageFeatures.of(gates)
        self._resources = PodResources(
            status=features.status,
            pod_level=features.pod_level,
            pod_level_resize=features.pod_level_resize,
        )

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        if subresource:
            return subresource == "resize" and operation == UPDATE
        if operation == UPDATE and old is not None:
            return self._features.resized_by_update or self._changes_scope(old, new)
        return operation == CREATE

    def matching(self, names: Iterable[str]) -> list[str]:
        return [
            name
            for name in names
            if name in _NAMES
            or name.startswith((HUGEPAGES, REQUESTS + HUGEPAGES))
            or is_extended_in_quota(name)
            or (self._features.implicit_names and is_implicit_in_quota(name))
        ]

    def missing(self, required: Collection[str], obj: Object) -> str:
        spec = obj["spec"]
        if self._resources.pod_level and _has_pod_level(spec):
            return ""
        needed = _MUST_SAY.intersection(required)
        lacking: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            said = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
            for name in sorted(needed - said.keys()):
                lacking.setdefault(name, set()).add(container.get("name") or "")
        if not lacking:
            return ""
        parts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
        return f"must specify {'; '.join(parts)}"

    def in_scope(self, selector: Object, obj: Object) -> bool:
        return pod_in_scope(selector, obj)

    def usage(self, obj: Object) -> Amounts:
        counted = {"count/pods": ONE}
        if not self.is_charged(obj):
            return counted
        requests, limits = self._resources.requests(obj), self._resources.limits(obj)
        return add(counted, {**_compute(requests, limits), **self._extended(requests)})

    def _extended(self, requests: Amounts) -> Amounts:
        return {
            REQUESTS + name: quantity
            for name, quantity in requests.items()
            if is_extended_resource(name) or (self._features.implicit_names and name.startswith(IMPLICIT))
        }

    def is_charged(self, pod: Object) -> bool:
        """A pod counts until its end, or its grace period's end, even if it still exists."""
        if is_terminal(pod):
            return False
        metadata = pod["metadata"]
        deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
        if deleted is None or grace is None:
            return True
        return self._clock.now() <= parse_timestamp(deleted) + timedelta(seconds=grace)

    def freed(self, old: Object, new: Object) -> bool:
        """True if the quotas are to be measured again after a change of a pod.

        Source: pkg/quota/v1/install/update_filter.go, 1.31 to 1.36.
        """
        if self._features.resize_frees and _statuses_differ(old, new):
            return True
        return self._changes_scope(old, new) or (self.is_charged(old) and not self.is_charged(new))

    def _changes_scope(self, old: Object, new: Object) -> bool:
        return self._features.sees_scope_changes and is_terminating(old) != is_terminating(new)


def _statuses_differ(old: Object, new: Object) -> bool:
    for field in ("containerStatuses", "initContainerStatuses"):
        before, after = (
            {status["name"]: status.get("resources") for status in (pod.get("status") or {}).get(field) or ()}
            for pod in (old, new)
        )
        if any(before[name] != after[name] for name in before.keys() & after.keys()):
            return True
    return False


def _has_pod_level(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return any(is_pod_level(name) for field in ("requests", "limits") for name in resources.get(field) or ())


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    found = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[REQUESTS + name] = requests[name]
        if name in limits:
            found[LIMITS + name] = limits[name]
    for name, quantity in requests.items():
        if name.startswith(HUGEPAGES):
            found[name] = found[REQUESTS + name] = quantity
    return found
