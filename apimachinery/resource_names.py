"""Tells extended resources from Kubernetes' own by their names.

Source: k8s.io/kubernetes/pkg/apis/core/v1/helper and pkg/scheduler/util (IsDRAExtendedResourceName), 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.memoizing import remembered

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # and the name of a DeviceClass: its implicit resource
REQUESTS = "requests."  # prefix of a resource in a quota


def is_native(name: str) -> bool:
    """Returns whether a resource is Kubernetes' own: unprefixed, or of a domain below kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


@remembered(4096)
def is_extended_resource(name: str) -> bool:
    """Returns whether a device plugin may provide a container's resource (IsExtendedResourceName).

    The name must be qualified also with `requests.` before it, as quotas write it.
    """
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return not names.qualified_name(f"{REQUESTS}{name}")


def is_dra_extended_resource(name: str) -> bool:
    """Returns whether DRA may provide a container's resource, by an explicit or an implicit name."""
    return name.startswith(IMPLICIT) or is_extended_resource(name)
