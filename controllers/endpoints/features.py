"""The features of the endpoints controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, since


class EndpointsFeatures(FeatureTable):
    """The content of Endpoints, and when they are reconciled."""

    managed_by_label: bool = since(33)  # endpoints.kubernetes.io/managed-by: endpoint-controller
    ports_by_fnv: bool = since(35)  # slices sort their ports by FNV-1a of 128 bits, before by MD5

    overlooks_sidecars: bool = bug("k8s-127976")  # does not find named ports of sidecars
    slices_overlook_sidecars: bool = bug("k8s-128850")  # nor does the controller of EndpointSlices
    tracks_stale: bool = ~bug("k8s-125675")  # waits until its cache has the Endpoints that it wrote
    takes_unchanged_for_stale: bool = bug("k8s-127417")  # also after an update that changed nothing
    # Services that servers before 1.20 stored lack spec.ipFamilies.
    panics_without_families: bool = bug("k8s-139236")
