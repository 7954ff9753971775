"""Lists the routes of a custom resource.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, 1.31 to 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.openapi.parameters import Parameters
from kubeskew.apiserver.openapi.routes import DELETE_OPTIONS, PATCH, STATUS, Route, base_path, identify

_TEXTS = ("application/json", "application/yaml")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_OPTIONS = {
    "list": "ListOptions", "deletecollection": "ListOptions", "get": "GetOptions", "post": "CreateOptions",
    "put": "UpdateOptions", "patch": "PatchOptions", "delete": "DeleteOptions",
}  # fmt: skip
_CODES = {"post": (200, 201, 202), "put": (200, 201), "delete": (200, 202)}


def custom_routes(resource: Resource, name: str, listed: str, parameters: Parameters) -> Iterator[Route]:
    """Yields the routes of a resource whose kind has the definition `name`, and the list of it `listed`."""
    base = base_path(resource.group, resource.version)
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{base}{scope}/{resource.plural}"
    bodies = {sub: name for sub in ("", "status") if not sub or sub in resource.subresources}
    if "scale" in resource.subresources:
        gvk = resource.subresources["scale"].gvk
        bodies["scale"] = f"io.k8s.api.{gvk.group}.{gvk.version}.{gvk.kind}"
    yield from _collection(resource, parameters, collection, name, listed)
    for subresource, kind in bodies.items():
        path = f"{collection}/{{name}}" + (f"/{subresource}" if subresource else "")
        yield _route(resource, parameters, path, "get", "read", kind, tail=subresource)
        yield _route(resource, parameters, path, "put", "replace", kind, body=kind, tail=subresource)
        if not subresource:
            yield _route(resource, parameters, path, "delete", "delete", STATUS, body=DELETE_OPTIONS)
        yield _route(resource, parameters, path, "patch", "patch", kind, body=PATCH, tail=subresource)


def _collection(
    resource: Resource, parameters: Parameters, path: str, name: str, listed: str
) -> Iterator[Route]:
    yield _route(resource, parameters, path, "list", "list", listed)
    if resource.namespaced:
        everywhere = f"{base_path(resource.group, resource.version)}/{resource.plural}"
        yield _route(resource, parameters, everywhere, "list", "list", listed)
    yield _route(resource, parameters, path, "post", "create", name, body=name)
    yield _route(resource, parameters, path, "deletecollection", "deletecollection", STATUS)


def _route(
    resource: Resource, parameters: Parameters, path: str, action: str, verb: str, answer: str, *,
    body: str = "", tail: str = "",
) -> Route:  # fmt: skip
    everywhere = resource.namespaced and "{namespace}" not in path
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    suffix = "ForAllNamespaces" if everywhere else tail.title()
    operation, tags = identify(f"{verb}{scope}{resource.kind}{suffix}", path)
    query = (parameters.pretty, *parameters.options(_OPTIONS[action]))
    return Route(
        path,
        {"list": "get", "deletecollection": "delete"}.get(action, action),
        operation,
        tags,
        tuple(sorted((*parameters.of_path(path), *query))),
        consumes=_PATCHES if action == "patch" else _TEXTS,
        produces=_TEXTS,
        answer=answer,
        codes=_CODES.get(action, (200,)),
        body=body,
        body_required=body != DELETE_OPTIONS,
        action=action,
        gvk=resource.gvk,
    )
