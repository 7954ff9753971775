"""The features that several controllers of pods share."""

from typing import Any

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, has_flag, since, until
from kubeskew.controllers.framework.owner_references import OwnerMatch

# Go's encoder writes the creationTimestamp of a pod template, which has none, as null (pull request 130989).
WRITES_EMPTY_TIMES: Any = until(33)


def own_writes_awaited(own_gate: str, bug_id: str = "") -> Any:
    """A controller waits until its cache has what it wrote (KEP-5647), where its gate is on.

    Before 1.36 none has a gate: those that have a known bug for it wait where that is fixed.
    """
    if not bug_id:
        return has_flag(own_gate) & gate(own_gate)
    return ~bug(bug_id) & (~has_flag(own_gate) | gate(own_gate))


def indexed_owners(indexed_since: int) -> Any:
    """The way in which a controller finds its pods, an OwnerMatch.

    Before the minor `indexed_since` it lists the pods of the namespace, and compares UIDs. Since then it has
    an index, whose keys at first were UIDs alone.
    """
    index = choose(bug("k8s-134654"), OwnerMatch.UID, OwnerMatch.WHOLE_REFERENCE)
    return choose(since(indexed_since), index, OwnerMatch.UID_IN_NAMESPACE)


class DisruptionMarks(FeatureTable):
    """The condition DisruptionTarget of pods that controllers delete."""

    marks_pods: bool = gate("PodDisruptionConditions")  # pods get it before their deletion
    # The pod garbage collector: also pods that are being deleted on nodes that are out of service.
    out_of_service: bool = gate("NodeOutOfServiceVolumeDetach")
    observed_generation: bool = gate("PodObservedGenerationTracking")  # in that condition
    marks_ended: bool = bug("k8s-115056")  # the pod garbage collector: also pods that have ended
    applied: bool = bug("k8s-121103")  # by server-side apply, which fails if a list of the pod repeats a key
