"""The resources of a container as cgroups take them. Limits of huge pages are left out: a node has none here.

Source: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, pkg/kubelet/qos/policy.go,
pkg/kubelet/cm/helpers_linux.go, 1.31 to 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import ContainerResources
from kubeskew.kubelet.features import ContainerFeatures

_LEAST_SHARES, _MOST_SHARES, _SHARES_PER_CORE = 2, 262144, 1024
_PERIOD, _LEAST_QUOTA = 100_000, 1000  # microseconds
_UNLIMITED = -1
_GUARANTEED, _BEST_EFFORT = -997, 1000
_NODE_CRITICAL, _CRITICAL_PRIORITY = "system-node-critical", 2_000_000_000


def container_resources(
    pod: Object,
    container: Object,
    memory_capacity: int,
    features: ContainerFeatures,
    cpuset: str = "",
) -> ContainerResources:
    """`pod` has what was allocated to it. `cpuset` names the CPUs that are the container's alone."""
    requests = (container.get("resources") or {}).get("requests") or {}
    limit = _limit(pod, container, "cpu", features)
    requested = requests.get("cpu")
    shares = limit if requested is None else _amount(requested)
    quota = 0 if limit.is_zero() else max(limit.milli_value() * _PERIOD // 1000, _LEAST_QUOTA)
    if cpuset and features.unlimited_exclusive_cpus:
        quota = _UNLIMITED
    return ContainerResources(
        cpu_shares=_shares(shares.milli_value()),
        cpu_quota=quota,
        cpu_period=_PERIOD,
        memory_bytes=_limit(pod, container, "memory", features).value(),
        cpuset=cpuset,
        oom_score_adjustment=oom_score_adjustment(pod, container, memory_capacity, features),
    )


def _amount(text: object) -> Quantity:
    return Quantity.parse(str(text or "0"))


def _limit(pod: Object, container: Object, resource: str, features: ContainerFeatures) -> Quantity:
    """The container's own limit, or the pod's."""
    own = _amount(((container.get("resources") or {}).get("limits") or {}).get(resource))
    if not own.is_zero() or not features.pod_level_limits:
        return own
    return _amount(((pod["spec"].get("resources") or {}).get("limits") or {}).get(resource))


def _shares(thousandths: int) -> int:
    return min(max(thousandths * _SHARES_PER_CORE // 1000, _LEAST_SHARES), _MOST_SHARES)


def oom_score_adjustment(
    pod: Object, container: Object, memory_capacity: int, features: ContainerFeatures
) -> int:
    """The kernel kills those with the highest score first when memory is short."""
    if _is_node_critical(pod):
        return _GUARANTEED
    quality = pod_spec.qos_class(pod)
    if quality == "Guaranteed":
        return _GUARANTEED
    if quality == "BestEffort" or memory_capacity <= 0:
        return _BEST_EFFORT
    more = _unassigned(pod) if features.pod_level_limits else 0
    score = _score(_requested(pod, container, features) + more, memory_capacity)
    if features.protects_sidecars and is_sidecar(container) and container in pod_spec.init_containers(pod):
        least = min(_memory(spec) for spec in pod_spec.containers(pod))
        score = min(score, _score(least + more, memory_capacity))
    return min(max(score, 1000 + _GUARANTEED), _BEST_EFFORT - 1)


def _is_node_critical(pod: Object) -> bool:
    is_critical = pod_spec.is_static(pod) or (pod["spec"].get("priority") or 0) >= _CRITICAL_PRIORITY
    return is_critical and pod["spec"].get("priorityClassName") == _NODE_CRITICAL


def _score(memory: int, capacity: int) -> int:
    """Division as in Go, which cuts towards zero; a pod may ask for less than its containers."""
    return 1000 - int(1000 * memory / capacity) if memory < 0 else 1000 - 1000 * memory // capacity


def _memory(container: Object) -> int:
    return _amount(((container.get("resources") or {}).get("requests") or {}).get("memory")).value()


def _requested(pod: Object, container: Object, features: ContainerFeatures) -> int:
    if features.oom_score_by_allocation:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            if status["name"] == container["name"]:
                return _amount((status.get("allocatedResources") or {}).get("memory")).value()
    return _memory(container)


def _unassigned(pod: Object) -> int:
    """Each container's part of the memory that the pod asks for beyond what its containers do."""
    requests = (pod["spec"].get("resources") or {}).get("requests") or {}
    whole = _amount(requests.get("memory"))
    if whole.is_zero():
        return 0
    without = {**pod["spec"], "resources": {}, "overhead": {}}
    containers = pod_spec.pod_requests({**pod, "spec": without}).get("memory", 0) // 1000
    count = len(pod_spec.containers(pod)) + len(pod_spec.init_containers(pod))
    return int((whole.value() - containers) / count)
