"""The differences between releases in the queueing hints of InterPodAffinity and PodTopologySpread."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class AffinityHintFeatures:
    """Named decisions about events that a release overlooks; without queueing hints they change nothing."""

    overlooks_repelling: bool  # the end of a pod that wanted the waiting one elsewhere
    overlooks_own_labels: bool  # a change of the waiting pod's labels
    all_anti_terms: bool  # a pod counts as avoided only if all terms are about it
    overlooks_selected_namespaces: bool  # of a namespace selector of the waiting pod's terms
    overlooks_nominated: bool  # pods without a node that are nominated to one

    @classmethod
    def of(cls, gates: FeatureGates) -> "AffinityHintFeatures":
        bugs = gates.bugs
        return cls(
            overlooks_repelling=bugs.present("k8s-135325"),
            overlooks_own_labels=bugs.present("k8s-135394"),
            all_anti_terms=bugs.present("k8s-139161"),
            overlooks_selected_namespaces=bugs.present("k8s-141953"),
            overlooks_nominated=bugs.present("k8s-135392"),
        )
