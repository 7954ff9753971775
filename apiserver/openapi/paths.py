"""Paths of the documents: the routes of built-in resources, of custom resources and of no resource.

Sources: apiserver pkg/endpoints/installer.go, 1.31 to 1.36; apiserver
pkg/endpoints/discovery/{legacy,root,group,version}.go, pkg/server/routes/version.go;
pkg/routes/{openidmetadata,logs}.go, 1.31 to 1.36; apiextensions-apiserver
pkg/controller/openapi/builder/builder.go, 1.31 to 1.36.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kubeskew.apimachinery.catalogue.types import META, types_of
from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.definitions import kind_name, list_name
from kubeskew.apiserver.openapi.descriptions import descriptions_of
from kubeskew.apiserver.openapi.facts import Facts, facts_of
from kubeskew.apiserver.openapi.routes import (
    DELETE_OPTIONS,
    NOT_OF_COLLECTIONS,
    PATCH,
    STATUS,
    STRING,
    WATCH_EVENT,
    Parameter,
    Parameters,
    Route,
    base_path,
    identify,
)

_PLAIN = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_CBOR, _CBOR_STREAM = ("application/cbor",), ("application/cbor-seq",)
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip
_CBOR_PATCH = ("application/apply-patch+cbor",)
_ANYTHING = ("*/*",)
# Methods of a subresource that is connected to, by the verb that discovery shows.
_CONNECTING = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_PROXIED = ("head", "options")  # which have no verb
_PROXY = "proxy"  # the subresource that takes all methods and a path below it
_TEXTS = {"log": "PodLogOptions"}  # subresources that answer a text, and their options
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_JSON = ("application/json",)
_OF_DISCOVERY = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
OF_ISSUER = (".well-known/openid-configuration", "openid/v1/jwks")
_CUSTOM_TEXTS = ("application/json", "application/yaml")
_CUSTOM_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_OPTIONS = {
    "list": "ListOptions", "deletecollection": "ListOptions", "get": "GetOptions", "post": "CreateOptions",
    "put": "UpdateOptions", "patch": "PatchOptions", "delete": "DeleteOptions",
}  # fmt: skip
_CODES = {"post": (200, 201, 202), "put": (200, 201), "delete": (200, 202)}


def media_types(features: DocumentFeatures) -> tuple[str, ...]:
    return (*_PLAIN, *(_CBOR if features.cbor else ()))


class ResourceRoutes:
    def __init__(
        self, resource: Resource, parameters: Parameters, features: DocumentFeatures, facts: Facts
    ) -> None:
        self.resource = resource
        self.parameters = parameters
        self.kind = resource.schema.name
        self.plain = media_types(features)
        self.streamed = (*self.plain, *_STREAMS, *(_CBOR_STREAM if features.cbor else ()))
        self.patches = (*_PATCHES, *(_CBOR_PATCH if features.cbor else ()))
        self.base = base_path(resource.group, resource.version)
        scope = "namespaces/{namespace}/" if resource.namespaced else ""
        self.collection = f"{scope}{resource.plural}"
        self.item = f"{self.collection}/{{name}}"
        returned = f"{resource.plural}.{resource.group}".rstrip(".") in facts.returned
        self.deleted = self.kind if returned else STATUS

    def of_resource(self) -> Iterator[Route]:
        yield from self._of_collection()
        yield from self._read_write(self.item, self.resource.verbs, self.kind, self.resource.gvk, "")
        if "delete" in self.resource.verbs:
            yield self._make(
                self.item, "delete", "delete", "delete", options="DeleteOptions",
                body=DELETE_OPTIONS, body_required=False, answer=self.deleted, codes=(200, 202),
            )  # fmt: skip
        if "watch" in self.resource.verbs:
            yield from self._of_watches()

    def of_subresource(self, subresource: Subresource, kind: str, options: Schema | None) -> Iterator[Route]:
        """`kind` is the definition of the body; `options` are those of a connection."""
        path, tail, gvk = f"{self.item}/{subresource.name}", _title(subresource.name), subresource.gvk
        if options is not None:
            yield from self._connected(path, subresource, options)
            return
        if "create" in subresource.verbs:
            yield self._create(path, kind, gvk, tail)
        if subresource.name in _TEXTS:
            yield self._make(
                path, "get", "get", "read", options=_TEXTS[subresource.name], tail=tail, gvk=gvk,
                produces=("text/plain", *self.plain),
            )  # fmt: skip
            return
        yield from self._read_write(path, subresource.verbs, kind, gvk, tail)

    def _of_collection(self) -> Iterator[Route]:
        verbs, listed = self.resource.verbs, f"{self.kind}List"
        kept: dict[str, Any] = {"options": "ListOptions", "answer": listed, "produces": self.streamed}
        if "list" in verbs:
            yield self._make(self.collection, "get", "list", "list", **kept)
        if "create" in verbs:
            yield self._create(self.collection, self.kind, self.resource.gvk, "")
        if "deletecollection" in verbs:
            chosen = [
                each for each in self.parameters.options("ListOptions") if each.name not in NOT_OF_COLLECTIONS
            ]
            yield self._make(
                self.collection, "delete", "deletecollection", "deletecollection", options="DeleteOptions",
                more=tuple(chosen), body=DELETE_OPTIONS, body_required=False, answer=STATUS,
            )  # fmt: skip
        if "list" in verbs and self.resource.namespaced:
            yield self._make(self.resource.plural, "get", "list", "list", everywhere=True, **kept)

    def _of_watches(self) -> Iterator[Route]:
        """Upstream has deprecated these paths below /watch."""
        kept: dict[str, Any] = {
            "options": "ListOptions", "answer": WATCH_EVENT, "produces": self.streamed,
        }  # fmt: skip
        if "list" in self.resource.verbs:
            listed = {**kept, "tail": "List"}
            yield self._make(f"watch/{self.collection}", "get", "watchlist", "watch", **listed)
            if self.resource.namespaced:
                path = f"watch/{self.resource.plural}"
                yield self._make(path, "get", "watchlist", "watch", everywhere=True, **listed)
        yield self._make(f"watch/{self.item}", "get", "watch", "watch", **kept)

    def _create(self, path: str, kind: str, gvk: GroupVersionKind, tail: str) -> Route:
        return self._make(
            path, "post", "post", "create", options="CreateOptions",
            body=kind, answer=kind, codes=(200, 201, 202), gvk=gvk, tail=tail,
        )  # fmt: skip

    def _read_write(
        self, path: str, verbs: frozenset[str], kind: str, gvk: GroupVersionKind, tail: str
    ) -> Iterator[Route]:
        if "get" in verbs:
            yield self._make(path, "get", "get", "read", answer=kind, gvk=gvk, tail=tail)
        if "update" in verbs:
            yield self._make(
                path, "put", "put", "replace", options="UpdateOptions",
                body=kind, answer=kind, codes=(200, 201), gvk=gvk, tail=tail,
            )  # fmt: skip
        if "patch" in verbs:
            yield self._make(
                path, "patch", "patch", "patch", options="PatchOptions",
                body=PATCH, answer=kind, codes=(200, 201), consumes=self.patches, gvk=gvk, tail=tail,
            )  # fmt: skip

    def _connected(self, path: str, subresource: Subresource, options: Schema) -> Iterator[Route]:
        methods = [_CONNECTING[verb] for verb in sorted(subresource.verbs)]
        below = [("", path)]
        if subresource.name == _PROXY:
            methods += _PROXIED
            below.append(("WithPath", f"{path}/{{path}}"))
        more = self.parameters.of_schema(subresource.gvk.kind, options)
        for suffix, each in below:
            for method in methods:
                yield self._make(
                    each, method, "connect", f"connect{_title(method)}", pretty=False, more=more,
                    tail=_title(subresource.name) + suffix, gvk=subresource.gvk,
                    produces=_ANYTHING,
                )  # fmt: skip

    def _make(
        self, path: str, method: str, action: str, verb: str, *, options: str = "",
        more: tuple[Parameter, ...] = (), pretty: bool = True, tail: str = "", everywhere: bool = False,
        **fields: Any,
    ) -> Route:  # fmt: skip
        kind = self.resource.kind
        namespaced = "Namespaced" if self.resource.namespaced and not everywhere else ""
        name = f"{verb}{namespaced}{kind}{tail}" + ("ForAllNamespaces" if everywhere else "")
        path = f"{self.base}/{path}"
        operation, tags = identify(name, path)
        query = (*(self.parameters.options(options) if options else ()), *more)
        if pretty:
            query = (self.parameters.pretty, *query)
        fields = {"gvk": self.resource.gvk, "produces": self.plain, **fields}
        parameters = sorted((*self.parameters.of_path(path, fields["gvk"].kind), *query))
        return Route(path, method, operation, tags, tuple(parameters), action=action, **fields)


def _title(text: str) -> str:
    return text[:1].upper() + text[1:]


def plain_routes() -> dict[str, list[Route]]:
    """Keys are documents of v3; routes of groups are not among them."""
    configuration, keys = OF_ISSUER
    return {
        configuration: [_get(configuration, "getServiceAccountIssuerOpenIDConfiguration", STRING, _JSON)],
        keys: [_get(keys, "getServiceAccountIssuerOpenIDKeyset", STRING, ("application/jwk-set+json",))],
        "version": [_get("version", "getCodeVersion", _VERSION, _JSON, _JSON)],
        "api": [_discovery("api", "getAPIVersions", "APIVersions")],
        "apis": [_discovery("apis", "getAPIVersions", "APIGroupList")],
    }


def logs_routes(parameters: Parameters) -> dict[str, list[Route]]:
    routes = []
    for path, name in (("/logs/", "logFileListHandler"), ("/logs/{logpath}", "logFileHandler")):
        operation, tags = identify(name, path)
        routes.append(Route(path, "get", operation, tags, parameters.of_path(path), consumes=(), codes=()))
    return {"logs": routes}


def group_route(group: str) -> Route:
    return _discovery(f"apis/{group}", "getAPIGroup", "APIGroup")


def version_route(group: str, version: str, features: DocumentFeatures) -> Route:
    path = base_path(group, version).removeprefix("/")
    types = media_types(features)
    return _get(path, "getAPIResources", f"{META}APIResourceList", types, types)


def _discovery(path: str, operation: str, kind: str) -> Route:
    return _get(path, operation, META + kind, _OF_DISCOVERY, _OF_DISCOVERY)


def _get(
    path: str, name: str, answer: str, produces: tuple[str, ...], consumes: tuple[str, ...] = ()
) -> Route:
    operation, tags = identify(name, path)
    return Route(f"/{path}/", "get", operation, tags, consumes=consumes, produces=produces, answer=answer)


def custom_routes(resource: Resource, name: str, listed: str, parameters: Parameters) -> Iterator[Route]:
    """`name` is the definition of the kind, `listed` that of its list."""
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
        tuple(sorted((*parameters.of_path(path, resource.kind), *query))),
        consumes=_CUSTOM_PATCHES if action == "patch" else _CUSTOM_TEXTS,
        produces=_CUSTOM_TEXTS,
        answer=answer,
        codes=_CODES.get(action, (200,)),
        body=body,
        body_required=body != DELETE_OPTIONS,
        action=action,
        gvk=resource.gvk,
    )


class Documents:
    """Lists the routes of a table's resources, and of discovery, version and OpenID."""

    def __init__(self, table: ResourceTable, features: DocumentFeatures, *, logs: bool) -> None:
        self.table = table
        self.features = features
        self.facts = facts_of(features.version)
        self.descriptions = descriptions_of(features.version)
        self.parameters = Parameters(features)
        self._plain = plain_routes() | (logs_routes(self.parameters) if logs else {})
        self._types = types_of(features.version)

    def names(self) -> Iterator[str]:
        """Names are those of v3: `api/v1`, `apis/apps`, `version`."""
        yield from self._plain
        for group, versions in self.table.groups():
            if group and any(not self.is_custom(group, version) for version in versions):
                yield f"apis/{group}"
            yield from (base_path(group, version).removeprefix("/") for version in versions)

    def is_custom(self, group: str, version: str) -> bool:
        return any(resource.custom for resource in self.table.resources(group, version))

    def of(self, name: str) -> tuple[list[Route], list[Resource]] | None:
        """None if there is no document of that name; the resources are those that the routes serve."""
        plain = self._plain.get(name)
        if plain:
            return plain, []
        root, *parts = name.split("/")
        groups = dict(self.table.groups())
        if root == "apis" and len(parts) == 1:
            shown = name in set(self.names())
            return ([group_route(parts[0])], []) if shown else None
        if (root, len(parts)) not in (("api", 1), ("apis", 2)) or parts[-1] not in groups.get(
            "".join(parts[:-1]), ()
        ):
            return None
        return self.of_version("".join(parts[:-1]), parts[-1])

    def of_version(self, group: str, version: str) -> tuple[list[Route], list[Resource]]:
        """The group and version must be served."""
        resources = list(self.table.resources(group, version))
        routes = list(self._of_resources(resources))
        if not self.is_custom(group, version):
            routes.append(version_route(group, version, self.features))
        return routes, resources

    def all(self) -> tuple[list[Route], list[Resource]]:
        routes, resources = [], []
        for name in self.names():
            found = self.of(name)
            if found:
                routes += found[0]
                resources += found[1]
        return routes, resources

    def _of_resources(self, resources: Iterable[Resource]) -> Iterator[Route]:
        for resource in resources:
            if resource.custom:
                yield from custom_routes(resource, kind_name(resource), list_name(resource), self.parameters)
                continue
            routes = ResourceRoutes(resource, self.parameters, self.features, self.facts)
            yield from routes.of_resource()
            for subresource in resource.subresources.values():
                schema = self._types.of_kind(*subresource.gvk)
                options = schema if subresource.gvk.kind.endswith("Options") else None
                yield from routes.of_subresource(subresource, schema.name if schema else "", options)
