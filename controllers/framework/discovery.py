"""Reads a server's discovery, for controllers of resources of any kind."""

from dataclasses import dataclass

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object

_AGGREGATED = ",".join(
    [
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    ]
)


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource that is served at one version. `preferred` is the first version of its group that has it."""

    ref: Ref
    verbs: frozenset[str]
    preferred: bool


async def served_resources(client: APIClient) -> list[ServedResource]:
    """Every version of each resource counts, without subresources; preferred versions come first within a
    group.
    """
    found: list[ServedResource] = []
    for path in ("/api", "/apis"):
        document = await client.request("GET", path, accept=_AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            found += _from_aggregated(document)
        else:
            found += await _from_plain(client, path, document)
    return found


def _from_aggregated(document: Object) -> list[ServedResource]:
    found = []
    for group in document.get("items") or ():
        name, seen = group.get("metadata", {}).get("name") or "", set()
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                plural = resource["resource"]
                kind = (resource.get("responseKind") or {}).get("kind", "")
                ref = Ref(name, version["version"], plural, resource.get("scope") == "Namespaced", kind)
                found.append(ServedResource(ref, frozenset(resource.get("verbs") or ()), plural not in seen))
                seen.add(plural)
    return found


async def _from_plain(client: APIClient, path: str, document: Object) -> list[ServedResource]:
    """Reads one document per group and version; as upstream, leaves out a group that fails."""
    found = []
    for name, versions in _group_versions(path, document):
        seen: set[str] = set()
        for version in versions:
            prefix = f"{path}/{name}/{version}" if name else f"{path}/{version}"
            try:
                listed = await client.request("GET", prefix)
            except StatusError:
                continue
            plain = [resource for resource in listed.get("resources") or () if "/" not in resource["name"]]
            for resource in plain:
                ref = Ref(name, version, resource["name"], bool(resource.get("namespaced")), resource["kind"])
                found.append(
                    ServedResource(ref, frozenset(resource.get("verbs") or ()), resource["name"] not in seen)
                )
            seen |= {resource["name"] for resource in plain}
    return found


def _group_versions(path: str, document: Object) -> list[tuple[str, list[str]]]:
    if path == "/api":
        return [("", list(document.get("versions") or ()))]
    groups = []
    for group in document.get("groups") or ():
        versions = [version["version"] for version in group.get("versions") or ()]
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions.sort(key=lambda version: version != preferred)
        groups.append((group["name"], versions))
    return groups
