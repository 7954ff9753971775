"""The names that quotas know resources by.

Source: k8s.io/kubernetes/pkg/apis/core/v1/helper and scheduler/util (IsDRAExtendedResourceName), 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.validation import names

REQUESTS, LIMITS, HUGEPAGES = "requests.", "limits.", "hugepages-"
IMPLICIT = "deviceclass.resource.kubernetes.io/"  # and a class: an extended resource of its own
DEVICES = ".deviceclass.resource.k8s.io/devices"  # after a class
STORAGE_CLASS = ".storageclass.storage.k8s.io/"  # after a class, before a resource


def object_count(resource: GroupResource) -> str:
    """`count/deployments.apps`."""
    return f"count/{resource}"


def is_native(name: str) -> bool:
    """Returns whether a resource is Kubernetes' own: unprefixed, or of a domain below kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Returns whether a container's resource is one that a device plugin or DRA provides."""
    if name.startswith(IMPLICIT):
        return True
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return not names.qualified_name(f"{REQUESTS}{name}")


def is_extended_in_quota(name: str) -> bool:
    """Returns whether a quota's resource is an extended one: `requests.example.com/gpu`."""
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + IMPLICIT))
