"""Writes the usage into a quota's status, as the API server's own client does upstream."""

import copy

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.writes import WriteRequest
from kubeskew.apiserver.registry.requests.scope import RequestServices
from kubeskew.apiserver.storage.records import Author
from kubeskew.apiserver.user import SERVER

_MANAGER = "kube-apiserver"


async def write_used(services: RequestServices, quota: Object, used: dict[str, str]) -> None:
    """Stores `used` if the quota is still at this revision; raises 404, 409, 422."""
    resource = services.table.by_kind("", "v1", "ResourceQuota")
    if resource is None:
        raise errors.unknown_path()
    registry = services.registry(resource)
    version = services.environment.version
    author = Author(SERVER.name, _MANAGER, str(version), str(version), "")
    metadata = quota["metadata"]
    write = WriteRequest(SERVER, author, metadata["namespace"], "status", requested=resource, verb="update")

    async def transform(current: Object | None) -> Object:
        if current is None:
            raise errors.not_found(resource.group_resource, metadata["name"])
        if current["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise errors.conflict(resource.group_resource, metadata["name"], errors.MODIFIED)
        new = copy.deepcopy(current)
        new["status"] = {**(new.get("status") or {}), "used": used}
        now = timestamp(services.environment.clock.now())
        reset = registry.reset_fields(write)
        return registry.field_manager.update(current, new, _MANAGER, "status", now, reset=reset)

    await generic_update.update(registry, metadata["name"], transform, write)
