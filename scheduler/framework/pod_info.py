"""A pod as the scheduler sees it: its requests and its affinity to other pods, computed once per version of
the object, and the volume claims that it uses.

Source: k8s.io/kubernetes/pkg/scheduler/framework/types.go, AffinityTerm, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from kubeskew.apimachinery.objects import Object, ObjectView
from kubeskew.apimachinery.pod_resources import HostPort, host_ports, is_sidecar, needed_at_once
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.labels import LabelSelector, selector_or_nothing

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Amounts = dict[str, int]  # by resource name; cpu in thousandths, everything else in units
Resized = Mapping[str, Amounts]  # requests of containers, by name, that do not count by their spec

_NONE: Resized = MappingProxyType({})
_NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})

# What a container without a request counts as when nodes are scored (upstream, schedutil).
_LEAST: Mapping[str, int] = MappingProxyType({"cpu": 100, "memory": 200 * 1024 * 1024})


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of affinity: pods by namespace and labels, and the node label that defines "near"."""

    namespaces: frozenset[str]
    selector: LabelSelector
    topology_key: str
    namespace_selector: LabelSelector
    weight: int = 0  # of a preferred term

    @classmethod
    def of(cls, namespace: str, term: ObjectView, weight: int = 0) -> "AffinityTerm":
        """Parses a term; `namespace` is the pod's, for terms that name none.

        A bad selector matches nothing.
        """
        names = frozenset(term.get("namespaces") or ())
        if not names and term.get("namespaceSelector") is None:
            names = frozenset((namespace,))
        selector = selector_or_nothing(term.get("labelSelector"))
        namespaces = selector_or_nothing(term.get("namespaceSelector"))
        return cls(names, selector, term["topologyKey"], namespaces, weight)

    @property
    def key(self) -> str:
        """Terms with equal keys match the same pods; namespace selectors have been resolved to some, all or
        none."""
        everywhere = "*" if self.namespace_selector.is_empty() else ""
        nobody = "" if self.selector.selectable else "!"
        return f"{everywhere}{sorted(self.namespaces)}{nobody}{self.selector}"

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def _required(namespace: str, part: ObjectView | None) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm.of(namespace, term) for term in (part or {}).get(_REQUIRED) or ())


def _preferred(namespace: str, part: ObjectView | None) -> tuple[AffinityTerm, ...]:
    return tuple(
        AffinityTerm.of(namespace, weighted["podAffinityTerm"], weighted["weight"])
        for weighted in (part or {}).get(_PREFERRED) or ()
    )


@dataclass(frozen=True, slots=True)
class PodAffinity:
    required: Sequence[AffinityTerm] = ()
    required_anti: Sequence[AffinityTerm] = ()
    preferred: Sequence[AffinityTerm] = ()
    preferred_anti: Sequence[AffinityTerm] = ()

    @classmethod
    def of(cls, namespace: str, affinity: ObjectView) -> "PodAffinity":
        near, far = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
        if not near and not far:
            return NO_AFFINITY
        return cls(
            _required(namespace, near),
            _required(namespace, far),
            _preferred(namespace, near),
            _preferred(namespace, far),
        )

    @property
    def some(self) -> bool:
        return self is not NO_AFFINITY


NO_AFFINITY = PodAffinity()


