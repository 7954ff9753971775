"""The names that quotas know resources by.

Source: k8s.io/kubernetes/pkg/apis/core/v1/helper, 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.resource_names import IMPLICIT, REQUESTS, is_native

LIMITS, HUGEPAGES = "limits.", "hugepages-"
DEVICES = ".deviceclass.resource.k8s.io/devices"  # after a class
STORAGE_CLASS = ".storageclass.storage.k8s.io/"  # after a class, before a resource


def object_count(resource: GroupResource) -> str:
    """`count/deployments.apps`."""
    return f"count/{resource}"


def is_extended_in_quota(name: str) -> bool:
    """Returns whether a quota's resource is an extended one: `requests.example.com/gpu`."""
    return name.startswith(REQUESTS) and not is_native(name)


def is_implicit_in_quota(name: str) -> bool:
    """Returns whether a quota's resource is the implicit extended resource of a device class."""
    return name.startswith(REQUESTS + IMPLICIT)
