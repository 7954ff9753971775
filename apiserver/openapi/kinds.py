"""Adds the definitions that a document has beside those that operations name: lists, options, machinery."""

from collections.abc import Iterable

from kubeskew.apimachinery.catalogue.types import LIST_META, META
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.openapi.custom import define_custom
from kubeskew.apiserver.openapi.operations import DELETE_BODY, PATCH_BODY, STATUS, Operation
from kubeskew.apiserver.openapi.rendering import Renderer, definition_name

_WATCH_EVENT = META + "WatchEvent"
_STRING = Schema(Kind.STRING)


def _list_of(resource: Resource, name: str, list_meta: Schema) -> Schema:
    items = Schema(Kind.LIST, items=resource.schema)
    return Schema(
        Kind.OBJECT,
        f"{name}List",
        fields={
            "apiVersion": Field(_STRING),
            "kind": Field(_STRING),
            "metadata": Field(list_meta, omit_empty=False),
            "items": Field(items, required=True, omit_empty=False),
        },
    )


def define_kinds(renderer: Renderer, resources: Iterable[Resource], operations: Iterable[Operation]) -> None:
    """Defines every kind that the resources have, and what their operations take and answer."""
    types = renderer.types
    served: set[tuple[str, str]] = set()
    listed = list(resources)
    for resource in listed:
        served.add((resource.group, resource.version))
        name = definition_name(resource.group, resource.version, resource.kind, resource.schema)
        if resource.custom:
            define_custom(renderer, resource, name)
            continue
        renderer.define(name, resource.schema, [resource.gvk])
        if "list" in resource.verbs:
            gvk = GroupVersionKind(resource.group, resource.version, resource.list_kind)
            renderer.define(f"{name}List", _list_of(resource, name, types[LIST_META]), [gvk])
            renderer.definitions[f"{name}List"]["properties"]["items"].pop("x-kubernetes-list-type")
    for operation in operations:
        body = operation.body
        if (
            body
            and body not in renderer.definitions
            and body in types
            and operation.action in ("post", "put")
        ):
            renderer.define(body, types[body], [operation.gvk])
    machinery = [(DELETE_BODY, "DeleteOptions"), (_WATCH_EVENT, "WatchEvent")]
    if all(resource.custom for resource in listed):
        machinery.pop()  # upstream's document of a definition says nothing of watches
    for name, kind in machinery:
        kinds = [GroupVersionKind(group, served_version, kind) for group, served_version in sorted(served)]
        renderer.define(name, types[name], kinds)
    renderer.define(PATCH_BODY, types[PATCH_BODY])
    renderer.define(STATUS, types[STATUS], [GroupVersionKind("", "v1", "Status")])
