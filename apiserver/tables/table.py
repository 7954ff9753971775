"""The Table document: column definitions from the resource, one row of cells per object."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from apimachinery.errors import Object
from apimachinery.resources import Column, Resource

Include = Literal["None", "Metadata", "Object"]
Version = Literal["v1", "v1beta1"]

_NAME = Column(
    "Name",
    "string",
    "name",
)
_CREATED_AT = Column("Created At", "date")
_FALLBACK = (_NAME, _CREATED_AT)


def render(
    resource: Resource,
    objects: Sequence[Object],
    *,
    now: datetime,
    include_object: str = "Metadata",
    metadata: Object,
    no_headers: bool = False,
    version: str = "v1",
) -> Object:
    """A Table of `objects` with list metadata `metadata`."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [] if no_headers else [_definition(one) for one in _FALLBACK],
        "rows": [_row(one, include_object, version) for one in objects],
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(obj: Object, include_object: str, version: str) -> Object:
    metadata = obj.get("metadata", {})
    cells = [metadata.get("name", ""), metadata.get("creationTimestamp")]
    return {"cells": cells, "object": _included(obj, include_object, version)}


def _included(obj: Object, include_object: str, version: str) -> Object | None:
    if include_object == "Object":
        return obj
    if include_object == "None":
        return None
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }
