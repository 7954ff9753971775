"""Names events as a release's metrics do: by the resource and what happened, up to 1.31 by a list of names.

Source: k8s.io/kubernetes/pkg/scheduler/framework/events.go and types.go (ActionType.String), 1.31 … 1.36.
"""

from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource

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
    """Names the events of one release."""

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
