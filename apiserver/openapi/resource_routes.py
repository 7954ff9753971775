"""Lists the routes of built-in resources, as the installer of API groups makes them.

Source: apiserver pkg/endpoints/installer.go, 1.31 to 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.resources import GroupVersionKind, Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.facts import Facts
from kubeskew.apiserver.openapi.parameters import NOT_OF_COLLECTIONS, Parameter, Parameters
from kubeskew.apiserver.openapi.routes import (
    DELETE_OPTIONS,
    PATCH,
    STATUS,
    WATCH_EVENT,
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


def media_types(features: DocumentFeatures) -> tuple[str, ...]:
    """Returns the media types of objects."""
    return (*_PLAIN, *(_CBOR if features.cbor else ()))


class ResourceRoutes:
    """Lists the routes of one resource."""

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
        """Yields the routes of the resource itself."""
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
        """Yields the routes of a subresource with the body `kind`, or `options` to connect to it."""
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
        """Yields the deprecated paths of watches."""
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
        parameters = sorted((*self.parameters.of_path(path), *query))
        fields = {"gvk": self.resource.gvk, "produces": self.plain, **fields}
        return Route(path, method, operation, tags, tuple(parameters), action=action, **fields)


def _title(text: str) -> str:
    return text[:1].upper() + text[1:]
