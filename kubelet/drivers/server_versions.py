"""Finds out an API server's release, and the newest version of resource slices that it serves.

Source: k8s.io/dynamic-resource-allocation/client, which tries v1, v1beta2 and v1beta1 in turn; drivers of
1.31 spoke v1alpha3.
"""

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version

GROUP = "resource.k8s.io"
_NEWEST_FIRST = ("v1", "v1beta2", "v1beta1", "v1alpha3")


async def server_version(client: APIClient) -> Version:
    """Returns the release that the server reports."""
    found = await client.request("GET", "/version")
    preview = found.get("gitVersion", "").partition("+")[2]
    if preview.startswith("kep"):
        return Version.parse(found["gitVersion"])
    return Version.parse(f"{found['major']}.{found['minor'].rstrip('+')}")


async def served(client: APIClient, plural: str, kind: str, *, namespaced: bool) -> Ref | None:
    """Returns the resource in the newest served version; None if drivers know none of them."""
    try:
        group = await client.request("GET", f"/apis/{GROUP}")
    except StatusError as error:
        if error.code == 404:
            return None
        raise
    offered = {version["version"] for version in group["versions"]}
    for version in [version for version in _NEWEST_FIRST if version in offered]:
        listed = await client.request("GET", f"/apis/{GROUP}/{version}")
        if any(resource["name"] == plural for resource in listed["resources"]):
            return Ref(GROUP, version, plural, namespaced, kind)
    return None
