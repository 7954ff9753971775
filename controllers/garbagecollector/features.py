"""The differences between releases of the garbage collector."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class GarbageCollectorFeatures:
    """Named decisions of one release."""

    waits_for_all: bool  # nothing is collected while a resource cannot be listed

    @classmethod
    def of(cls, gates: FeatureGates) -> "GarbageCollectorFeatures":
        return cls(waits_for_all=not gates.bugs.mended("k8s-125796"))
