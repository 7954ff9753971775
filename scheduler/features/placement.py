"""The differences between releases in how nodes are found for a pod."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class PlacementFeatures:
    """Named decisions about pods for which PreFilter leaves few nodes, or none."""

    preempts_in_vain: bool = False  # after PreFilter, too, has said that no node can help
    absent_node_fails: bool = False  # an attempt, if PreFilter names a node that is not there
    panics_without_candidates: bool = False  # once no node that PreFilter names is there

    @classmethod
    def of(cls, gates: FeatureGates) -> "PlacementFeatures":
        bugs = gates.bugs
        return cls(
            preempts_in_vain=bugs.present("k8s-119778"),
            absent_node_fails=bugs.present("k8s-124559"),
            panics_without_candidates=bugs.present("k8s-124933"),
        )
