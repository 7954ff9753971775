"""Events that move pods between queues, as metrics of each release call them."""

import pytest

from kubeskew.scheduler.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventLabels,
    EventResource,
)

_LISTED = EventLabels(listed=True)
_PLURAL = EventLabels(plural_tolerations=True)


@pytest.mark.parametrize(
    ("labels", "resource", "action", "label"),
    [
        (EventLabels(), EventResource.NODE, Action.ADD, "NodeAdd"),
        (EventLabels(), EventResource.NODE, Action.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint"),
        (EventLabels(), EventResource.UNSCHEDULED_POD, Action.ADD, "UnschedulablePodAdd"),
        (EventLabels(), EventResource.ASSIGNED_POD, Action.UPDATE_POD_LABEL, "AssignedPodUpdatePodLabel"),
        (EventLabels(), EventResource.RESOURCE_CLAIM, Action.UPDATE, "resource.k8s.io/ResourceClaimUpdate"),
        (EventLabels(), EventResource.CSI_NODE, Action.ADD, "storage.k8s.io/CSINodeAdd"),
        (
            EventLabels(), EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION,
            "UnschedulablePodUpdatePodToleration",
        ),
        (
            _PLURAL, EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION,
            "UnschedulablePodUpdatePodTolerations",
        ),
        (_LISTED, EventResource.UNSCHEDULED_POD, Action.ADD, "PodAdd"),
        (_LISTED, EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION, "PodUpdate"),
        (_LISTED, EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE, "NodeAllocatableChange"),
        (_LISTED, EventResource.CLAIM, Action.ADD, "PvcAdd"),
        (_LISTED, EventResource.CSI_NODE, Action.ADD, "CSINodeAdd"),
        (_LISTED, EventResource.RESOURCE_CLAIM, Action.UPDATE, "ResourceClaimUpdate"),
    ],
)  # fmt: skip
def test_events_are_called_as_the_release_does(
    labels: EventLabels, resource: EventResource, action: Action, label: str
) -> None:
    """Since 1.32 by the resource with its group and what happened, before by a list."""
    assert labels.of(ClusterEvent(resource, action)) == label


def test_a_label_of_its_own_is_kept() -> None:
    """Some events have one in every release."""
    assert EventLabels().of(UNSCHEDULABLE_TIMEOUT) == "UnschedulableTimeout"
