"""Makes the OpenAPI v3 documents: an index and one document per group and version."""

import hashlib
from functools import cache

import orjson

from kubeskew.apimachinery.catalogue.data import CATALOGUE, preview_file
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.errors import unknown_path
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.openapi.kinds import define_kinds
from kubeskew.apiserver.openapi.operations import QUERY, Operation, base_path, operations
from kubeskew.apiserver.openapi.rendering import GVK, Document, Renderer, gvk_entry
from kubeskew.apiserver.structuralschema.resources import structural_of

_PREFIX = "#/components/schemas/"
_DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted"}
_PRODUCES = ("application/json", "application/yaml")


@cache
def _data_digest(version: Version) -> bytes:
    """Returns the digest of the catalogue, by which clients keep documents: it changes with their content."""
    files = [CATALOGUE, *([preview_file(version)] if version.preview else ())]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def v3_index(table: ResourceTable, version: Version) -> Document:
    """Returns `/openapi/v3`: the documents' addresses, each with a hash that changes as the document does."""
    paths = {}
    for group, versions in table.groups():
        for served in versions:
            path = base_path(group, served).removeprefix("/")
            digest = v3_hash(table, version, group, served)
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def v3_hash(table: ResourceTable, version: Version, group: str, served: str) -> str:
    """Returns the hash of what makes a document, so that the index does not build all of them."""
    listed = [
        [
            resource.plural,
            resource.kind,
            resource.list_kind,
            resource.namespaced,
            sorted(resource.verbs),
            sorted(resource.subresources),
        ]
        + ([structural.props] if (structural := structural_of(resource)) is not None else [])
        for resource in table.resources(group, served)
    ]
    content = _data_digest(version) + orjson.dumps([version.git_version, group, served, listed])
    return hashlib.sha512(content).hexdigest().upper()


def v3(table: ResourceTable, version: Version, group: str, served: str) -> Document:
    """Returns `/openapi/v3/apis/GROUP/VERSION`, as plain JSON; raises the 404 StatusError if it is not
    served.
    """
    resources: list[Resource] = list(table.resources(group, served))
    if not resources:
        raise unknown_path()
    listed = list(operations(table, group, served, version.minor))
    renderer = Renderer(_PREFIX, types_of(version), with_defaults=True)
    define_kinds(renderer, resources, listed)
    paths: dict[str, Document] = {}
    for operation in listed:
        item = paths.setdefault(operation.path, {"parameters": _path_parameters(operation)})
        item[operation.method] = _operation(operation)
    for item in paths.values():
        _share(item)
    info, components = {"title": "Kubernetes", "version": version.git_version}, {}
    if resources[0].custom:
        info = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    else:
        token = {"type": "apiKey", "in": "header", "name": "authorization"}
        components = {"securitySchemes": {"BearerToken": token}}
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": renderer.finish(), **components},
    }


def _share(item: Document) -> None:
    """Moves the parameters of a path's only operation to the path, as those that several operations share."""
    several = [operation for name, operation in item.items() if name != "parameters"]
    if len(several) == 1:
        shared = [*item["parameters"], *several[0].pop("parameters", ())]
        item["parameters"] = sorted(shared, key=lambda one: str(one["name"]))


def _path_parameters(operation: Operation) -> list[Document]:
    named: list[Document] = [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in operation.path_parameters
    ]
    return [*named, _query("pretty")]


def _query(name: str) -> Document:
    return {"in": "query", "name": name, "schema": {"type": QUERY[name][0], "uniqueItems": True}}


def _content(name: str, media_types: tuple[str, ...]) -> Document:
    schema = {"$ref": _PREFIX + name} if name else {"type": "string"}
    return {media_type: {"schema": schema} for media_type in media_types}


def _operation(operation: Operation) -> Document:
    responses: Document = {
        str(code): {"description": _DESCRIPTIONS[code], "content": _content(operation.answer, _PRODUCES)}
        for code in operation.codes
    }
    responses["401"] = {"description": "Unauthorized"}
    rendered: Document = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "responses": responses,
        "x-kubernetes-action": operation.action,
        GVK: gvk_entry(operation.gvk),
    }
    if operation.query:
        rendered["parameters"] = [_query(name) for name in operation.query]
    if operation.body:
        body: Document = {"content": _content(operation.body, operation.consumes)}
        if operation.action in ("post", "put", "patch"):
            body["required"] = True
        rendered["requestBody"] = body
    return rendered
