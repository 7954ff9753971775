"""The differences between releases in how the requests of pods count that are being resized."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates

_ACTUAL_SINCE, _WITHOUT_ALLOCATED, _SIDECARS_SINCE, _CONDITIONS_SINCE = 32, 32, 33, 33


@dataclass(frozen=True, slots=True)
class ResizingFeatures:
    """Named decisions on containers whose node reports their resources; without `counts` the spec counts."""

    counts: bool
    actual: bool  # what a container has counts, and where that is not reported the spec does
    allocated: bool  # what a container was allocated counts
    sidecars: bool  # those count so, too
    by_condition: bool  # a condition says that a resize is infeasible; before, status.resize does
    needs_requests: bool  # where others count beside amounts that are not there, that is a panic

    @classmethod
    def of(cls, gates: FeatureGates) -> "ResizingFeatures":
        minor = gates.version.minor
        return cls(
            counts=gates.enabled("InPlacePodVerticalScaling"),
            actual=minor >= _ACTUAL_SINCE,
            allocated=minor != _WITHOUT_ALLOCATED,
            sidecars=minor >= _SIDECARS_SINCE,
            by_condition=minor >= _CONDITIONS_SINCE,
            needs_requests=gates.bugs.present("k8s-132895"),
        )
