"""VolumeRestrictions: checks volumes that only one pod may use, or only one on a node.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, uses_claim
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.volumes import Volumes

NAME = "VolumeRestrictions"

_DISK_TAKEN = unschedulable("node(s) had no available disk")
# Kinds of volumes, the fields that identify a disk, and whether readers may share it.
_DISKS: Sequence[tuple[str, tuple[str, ...], bool]] = (
    ("gcePersistentDisk", ("pdName",), True),
    ("awsElasticBlockStore", ("volumeID",), False),
    ("iscsi", ("iqn",), True),
    ("rbd", ("image", "pool"), True),
)


@dataclass(slots=True)
class _State:
    exclusive: frozenset[str]  # claims that only one pod may use, as namespace/name
    users: int  # uses of them by other pods

    def clone(self) -> "_State":
        return replace(self)


class VolumeRestrictions:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._cache = handle.cache
        self._volumes = Volumes(handle)
        self._claim_taken = unschedulable(handle.features.claim_taken)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)),
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD)),
            EventHint(ClusterEvent(EventResource.CLAIM, Action.ADD), uses_claim),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        exclusive = set()
        for volume in pod.spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name is None:
                continue
            claim = self._volumes.claim(pod.namespace, name)
            if claim is None:
                return PreFilterResult(unresolvable(f'persistentvolumeclaim "{name}" not found'))
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
                exclusive.add(f"{pod.namespace}/{name}")
        if not exclusive and not any(_disks(pod.spec)):
            return PreFilterResult(SKIP)
        users = sum(1 for node in self._cache.nodes() for claim in exclusive if claim in node.claims)
        state.write(NAME, _State(frozenset(exclusive), users))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        own: _State = state.read(NAME)
        own.users += _uses(own, other)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        own: _State = state.read(NAME)
        own.users -= _uses(own, other)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: _State = state.read(NAME)
        wanted = _disks(pod.spec)
        if wanted and any(
            _same(kind, mine, theirs)
            for kind, mine in wanted
            for other in node.pods.values()
            for other_kind, theirs in _disks(other.spec)
            if kind == other_kind
        ):
            return _DISK_TAKEN
        return self._claim_taken if own.users > 0 else SUCCESS


def _uses(own: _State, other: PodInfo) -> int:
    return sum(1 for name in other.volume_claims if f"{other.namespace}/{name}" in own.exclusive)


def _disks(spec: Mapping[str, Any]) -> list[tuple[str, Object]]:
    return [
        (kind, volume[kind])
        for volume in spec.get("volumes") or ()
        for kind, _, _ in _DISKS
        if volume.get(kind)
    ]


def _same(kind: str, one: Object, other: Object) -> bool:
    """True for one disk that the two pods cannot share."""
    names, shared = next((names, shared) for disk_kind, names, shared in _DISKS if disk_kind == kind)
    if shared and one.get("readOnly") and other.get("readOnly"):
        return False
    if kind == "rbd" and not set(one.get("monitors") or ()) & set(other.get("monitors") or ()):
        return False
    return all((one.get(name) or "rbd") == (other.get(name) or "rbd") for name in names)
