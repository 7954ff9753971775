"""Compares what an API server answers with what one says that has just started over the same log.

A read depends on what is stored, the version and the gates, and never on what a server remembers. Upstream's
decodes, prunes, defaults and converts what it reads from storage at each read, or once for its watch cache.
"""

from collections.abc import Awaitable, Callable, Mapping

import orjson

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError

Read = Mapping[tuple[str, str], tuple[str, bytes]]  # by (path of a list, uid): (resourceVersion, JSON)


async def differences(client: APIClient, restart: Callable[[], Awaitable[None]]) -> list[str]:
    """Returns which objects read otherwise after `restart` of their server, though nobody wrote them."""
    before = await _read_all(client)
    await restart()
    after = await _read_all(client)
    return [
        f"{path}: object {uid} at resourceVersion {version} read {was.decode()}, and "
        f"{after[path, uid][1].decode()} from a server that has just started"
        for (path, uid), (version, was) in before.items()
        if (path, uid) in after and after[path, uid][0] == version and after[path, uid][1] != was
    ]


async def _read_all(client: APIClient) -> Read:
    """Returns every object in every version that is served; lists that fail are left out."""
    found: dict[tuple[str, str], tuple[str, bytes]] = {}
    for path in await _list_paths(client):
        try:
            items = (await client.request("GET", path)).get("items") or ()
        except StatusError:
            continue
        for item in items:
            metadata = item["metadata"]
            if "uid" in metadata:
                read = metadata.get("resourceVersion", ""), orjson.dumps(item)
                found[path, metadata["uid"]] = read
    return found


async def _list_paths(client: APIClient) -> list[str]:
    """Returns the paths of all collections that can be listed."""
    groups = (await client.request("GET", "/apis"))["groups"]
    versions = [f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"]]
    paths = []
    for version in ["/api/v1", *versions]:
        try:
            resources = (await client.request("GET", version))["resources"]
        except StatusError:  # of an extension server that does not answer
            continue
        paths += [f"{version}/{each['name']}" for each in resources if "list" in each["verbs"]]
    return paths
