"""The differences between gates in how a namespace is emptied."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class NamespaceFeatures:
    """Named decisions of the namespace controller of one set of gates."""

    ordered_deletion: bool  # pods go before everything else

    @classmethod
    def of(cls, gates: FeatureGates) -> "NamespaceFeatures":
        return cls(
            ordered_deletion=gates.enabled("OrderedNamespaceDeletion"),
        )