def match_all(terms: Iterable[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Pods match only if there is a term at all.

    Namespace selectors have been resolved.
    """
    found = False
    for term in terms:
        if not term.matches(namespace, labels, {}):
            return False
        found = True
    return found


@lru_cache(maxsize=16384)
def amount(name: str, text: str) -> int:
    """cpu is in thousandths, all other resources in whole units, as in `Amounts`."""
    quantity = Quantity.parse(text)
    return quantity.milli_value() if name == "cpu" else quantity.value()


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: amount(name, str(text)) for name, text in (quantities or {}).items()}


def add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + sign * number


def pod_requests(spec: Mapping[str, Any], resized: Resized = _NONE) -> Amounts:
    """Computes what the pod needs at once, with pod-level requests and overhead.

    `resized`: of containers that are being resized (`resized` of `scheduler/event_handlers.py`).
    """
    total = _at_once(spec, "requests", resized)
    total.update(amounts((spec.get("resources") or {}).get("requests")))
    add(total, amounts(spec.get("overhead")))
    return total


def pod_limits(spec: Mapping[str, Any]) -> Amounts:
    """Computes what the pod may use at once; overhead counts where there is a limit (PodLimits)."""
    total = _at_once(spec, "limits")
    total.update(amounts((spec.get("resources") or {}).get("limits")))
    overhead = amounts(spec.get("overhead"))
    add(total, {name: number for name, number in overhead.items() if total.get(name)})
    return total


def _at_once(
    spec: Mapping[str, Any], kind: str, resized: Resized = _NONE, least: Mapping[str, int] = _NO_AMOUNTS
) -> Amounts:
    """`least` counts where a container says nothing."""

    def counted(container: Mapping[str, Any]) -> Amounts:
        found = _counted(container, kind, resized)
        return {**least, **found} if least else found

    return needed_at_once(
        map(counted, spec.get("containers") or ()),
        ((is_sidecar(container), counted(container)) for container in spec.get("initContainers") or ()),
    )


def _counted(container: Mapping[str, Any], kind: str, resized: Resized) -> Amounts:
    known = resized.get(container["name"]) if resized else None
    return _resources(container, kind) if known is None else known


def container_requests(container: Mapping[str, Any]) -> Amounts:
    return _resources(container, "requests")


def _resources(container: Mapping[str, Any], kind: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(kind))


def _scored(spec: Mapping[str, Any], requests: Amounts, resized: Resized) -> Amounts:
    """For scores, containers without requests count as small ones, not as nothing, unless the pod as a whole
    has requests (getNonMissingContainerRequests in pkg/scheduler/framework/types.go)."""
    level = amounts((spec.get("resources") or {}).get("requests"))
    missing = {name: least for name, least in _LEAST.items() if not level or name not in requests}
    if not missing:
        return requests
    total = _at_once(spec, "requests", resized, missing)
    total.update(level)
    add(total, amounts(spec.get("overhead")))
    return total


class PodInfo:
    """A pod and what follows from its spec. The object is shared with the informer: read-only.

    `resized`: of its containers that are being resized (`resized` of `scheduler/event_handlers.py`).
    """

    def __init__(self, pod: Object, resized: Resized = _NONE) -> None:
        self.pod = pod
        self.resized = resized
        metadata = pod["metadata"]
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.spec: Object = pod["spec"]
        self.scheduler_name: str = self.spec.get("schedulerName") or "default-scheduler"
        self.priority: int = self.spec.get("priority") or 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @cached_property
    def requests(self) -> Amounts:
        return pod_requests(self.spec, self.resized)

    @cached_property
    def scored_requests(self) -> Amounts:
        return _scored(self.spec, self.requests, self.resized)

    @cached_property
    def fitting_requests(self) -> Amounts:
        """Amounts that NodeResourcesFit scores: without the requests of the pod as a whole.

        Its strategies are made without enablePodLevelResources (1.33 … 1.36). On the pod's node they count.
        """
        if not self.spec.get("resources"):
            return self.scored_requests
        spec = {name: value for name, value in self.spec.items() if name != "resources"}
        return _scored(spec, pod_requests(spec, self.resized), self.resized)

    @cached_property
    def scored_size(self) -> tuple[int, int]:
        """cpu and memory as they count for scores: pods of one size score alike."""
        return self.fitting_requests["cpu"], self.fitting_requests["memory"]

    @cached_property
    def size(self) -> tuple[int, int]:
        """Thousandths of a cpu, and bytes of memory."""
        return self.requests.get("cpu", 0), self.requests.get("memory", 0)

    @cached_property
    def host_ports(self) -> frozenset[HostPort]:
        return host_ports(self.spec)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return self.pod["metadata"].get("labels") or {}

    @cached_property
    def affinity(self) -> PodAffinity:
        wanted = self.spec.get("affinity")
        return PodAffinity.of(self.namespace, wanted) if wanted else NO_AFFINITY

    @cached_property
    def volume_claims(self) -> tuple[str, ...]:
        return tuple(
            volume["persistentVolumeClaim"]["claimName"]
            if volume.get("persistentVolumeClaim")
            else f"{self.name}-{volume['name']}"
            for volume in self.spec.get("volumes") or ()
            if volume.get("persistentVolumeClaim") or volume.get("ephemeral")
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


def uses_claim(pod: Object, old: Object | None, new: Object | None) -> bool:
    """Queueing hint: a claim of another namespace is never the pod's."""
    changed = new or old
    if changed is None or changed["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    return changed["metadata"]["name"] in PodInfo(pod).volume_claims
