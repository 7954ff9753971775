"""The differences between releases in what Endpoints say."""

from kubeskew.apimachinery.features import FeatureTable, bug, since


class EndpointsFeatures(FeatureTable):
    """Named decisions of the endpoints controller of one release."""

    # names the controller, so that mirroring and clean-up tell its objects
    managed_by_label: bool = since(33)

    # their ports have no names; the controller of slices has this too
    overlooks_sidecars: bool = bug("k8s-128850")
    tracks_stale: bool = ~bug("k8s-125675")  # Endpoints that were updated since are not looked at again
    takes_unchanged_for_stale: bool = bug("k8s-127417")  # those too whose update changed nothing
    # at services that servers before 1.20 stored, without spec.ipFamilies
    panics_without_families: bool = bug("k8s-139236")
