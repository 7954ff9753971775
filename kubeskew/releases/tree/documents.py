"""OpenAPI documents of a tree: what `api/openapi-spec` says without its prose, and the prose alone.

The sources are `swagger.json` (v2) and the documents of `v3`, which upstream's `hack/update-openapi-spec.sh`
writes with every API version and gate on.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from kubeskew.releases.tree.doc_comments import Comments
from kubeskew.releases.tree.source_tree import SourceTree

Document = dict[str, Any]

V2 = "api/openapi-spec/swagger.json"
_DOCUMENT = "OpenAPI document of Kubernetes"
_GVK = "x-kubernetes-group-version-kind"
_REFERENCE = "#/definitions/"
# Members of schemas, of which what is read further has to be of these types.
_MEMBERS: dict[str, type] = {
    "$ref": str, "format": str, "required": list, "type": str, "x-kubernetes-group-version-kind": list,
    "x-kubernetes-list-map-keys": list, "x-kubernetes-list-type": str, "x-kubernetes-map-type": str,
    "x-kubernetes-patch-merge-key": str, "x-kubernetes-patch-strategy": str,
}  # fmt: skip
_METHODS = ("delete", "get", "head", "options", "patch", "post", "put")


def openapi(tree: SourceTree) -> Document:
    """`definitions` as published, and `paths` with id, action, kind and names of the parameters of every
    operation.
    """
    document = tree.json(V2)
    try:
        known = document["definitions"]
        return {
            "version": f"1.{tree.minor}",
            "definitions": {name: _without_prose(schema, known) for name, schema in sorted(known.items())},
            "paths": {path: _path(item) for path, item in sorted(document["paths"].items())},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise tree.misshapen(V2, _DOCUMENT, error) from None


def descriptions(tree: SourceTree) -> Document:
    """The prose of v2, with which v3 agrees, by what it describes:

    definitions  `{definition: {"doc": text, "fields": {field: text}}}`; what Go types of the document's API
                 versions have and the document lacks is described by the comments
    operations   texts by operation id
    parameters   texts by the names of shared parameters, else by their own; that of `name` has `{kind}`
                 where documents name the kind
    token        the text of the bearer token
    """
    document = tree.json(V2)
    try:
        return {
            "definitions": dict(_described(_with_comments(document["definitions"], tree))),
            "operations": dict(sorted(_operations(document))),
            "parameters": dict(sorted(_parameters(document))),
            "token": document["securityDefinitions"]["BearerToken"].get("description", ""),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise tree.misshapen(V2, _DOCUMENT, error) from None


def _with_comments(definitions: Document, tree: SourceTree) -> Document:
    versions = {name.rpartition(".")[0] for name in definitions}
    made = dict(definitions)
    for name, comments in Comments(tree).definitions():
        if name.rpartition(".")[0] in versions:
            published = definitions.get(name, {"description": comments["doc"]})
            fields = {field: {"description": text} for field, text in comments["fields"].items()}
            made[name] = {**published, "properties": fields | published.get("properties", {})}
    return made


def _described(definitions: Document) -> Iterator[tuple[str, Document]]:
    for name, schema in sorted(definitions.items()):
        properties = sorted(schema.get("properties", {}).items())
        fields = {field: shape["description"] for field, shape in properties if shape.get("description")}
        made: Document = {"doc": schema["description"]} if schema.get("description") else {}
        if made or fields:
            yield name, made | ({"fields": fields} if fields else {})


def _operations(document: Document) -> Iterator[tuple[str, str]]:
    for item in document["paths"].values():
        for method in _METHODS:
            if item.get(method, {}).get("description"):
                yield item[method]["operationId"], item[method]["description"]


def _parameters(document: Document) -> Iterator[tuple[str, str]]:
    for name, parameter in document.get("parameters", {}).items():
        if parameter.get("description"):
            yield name, parameter["description"]
    for item in document["paths"].values():
        operations = [item[method] for method in _METHODS if method in item]
        kind = next((operation[_GVK]["kind"] for operation in operations if _GVK in operation), "")
        listed = [operation.get("parameters", ()) for operation in operations]
        for parameter in chain(item.get("parameters", ()), *listed):
            if parameter.get("description"):
                text = parameter["description"]
                named = parameter["name"] == "name" and kind
                yield parameter["name"], text.replace(kind, "{kind}") if named else text


def _without_prose(schema: Document, known: Document) -> Document:
    """Properties may be named `description`: their names stay. Raises TypeError or KeyError for what is no
    schema, or refers to none of the `known` definitions.
    """
    made: Document = {}
    for key, value in schema.items():
        if key in _MEMBERS and not isinstance(value, _MEMBERS[key]):
            raise TypeError(f"{key} is {value!r}")
        if key == "$ref" and value.removeprefix(_REFERENCE) not in known:
            raise KeyError(value)
        if key == "properties":
            made[key] = {name: _without_prose(shape, known) for name, shape in sorted(value.items())}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            made[key] = _without_prose(value, known)
        elif key != "description":
            made[key] = value
    return made


def _path(item: Document) -> Document:
    return {method: _operation(method, item[method]) for method in _METHODS if method in item}


def _operation(method: str, operation: Document) -> Document:
    made: Document = {"id": operation["operationId"]}
    if _GVK in operation:
        made |= {"action": operation["x-kubernetes-action"], "gvk": operation[_GVK]}
    names = [_parameter_name(each) for each in operation.get("parameters", ())]
    if names:
        made["params"] = sorted(names)
    if method == "patch":
        made["consumes"] = operation["consumes"]
    return made


def _parameter_name(parameter: Document) -> str:
    """A shared parameter has the name under which it is shared."""
    reference = parameter.get("$ref", "")
    return str(reference.removeprefix("#/parameters/") or parameter["name"])
