"""OpenAPI v3 documents: an index, and one document per group, group and version, and other root.

Source: kube-openapi pkg/{builder3,handler3}, apiserver pkg/server/routes/openapi.go, 1.36.
"""

import hashlib
from functools import cache

import orjson

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.resources import ResourceTable
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.definitions import GVK, Definitions, Document, gvk_entry
from kubeskew.apiserver.openapi.descriptions import Descriptions, descriptions_of, text
from kubeskew.apiserver.openapi.facts import document_of
from kubeskew.apiserver.openapi.paths import Documents
from kubeskew.apiserver.openapi.routes import Parameter, Route, by_path
from kubeskew.apiserver.structuralschema.model import structural_of

_SCHEMAS = "#/components/schemas/"
_DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted"}


@cache
def _data_digest(version: Version) -> bytes:
    """It is part of the hashes by which clients keep documents, and changes with the data of the
    release.
    """
    catalogue = data.release(version).document
    made_of = [catalogue, document_of(version), *descriptions_of(version)]
    return hashlib.sha256(orjson.dumps(made_of)).digest()


def v3_index(table: ResourceTable, features: DocumentFeatures, *, logs: bool = False) -> Document:
    """Serves `/openapi/v3`: addresses of documents, each with a hash that changes as the document does."""
    documents = Documents(table, features, logs=logs)
    return {
        "paths": {
            name: {"serverRelativeURL": v3_address(name, _hash(documents, name))}
            for name in sorted(documents.names())
        }
    }


def v3_address(name: str, digest: str) -> str:
    return f"/openapi/v3/{name}?hash={digest}"


def v3_hash(table: ResourceTable, features: DocumentFeatures, name: str, *, logs: bool = False) -> str:
    """Hashes the input of a document, so that the index need not build all of them; empty if there is no
    document `name`.
    """
    documents = Documents(table, features, logs=logs)
    return _hash(documents, name) if name in set(documents.names()) else ""


def _hash(documents: Documents, name: str) -> str:
    features = documents.features
    root, *parts = name.split("/")
    group, served = "".join(parts[:-1]), parts[-1] if parts else ""
    listed = [
        [
            resource.plural,
            resource.kind,
            resource.list_kind,
            resource.namespaced,
            sorted(resource.verbs),
            sorted(resource.subresources),
            resource.selectable,
        ]
        + ([structural.props] if (structural := structural_of(resource)) is not None else [])
        for resource in (documents.table.resources(group, served) if root in ("api", "apis") else ())
    ]
    made_by = [features.version.git_version, features.enums, features.cbor]
    content = _data_digest(features.version) + orjson.dumps([made_by, name, listed])
    return hashlib.sha512(content).hexdigest().upper()


def v3(table: ResourceTable, features: DocumentFeatures, name: str, *, logs: bool = False) -> Document | None:
    """Serves `/openapi/v3/NAME` (`apis/apps/v1`), as plain JSON; None if there is no document of that
    name.
    """
    documents = Documents(table, features, logs=logs)
    found = documents.of(name)
    if found is None:
        return None
    routes, resources = found
    of = (resources[0].group, resources[0].version) if resources else None
    definitions = Definitions(True, resources, features, documents.facts, documents.descriptions)
    schemas = definitions.of_routes(routes, of)
    components: Document = {"schemas": schemas} if schemas else {}
    info = {"title": "Kubernetes", "version": features.shown_version}
    if resources and resources[0].custom:
        info = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    else:
        token = {"type": "apiKey", "in": "header", "name": "authorization"}
        components["securitySchemes"] = {"BearerToken": text(documents.descriptions.token) | token}
    writer = _Writer(documents.descriptions)
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": {path: writer.path_item(found, common) for path, found, common in by_path(routes)},
        "components": components,
    }


class _Writer:
    """Writes paths; parameters that are equal are written once."""

    def __init__(self, descriptions: Descriptions) -> None:
        self._descriptions = descriptions
        self._written: dict[Parameter, Document] = {}

    def path_item(self, routes: list[Route], common: list[Parameter]) -> Document:
        item: Document = {route.method: self._operation(route, common) for route in routes}
        if common:
            item["parameters"] = [self._parameter(each) for each in common]
        return item

    def _operation(self, route: Route, common: list[Parameter]) -> Document:
        made: Document = {"tags": list(route.tags), "operationId": route.operation}
        made |= text(self._descriptions.operation(route.operation))
        parameters = [self._parameter(each) for each in route.parameters if each not in common]
        if parameters:
            made["parameters"] = parameters
        if route.body:
            body: Document = {"content": _content(route.body, route.consumes)}
            if route.body_required:
                body["required"] = True
            made["requestBody"] = body
        content = _content(route.answer, route.produces)
        made["responses"] = {
            **{str(code): {"description": _DESCRIPTIONS[code], "content": content} for code in route.codes},
            "401": {"description": "Unauthorized"},
        }
        if route.gvk is not None:
            made["x-kubernetes-action"] = route.action
            made[GVK] = gvk_entry(route.gvk)
        return made

    def _parameter(self, parameter: Parameter) -> Document:
        found = self._written.get(parameter)
        if found is None:
            found = {"name": parameter.name, "in": parameter.place, **text(parameter.description)}
            if parameter.place == "path":
                found["required"] = True
            found["schema"] = {"type": parameter.type, "uniqueItems": True}
            self._written[parameter] = found
        return found


def _content(name: str, media_types: tuple[str, ...]) -> Document:
    schema = {"$ref": _SCHEMAS + name} if name else {"type": "string"}
    return {media_type: {"schema": schema} for media_type in sorted(media_types)}
