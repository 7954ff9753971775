"""Makes the OpenAPI v2 document (`/openapi/v2`): definitions and paths of everything served."""

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.resources import ResourceTable
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.openapi.kinds import define_kinds
from kubeskew.apiserver.openapi.operations import QUERY, Operation, all_operations
from kubeskew.apiserver.openapi.rendering import GVK, Document, Renderer, gvk_entry

_PREFIX = "#/definitions/"
_DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted"}
_PRODUCES = ["application/json", "application/yaml"]


def v2(table: ResourceTable, version: Version) -> Document:
    """Returns the whole document, as plain JSON."""
    operations = list(all_operations(table, version.minor))
    resources = [
        resource
        for group, versions in table.groups()
        for served in versions
        for resource in table.resources(group, served)
    ]
    renderer = Renderer(_PREFIX, types_of(version), with_defaults=False)
    define_kinds(renderer, resources, operations)
    paths: dict[str, Document] = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {"parameters": _path_parameters(operation)})
        item[operation.method] = _operation(operation)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version.git_version},
        "paths": dict(sorted(paths.items())),
        "definitions": renderer.finish(),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    }


def _path_parameters(operation: Operation) -> list[Document]:
    named: list[Document] = [
        {"in": "path", "name": name, "type": "string", "uniqueItems": True, "required": True}
        for name in operation.path_parameters
    ]
    return [*named, _query("pretty")]


def _query(name: str) -> Document:
    return {"in": "query", "name": name, "type": QUERY[name][0], "uniqueItems": True}


def _schema(name: str) -> Document:
    return {"$ref": _PREFIX + name} if name else {"type": "string"}


def _operation(operation: Operation) -> Document:
    parameters: list[Document] = [_query(name) for name in operation.query]
    if operation.body:
        body: Document = {"in": "body", "name": "body", "schema": _schema(operation.body)}
        if operation.action in ("post", "put", "patch"):
            body["required"] = True
        parameters.insert(0, body)
    responses: Document = {
        str(code): {"description": _DESCRIPTIONS[code], "schema": _schema(operation.answer)}
        for code in operation.codes
    }
    responses["401"] = {"description": "Unauthorized"}
    rendered: Document = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "consumes": list(operation.consumes),
        "produces": _PRODUCES,
        "schemes": ["https"],
        "responses": responses,
        "x-kubernetes-action": operation.action,
        GVK: gvk_entry(operation.gvk),
    }
    if parameters:
        rendered["parameters"] = parameters
    return rendered
