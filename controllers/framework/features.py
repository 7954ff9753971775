"""Decides what controllers of pods have in common, by releases and gates."""

from typing import Any

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, has_flag, since, until
from kubeskew.controllers.framework.owner_references import OwnerMatch

# Go's encoder writes the creation time that a template never has, as null (pull request 130989).
WRITES_EMPTY_TIMES: Any = until(33)


def own_writes_awaited(own_gate: str, bug_id: str = "") -> Any:
    """A controller waits until it has seen what it wrote (KEP-5647), where its gate is on.

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
    """Decides how controllers say in a pod's status why they delete it."""

    marks_pods: bool = gate("PodDisruptionConditions")  # before they delete it
    marks_ended: bool = bug("k8s-115056")  # the collector of pods says so of those that have ended, too
    applied: bool = bug("k8s-121103")  # by server-side apply, which refuses pods whose lists repeat a key
