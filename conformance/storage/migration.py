"""Writes all stored objects again through the API server that runs.

Source: kubernetes-sigs/kube-storage-version-migrator, pkg/migrator/core.go: objects are listed in chunks and
put as they are; one that is gone or was written meanwhile needs no migration.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.cluster.failures import UserError

_CHUNK = 500
_NEVER = frozenset(
    {"events", "leases"}
)  # the migrator leaves out what lives a short time or is written all the time
_DONE = frozenset({404, 409, 410})  # somebody else deleted it or wrote it


@dataclass(slots=True)
class Migrated:
    """Counts the objects of one resource, and the writes."""

    resource: str
    objects: int = 0
    rewritten: int = 0
    failed: list[str] = field(default_factory=list)


async def migrate(
    client: APIClient, wanted: Collection[str], progress: Callable[[str], None]
) -> list[Migrated]:
    """Resources come in the order of discovery. Raises UserError for unknown ones."""
    served = await _served(client)
    unknown = [name for name in wanted if not any(name in _names(each) for each in served)]
    if unknown:
        raise UserError(f"the API server does not serve {', '.join(unknown)}")
    found = []
    for path, resource in served:
        if wanted and not any(name in _names((path, resource)) for name in wanted):
            continue
        made = Migrated(_full(path, resource))
        found.append(made)
        await _of_resource(client, f"{path}/{resource['name']}", made)
        progress(f"{made.resource}: {made.rewritten} of {made.objects} written again")
    return found


async def _served(client: APIClient) -> list[tuple[str, Object]]:
    """Resources that can be listed and put come with a path: in the preferred version of the group, else in
    the first that has it (client-go, ServerPreferredResources)."""
    groups = (await client.request("GET", "/apis"))["groups"]
    versions = [each["groupVersion"] for group in groups for each in _preferred_first(group)]
    paths = ["/api/v1", *(f"/apis/{version}" for version in versions)]
    found, seen = [], set()
    for path in paths:
        try:
            listed = await client.request("GET", path)
        except StatusError:
            continue  # an aggregated server that does not answer keeps its own store
        for resource in listed["resources"]:
            name = _full(path, resource)
            able = {"list", "update"} <= set(resource["verbs"]) and "/" not in resource["name"]
            if able and resource["name"] not in _NEVER and name not in seen:
                seen.add(name)
                found.append((path, resource))
    return found


def _preferred_first(group: Object) -> list[Object]:
    preferred: Object = group["preferredVersion"]
    return [preferred, *(each for each in group["versions"] if each != preferred)]


def _full(path: str, resource: Object) -> str:
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    return f"{resource['name']}.{group}".rstrip(".")


def _names(served: tuple[str, Object]) -> set[str]:
    path, resource = served
    return {resource["name"], _full(path, resource)}


async def _of_resource(client: APIClient, path: str, made: Migrated) -> None:
    token = ""
    while True:
        try:
            page = await client.request("GET", path, query={"limit": str(_CHUNK), "continue": token})
        except StatusError as error:
            made.failed.append(f"{made.resource}: {error.message}")
            return
        for obj in page["items"]:
            made.objects += 1
            await _put(
                client,
                path,
                {**obj, "kind": page["kind"].removesuffix("List"), "apiVersion": page["apiVersion"]},
                made,
            )
        token = page["metadata"].get("continue") or ""
        if not token:
            return


async def _put(client: APIClient, path: str, obj: dict[str, Any], made: Migrated) -> None:
    metadata = obj["metadata"]
    base, _, plural = path.rpartition("/")
    namespace = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    target = f"{base}{namespace}/{plural}/{quote(metadata['name'], safe=':')}"
    try:
        written = await client.request("PUT", target, body=obj)
    except StatusError as error:
        if error.code not in _DONE:
            made.failed.append(f"{made.resource} {metadata['name']}: {error.message}")
        return
    made.rewritten += written["metadata"]["resourceVersion"] != metadata["resourceVersion"]
