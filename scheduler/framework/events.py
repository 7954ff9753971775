"""The cluster events, and the registrations of those that may make a rejected pod schedulable."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from enum import IntFlag, StrEnum, auto

from kubeskew.apimachinery.objects import Object


class EventResource(StrEnum):
    """The resource of an event."""

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
    """The kind of an event; an update is told apart by what it changed."""

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
        """Returns whether `event` is one of those that this registration is about."""
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
    """A plugin's interest in an event; without a hint, every such event requeues the pod."""

    event: ClusterEvent
    hint: Hint | None = None
    topics: Topics | None = None  # the hint is not called for pods that the change cannot concern


UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.ANY, Action.ANY, "UnschedulableTimeout")


def is_same_pod(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - a Hint
    """Returns whether the change is one of the pod itself: the hint for it."""
    return new is not None and new["metadata"].get("uid") == pod["metadata"].get("uid")


def has_node(old: Object | None, new: Object | None) -> bool:
    """Returns whether a pod has a node, before a change and after it; nominations do not count."""
    return all(pod["spec"].get("nodeName") for pod in (old, new) if pod is not None)
