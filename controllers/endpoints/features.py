"""The differences between releases in what Endpoints say."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_MANAGED_SINCE = 33


@dataclass(frozen=True, slots=True)
class EndpointsFeatures:
    """Named decisions of the endpoints controller of one release."""

    managed_by_label: bool  # names the controller, so that mirroring and clean-up tell its objects

    overlooks_sidecars: bool  # their ports have no names; the controller of slices has this too
    tracks_stale: bool  # Endpoints that were updated since are not looked at again
    takes_unchanged_for_stale: bool  # those too whose update changed nothing
    panics_without_families: bool  # at services that servers before 1.20 stored, without spec.ipFamilies

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "EndpointsFeatures":
        return cls(
            managed_by_label=version.minor >= _MANAGED_SINCE,
            overlooks_sidecars=gates.bugs.present("k8s-128850"),
            tracks_stale=not gates.bugs.present("k8s-125675"),
            takes_unchanged_for_stale=gates.bugs.present("k8s-127417"),
            panics_without_families=gates.bugs.present("k8s-139236"),
        )
