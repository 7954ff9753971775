"""The differences between releases in what the status of disruption budgets says."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class DisruptionFeatures:
    """Named decisions of the disruption controller."""

    forgets_conditions: bool  # of others, and since when its own has been so

    @classmethod
    def of(cls, gates: FeatureGates) -> "DisruptionFeatures":
        return cls(forgets_conditions=gates.bugs.present("k8s-122056"))
