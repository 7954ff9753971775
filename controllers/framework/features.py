"""Decides what controllers of pods have in common, by releases and gates."""

from typing import NamedTuple

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.owner_references import OwnerMatch

_LAST_WITH_EMPTY_TIMES = 33  # pull request 130989


def waits_for_own_writes(gates: FeatureGates, gate: str, bug: str = "") -> bool:
    """Returns whether a controller waits until it has seen what it wrote (KEP-5647).

    `gate` is its own; before 1.36 none has one, and those that have a `bug` for it wait only without it.
    """
    without = bool(bug) and not gates.bugs.present(bug)
    return gates.enabled(gate) and (without or not bug) if gates.knows(gate) else without


def owner_match(version: Version, gates: FeatureGates, indexed_since: int) -> OwnerMatch:
    """Returns what a controller compares to find its pods.

    Before the minor `indexed_since` it lists the pods of the namespace, and compares UIDs. Since then it has
    an index, whose keys at first were UIDs alone.
    """
    if version.minor < indexed_since:
        return OwnerMatch.UID_IN_NAMESPACE
    return OwnerMatch.UID if gates.bugs.present("k8s-134654") else OwnerMatch.WHOLE_REFERENCE


class DisruptionMarks(NamedTuple):
    """Decides how controllers say in a pod's status why they delete it."""

    told: bool  # before they delete it
    marks_ended: bool  # the collector of pods says so of those that have ended, too
    applied: bool  # by server-side apply, which refuses pods whose lists repeat a key

    @classmethod
    def of(cls, gates: FeatureGates) -> "DisruptionMarks":
        """Returns the decisions for a controller with these gates."""
        return cls(
            told=gates.enabled("PodDisruptionConditions"),
            marks_ended=gates.bugs.present("k8s-115056"),
            applied=gates.bugs.present("k8s-121103"),
        )


def writes_empty_times(version: Version) -> bool:
    """Decides whether Go's encoder writes the creation time that a template never has, as null."""
    return version.minor <= _LAST_WITH_EMPTY_TIMES
