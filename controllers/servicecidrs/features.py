"""The features of the controller of ServiceCIDRs."""

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.features import FeatureTable, by_release, made, since

_GROUP = "networking.k8s.io"
_VERSION = by_release({0: "v1alpha1", 31: "v1beta1", 33: "v1"})


class ServiceCIDRFeatures(FeatureTable):
    """The API of ranges and addresses, and the writes of conditions."""

    ranges: Ref = made(Ref, _GROUP, _VERSION, "servicecidrs", False, "ServiceCIDR")
    addresses: Ref = made(Ref, _GROUP, _VERSION, "ipaddresses", False, "IPAddress")
    # A condition that is there already is not applied again with another time.
    keeps_conditions: bool = since(34)
    gives_empty_reason: bool = since(34)  # it is applied, so the controller owns it
