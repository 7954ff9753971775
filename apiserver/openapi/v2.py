"""OpenAPI v2 document (`/openapi/v2`): definitions and paths of everything served.

Source: kube-openapi pkg/builder, 1.36.
"""

from kubeskew.apimachinery.resources import ResourceTable
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.definitions import GVK, Definitions, Document, gvk_entry
from kubeskew.apiserver.openapi.descriptions import Descriptions, text
from kubeskew.apiserver.openapi.paths import Documents
from kubeskew.apiserver.openapi.routes import Parameter, Parameters, Route, by_path

_DEFINITIONS = "#/definitions/"
_DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted"}


def v2(table: ResourceTable, features: DocumentFeatures, *, logs: bool = False) -> Document:
    """The document is plain JSON; `logs` adds the routes of `/logs`."""
    documents = Documents(table, features, logs=logs)
    routes, resources = documents.all()
    writer = _Writer(documents.parameters, documents.descriptions)
    definitions = Definitions(False, resources, features, documents.facts, documents.descriptions)
    paths = {path: writer.path_item(found, common) for path, found, common in by_path(routes)}
    made: Document = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": features.shown_version},
        "paths": paths,
        "definitions": definitions.of_routes(routes),
    }
    if writer.shared:
        made["parameters"] = dict(sorted(writer.shared.items()))
    token = {"type": "apiKey", "name": "authorization", "in": "header"}
    made["securityDefinitions"] = {"BearerToken": text(documents.descriptions.token) | token}
    made["security"] = [{"BearerToken": []}]
    return made


class _Writer:
    """Writes paths, and collects the parameters that they share."""

    def __init__(self, parameters: Parameters, descriptions: Descriptions) -> None:
        self.shared: dict[str, Document] = {}
        self._parameters = parameters
        self._descriptions = descriptions
        self._written: dict[Parameter, Document] = {}

    def path_item(self, routes: list[Route], common: list[Parameter]) -> Document:
        item: Document = {route.method: self._operation(route, common) for route in routes}
        if common:
            item["parameters"] = [self._parameter(parameter) for parameter in common]
        return item

    def _operation(self, route: Route, common: list[Parameter]) -> Document:
        parameters = [self._parameter(each) for each in route.parameters if each not in common]
        if route.body:
            parameters.insert(0, self._body(route))
        made: Document = {"consumes": list(route.consumes)} if route.consumes else {}
        if route.produces:
            made["produces"] = list(route.produces)
        made |= text(self._descriptions.operation(route.operation))
        made |= {"schemes": ["https"], "tags": list(route.tags), "operationId": route.operation}
        if parameters:
            made["parameters"] = parameters
        made["responses"] = {
            **{
                str(code): {"description": _DESCRIPTIONS[code], "schema": _schema(route)}
                for code in route.codes
            },
            "401": {"description": "Unauthorized"},
        }
        if route.gvk is not None:
            made["x-kubernetes-action"] = route.action
            made[GVK] = gvk_entry(route.gvk)
        return made

    def _body(self, route: Route) -> Document:
        body: Document = {"name": "body", "in": "body", "schema": {"$ref": _DEFINITIONS + route.body}}
        if route.body_required:
            body["required"] = True
        return self._share(self._parameters.body(route.body), body)

    def _parameter(self, parameter: Parameter) -> Document:
        written = self._written.get(parameter)
        if written is None:
            made: Document = {
                **text(parameter.description),
                "uniqueItems": True,
                "type": parameter.type,
                "name": parameter.name,
                "in": parameter.place,
            }
            if parameter.place == "path":
                made["required"] = True
            written = self._written[parameter] = self._share(parameter.shared, made)
        return written

    def _share(self, name: str, parameter: Document) -> Document:
        if not name:
            return parameter
        self.shared[name] = parameter
        return {"$ref": f"#/parameters/{name}"}


def _schema(route: Route) -> Document:
    return {"$ref": _DEFINITIONS + route.answer} if route.answer else {"type": "string"}
