"""The cluster events, the registrations of those that may make a rejected pod schedulable, and their names in
a release's metrics: the resource and what happened, up to 1.31 from a list.

Source: k8s.io/kubernetes/pkg/scheduler/framework/events.go and types.go (ActionType.String), 1.31 … 1.36.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from enum import IntFlag, StrEnum, auto

from kubeskew.apimachinery.objects import Object


class EventResource(StrEnum):
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
    NODE = "Node"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_SCHEDULING_CONTEXT = "PodSchedulingContext"
    RESOURCE_CLASS = "ResourceClass"
    RESOURCE_CLAIM_PARAMETERS = "ResourceClaimParameters"
    RESOURCE_CLASS_PARAMETERS = "ResourceClassParameters"
    NODE_RESOURCE_SLICE = "NodeResourceSlice"
    VENDOR_PARAMETERS = "VendorParameters"  # of a type that classes name, or the type itself
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    ANY = "*"


class Action(IntFlag):
    """The kind of an event; updates differ by what they changed."""

    ADD = auto()
    DELETE = auto()
    UPDATE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_CLAIM = auto()
    UPDATE_POD_TOLERATION = auto()
    ANY = (1 << 11) - 1


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One or several kinds of change to one kind of object."""

    resource: EventResource
    action: Action
    label: str = ""  # what metrics call it, if not as EventLabels does

    def covers(self, event: "ClusterEvent") -> bool:
        if EventResource.ANY in (self.resource, event.resource):
            return True
        return self.resource is event.resource and bool(self.action & event.action)


# (pod, old object, new object) → may the pod be schedulable now? Either object may be None.
Hint = Callable[[Object, Object | None, Object | None], bool]


@dataclass(frozen=True, slots=True)
class Topics:
    """Names the pods that a change can concern: its hint is no for pods that share no topic with the
    change."""

    of_pod: Callable[[Object], Collection[Hashable]]
    of_change: Callable[[Object | None, Object | None], Collection[Hashable] | None]  # None: any pod


@dataclass(frozen=True, slots=True)
class EventHint:
    """A plugin's interest in an event; without a hint, every event of the kind requeues the pod."""

    event: ClusterEvent
    hint: Hint | None = None
    topics: Topics | None = None  # the hint is not called for pods that the change cannot concern


UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.ANY, Action.ANY, "UnschedulableTimeout")


def is_same_pod(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - a Hint
    return new is not None and new["metadata"].get("uid") == pod["metadata"].get("uid")


def has_node(old: Object | None, new: Object | None) -> bool:
    """A pod must have a node both before and after the change; nominations do not count."""
    return all(pod["spec"].get("nodeName") for pod in (old, new) if pod is not None)


_DRA = frozenset(
    {
        EventResource.RESOURCE_CLAIM,
        EventResource.RESOURCE_SLICE,
        EventResource.DEVICE_CLASS,
    }
)
_ACTIONS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE: "Update",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
}
_LISTED = {  # up to 1.31
    (EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE): "NodeAllocatableChange",
    (EventResource.NODE, Action.UPDATE_NODE_LABEL): "NodeLabelChange",
    (EventResource.NODE, Action.UPDATE_NODE_TAINT): "NodeTaintChange",
    (EventResource.ASSIGNED_POD, Action.UPDATE_POD_LABEL): "PodLabelChange",
    (EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN): "AssignedPodUpdate",
    (EventResource.UNSCHEDULED_POD, Action.ADD): "PodAdd",
}
_SHORT = {EventResource.CLAIM: "Pvc", EventResource.VOLUME: "Pv"}  # up to 1.31


class EventLabels:
    def __init__(self, *, listed: bool = False, plural_tolerations: bool = False) -> None:
        """`listed`: by the list of 1.31 and before; `plural_tolerations`: 1.32 has `UpdatePodTolerations`."""
        self._listed = listed
        self._plural = plural_tolerations
        self._names: dict[tuple[EventResource, Action], str] = {}

    def of(self, event: ClusterEvent) -> str:
        if event.label:
            return event.label
        key = event.resource, event.action
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._listed_name(*key) if self._listed else self._name(*key)
        return name

    def _name(self, resource: EventResource, action: Action) -> str:
        group = "resource.k8s.io/" if resource in _DRA else ""
        plural = "s" if self._plural and action is Action.UPDATE_POD_TOLERATION else ""
        return f"{group}{resource}{_ACTIONS[action]}{plural}"

    def _listed_name(self, resource: EventResource, action: Action) -> str:
        listed = _LISTED.get((resource, action))
        if listed is not None:
            return listed
        if resource is EventResource.UNSCHEDULED_POD:
            return "PodUpdate"
        return f"{_SHORT.get(resource) or resource.rpartition('/')[2]}{_ACTIONS[action]}"
