"""The differences between releases in how victims are evicted."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class PreemptionFeatures:
    """Named decisions about evicting victims; with the gate SchedulerAsyncPreemption in the background."""

    evicts_leaving: bool  # also victims that are being deleted already
    forgets_last_victim: bool  # in the background: while it is evicted its preemptor may be tried again
    leaves_preemptor: bool  # in the background: nobody wakes it if its last victim was gone already

    @classmethod
    def of(cls, gates: FeatureGates) -> "PreemptionFeatures":
        """Returns the decisions for a scheduler with these gates."""
        return cls(
            evicts_leaving=gates.bugs.present("k8s-133167"),
            forgets_last_victim=gates.bugs.present("k8s-134730"),
            leaves_preemptor=gates.bugs.present("k8s-141694"),
        )
