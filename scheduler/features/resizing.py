"""The differences between releases in how the requests of pods count that are being resized."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates

_ACTUAL_SINCE, _SIDECARS_SINCE = 32, 33


@dataclass(frozen=True, slots=True)
class ResizingFeatures:
    """Named decisions on containers whose node reports their resources; without `counts` the spec counts."""

    counts: bool
    actual: bool  # what a container has counts beside what it was allocated
    sidecars: bool  # those count so, too
    needs_requests: bool  # a container without requests whose status has some is a panic

    @classmethod
    def of(cls, gates: FeatureGates) -> "ResizingFeatures":
        return cls(
            counts=gates.enabled("InPlacePodVerticalScaling"),
            actual=gates.version.minor >= _ACTUAL_SINCE,
            sidecars=gates.version.minor >= _SIDECARS_SINCE,
            needs_requests=gates.bugs.present("k8s-132895"),
        )
