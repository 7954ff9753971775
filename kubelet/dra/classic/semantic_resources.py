"""The form in which drivers report resources of semantic models, as KEP-4381 had drafted them."""

from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.dra.classic.node_resources import RefusedResourcesError, ResourceForm

_LARGEST_BYTES = 512 * 1024  # of the resources in one slice; a store takes objects of 1.5 MiB


def _read(response: Any) -> list[Object]:
    """One entry is made, or several where one object would be too large. Raises RefusedResourcesError."""
    from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, resources_of

    try:
        resources = resources_of(response)
    except UnknownModelError as error:
        raise RefusedResourcesError(str(error)) from error
    entries: list[list[Object]] = []
    room = 0
    for resource in resources:
        size = len(orjson.dumps(resource))
        if not entries or size > room:
            entries.append([])
            room = _LARGEST_BYTES
        entries[-1].append(resource)
        room -= size
    return [{"resources": entry} for entry in entries]


def _meaning(model: Object) -> Object:
    return {"resources": [_without_empty(resource) for resource in model.get("resources") or ()]}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [])}
    return [_without_empty(part) for part in value] if isinstance(value, list) else value


SEMANTIC_RESOURCES = ResourceForm(_read, _meaning)
