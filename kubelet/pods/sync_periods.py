"""The seconds between two syncs of a pod, by how the last one ended, and the changes that make one due.

Sources: pkg/kubelet/pod_workers.go (completeWork), pkg/kubelet/kubelet.go, pkg/kubelet/config/config.go,
pkg/kubelet/kuberuntime/kuberuntime_manager.go, alike in 1.31 … 1.36.
"""

from enum import Enum

from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.objects import Object

_JITTER = 0.5  # a period is up to this part longer
_SEMANTIC = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")


class SyncEnd(Enum):
    """The ends of a sync, with the seconds until the next one."""

    ERROR = 10.0  # backOffPeriod
    # syncFrequency, whose default this is. After a failed preparation of claims SyncPod returns no error.
    NO_ERROR = 60.0


class SyncPeriods:
    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def after(self, end: SyncEnd) -> float:
        return end.value * (1 + _JITTER * self._entropy.random())


def differ_semantically(old: Object, new: Object) -> bool:
    """A change of the pod that makes the kubelet sync it; a status, which is its own, does not."""
    before, after = old["metadata"], new["metadata"]
    return old["spec"] != new["spec"] or any(
        (before.get(name) or None) != (after.get(name) or None) for name in _SEMANTIC
    )
