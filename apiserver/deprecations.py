"""Warnings about deprecated versions of kinds.

Source: k8s.io/apiserver/pkg/endpoints/deprecation/deprecation.go, and the prerelease-lifecycle markers of
k8s.io/api: where nothing else is said, a beta is deprecated three minors after it came, and removed three
later. So it is with alphas, but for those of some releases that have no markers. Compared with the markers of
1.26 … 1.36.
"""

from typing import NamedTuple

from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import Version, is_between
from kubeskew.apiserver.apiextensions.table import CustomResource


class _End(NamedTuple):
    """Minors are 0 if they are not known; `instead` is named since the minor `named_since`."""

    deprecated: int
    removed: int = 0
    instead: str = ""
    named_since: int = 0


_DRA, _FLOW = "resource.k8s.io", "flowcontrol.apiserver.k8s.io"
_ADMISSION, _CERTIFICATES = "admissionregistration.k8s.io", "certificates.k8s.io"
_NETWORK, _STORAGE = "networking.k8s.io", "storage.k8s.io"
_CLASS = f"{_STORAGE}/v1 VolumeAttributesClass"
_LEASES, _WHO = "coordination.k8s.io", "authentication.k8s.io"


def _came(minor: int) -> _End:
    """A kind without markers of its own is deprecated three minors after `minor`, and gone after six."""
    return _End(minor + 3, minor + 6)


_KINDS = {
    ("v1", "ComponentStatus"): _End(19),
    ("v1", "Endpoints"): _End(33, 0, "discovery.k8s.io/v1 EndpointSlice"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity"): _End(24, 27, "storage.k8s.io/v1 CSIStorageCapacity"),
    (f"{_DRA}/v1alpha2", "ResourceSlice"): _End(33, 36),
    (f"{_DRA}/v1alpha2", "NodeResourceSlice"): _End(33, 36),
    (f"{_DRA}/v1alpha2", "ResourceClaimParameters"): _End(33, 36),
    (f"{_DRA}/v1alpha2", "ResourceClassParameters"): _End(33, 36),
    (f"{_DRA}/v1alpha3", "DeviceTaintRule"): _End(36, 39),
    (f"{_DRA}/v1alpha3", "ResourcePoolStatusRequest"): _End(39, 42),
    (f"{_DRA}/v1beta2", "DeviceTaintRule"): _End(39, 42),
    (f"{_ADMISSION}/v1beta1", "ValidatingAdmissionPolicy"): _came(28),
    (f"{_ADMISSION}/v1beta1", "ValidatingAdmissionPolicyBinding"): _came(28),
    (f"{_CERTIFICATES}/v1alpha1", "ClusterTrustBundle"): _End(34, 37),
    (f"{_CERTIFICATES}/v1alpha1", "PodCertificateRequest"): _came(34),
    (f"{_CERTIFICATES}/v1beta1", "PodCertificateRequest"): _came(35),
    (f"{_NETWORK}/v1alpha1", "ClusterCIDR"): _came(25),
    (f"{_STORAGE}/v1alpha1", "VolumeAttributesClass"): _End(32, 35, _CLASS, 34),
    (f"{_STORAGE}/v1beta1", "VolumeAttributesClass"): _End(34, 37, _CLASS, 34),
}
_VERSIONS = {
    f"{_ADMISSION}/v1alpha1": _came(32),
    f"{_ADMISSION}/v1beta1": _came(34),
    f"{_WHO}/v1alpha1": _came(26),
    f"{_WHO}/v1beta1": _came(27),
    f"{_CERTIFICATES}/v1beta1": _came(33),
    f"{_LEASES}/v1alpha1": _came(31),
    f"{_LEASES}/v1alpha2": _came(32),
    f"{_LEASES}/v1beta1": _came(33),
    f"{_NETWORK}/v1alpha1": _came(27),
    f"{_NETWORK}/v1beta1": _came(31),
    f"{_STORAGE}/v1alpha1": _came(29),
    f"{_STORAGE}/v1beta1": _came(31),
    "storagemigration.k8s.io/v1alpha1": _came(30),
    "storagemigration.k8s.io/v1beta1": _came(35),
    "scheduling.k8s.io/v1alpha1": _came(35),
    "scheduling.k8s.io/v1alpha2": _came(36),
    f"{_DRA}/v1alpha3": _End(34, 37),
    f"{_DRA}/v1beta1": _End(35, 38),
    f"{_DRA}/v1beta2": _End(36, 39),
    "autoscaling/v2beta2": _End(23, 26, "autoscaling/v2 {kind}"),
    f"{_FLOW}/v1beta1": _End(23, 26, f"{_FLOW}/v1beta2 {{kind}}"),
    f"{_FLOW}/v1beta2": _End(26, 29, f"{_FLOW}/v1beta3 {{kind}}"),
    f"{_FLOW}/v1beta3": _End(29, 32, f"{_FLOW}/v1 {{kind}}"),
}


def removed_release(resource: Resource) -> str:
    """Empty if the resource is not deprecated or its removal is not planned."""
    end = _KINDS.get((resource.api_version, resource.kind)) or _VERSIONS.get(resource.api_version)
    return f"1.{end.removed}" if end is not None and end.removed else ""


def deprecation_warning(resource: Resource, version: Version) -> str:
    """The text is for a Warning header at a server of `version`; empty if the resource is not deprecated."""
    if isinstance(resource, CustomResource):
        return resource.warning
    api_version, kind = resource.api_version, resource.kind
    end = _KINDS.get((api_version, kind)) or _VERSIONS.get(api_version)
    if end is None or not is_between(version.minor, end.deprecated, None):
        return ""
    gone = f", unavailable in v1.{end.removed}+" if end.removed else ""
    named = end.instead and is_between(version.minor, end.named_since, None)
    instead = f"; use {end.instead.format(kind=kind)}" if named else ""
    return f"{api_version} {kind} is deprecated in v1.{end.deprecated}+{gone}{instead}"
