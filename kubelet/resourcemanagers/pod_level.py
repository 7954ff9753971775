"""Pods that ask for resources as a whole: what of them is for one container alone, and what its others share.

The resources of a node are as its managers see them.

Source: KEP-5526 and validatePodScopeResources and AllocatePod in pkg/kubelet/cm/cpumanager/policy_static.go
and memorymanager/policy_static.go, 1.36.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.features import PodLevelFeatures

T = TypeVar("T")

POD_SCOPE = "pod"
_QOS = ("cpu", "memory")

Amounts = Mapping[str, int]
Exclusive = Callable[[Object], Amounts]  # what a container has for itself; empty: it shares


UNMANAGED = PodLevelFeatures(managed=False, noted=False, reallocates_cpus=False, reallocates_memory=False)


class NodeAmounts(NamedTuple):
    """Holds what a node has, and what of it is not for pods, as quantities."""

    capacity: Mapping[str, str]
    reserved: Mapping[str, str]


class PoolTexts(NamedTuple):
    """Texts for a pod whose whole is too little, with `{name}` of a resource, `{asked}` and `{left}`."""

    too_large: str
    nothing_for_init_containers: str
    nothing_to_share: str


def asks_as_a_whole(pod: Object) -> bool:
    return bool(pod["spec"].get("resources"))


def may_have_some_alone(pod: Object, container: Object) -> bool:
    """A container's requests have to be its limits, which counts where the pod's class is of its own
    resources (IsContainerEquivalentQOSGuaranteed)."""
    if not asks_as_a_whole(pod):
        return True
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return all(
        name in requests and name in limits and _positive(limits[name]) == _positive(requests[name]) != 0
        for name in _QOS
    )


def _positive(amount: object) -> int:
    return max(0, Quantity.parse(str(amount)).milli_value())


def pool_error(pod: Object, whole: Amounts, exclusive: Exclusive, texts: PoolTexts) -> str:
    """An empty text means that the pod asks for enough as a whole; else it says what is too little for which
    container.

    A container that shares has to have something left, or it would run on what all pods of the node share.
    """
    shares, taken = False, dict.fromkeys(whole, 0)
    for container in pod_spec.init_containers(pod):
        asked = exclusive(container)
        if is_sidecar(container):
            shares |= not asked
            taken = _more(taken, asked)
            continue
        for name, total in whole.items():
            left = total - taken[name]
            if asked.get(name, 0) > left:
                return texts.too_large.format(name=name, asked=asked[name], left=left)
            if not asked and left <= 0:
                return texts.nothing_for_init_containers.format(name=name)
    for container in pod_spec.containers(pod):
        asked = exclusive(container)
        shares |= not asked
        taken = _more(taken, asked)
    full = [name for name, total in whole.items() if taken[name] >= total]
    return texts.nothing_to_share.format(name=full[0]) if shares and full else ""


def _more(taken: Amounts, asked: Amounts) -> dict[str, int]:
    return {name: amount + asked.get(name, 0) for name, amount in taken.items()}


def divided(
    pod: Object, whole: T, take: Callable[[T, Object], T | None], less: Callable[[T, T], T]
) -> dict[str, T]:
    """Divides what the pod was given as a whole among its containers.

    Init containers, which end, have what the sidecars before them leave; the others share what no container
    has for itself. `take` returns a container's own part of what is left, None for one that shares; `less`
    returns what is left without a part.
    """
    parts: dict[str, T] = {}
    left = whole
    for container in pod_spec.init_containers(pod):
        own, stays = take(left, container), is_sidecar(container)
        if own is not None or not stays:
            parts[container["name"]] = left if own is None else own
        if own is not None and stays:
            left = less(left, own)
    for container in pod_spec.containers(pod):
        own = take(left, container)
        if own is not None:
            parts[container["name"]] = own
            left = less(left, own)
    every = (*pod_spec.init_containers(pod), *pod_spec.containers(pod))
    return {container["name"]: parts.get(container["name"], left) for container in every}
