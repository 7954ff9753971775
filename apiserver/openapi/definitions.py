"""Makes the definitions of a document: kinds, their lists, custom resources, and what all of these refer to.

Which kinds a definition is: apiserver pkg/endpoints/openapi/openapi.go (DefinitionNamer); that a document of
v3 names only its own group's since 1.36: pkg/server/routes/openapi.go (filterScopedGVKs).
"""

from collections.abc import Iterable

from kubeskew.apimachinery.catalogue.types import LIST_META, META, Types, types_of
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.custom import custom_kind, custom_list
from kubeskew.apiserver.openapi.facts import Facts
from kubeskew.apiserver.openapi.rendering import Document, Renderer, definition_name, gvk_entries
from kubeskew.apiserver.openapi.routes import DELETE_OPTIONS, WATCH_EVENT, Route

_STRING = Schema(Kind.STRING)
_SHARED_KINDS = {DELETE_OPTIONS: "DeleteOptions", WATCH_EVENT: "WatchEvent"}
_META_KINDS = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status")
# Groups that kube-apiserver knows and client-go, with whose kinds custom resources are described, does not.
_NOT_OF_CLIENTS = frozenset(
    {"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}
)


class Definitions:
    """Makes the definitions of one document that its routes need."""

    def __init__(
        self, modern: bool, resources: Iterable[Resource], features: DocumentFeatures, facts: Facts
    ) -> None:
        self.types: Types = types_of(features.version)
        self.renderer = Renderer(modern, self.types, features, facts)
        self._resources: dict[str, Resource] = {}
        self._lists: dict[str, Resource] = {}
        for resource in resources:
            self._resources[kind_name(resource)] = resource
            self._lists[list_name(resource)] = resource

    def of_routes(self, routes: Iterable[Route], of: tuple[str, str] | None = None) -> dict[str, Document]:
        """Returns every definition that routes name, and what these refer to; `of` a group and version."""
        renderer = self.renderer
        for route in routes:
            for name in (route.answer, route.body):
                if name:  # else a text, or nothing
                    renderer.reference(name)
        listed = [
            GroupVersionKind(group, version, "")
            for group, version in renderer.facts.registered
            if self._names(group, version, of)
        ]
        return renderer.finish(lambda name: self._define(name, listed))

    def _names(self, group: str, version: str, of: tuple[str, str] | None) -> bool:
        """Decides whether a document names the kinds that all groups have of a group and version."""
        if of is None:
            return True
        if any(resource.custom for resource in self._resources.values()):
            return group not in _NOT_OF_CLIENTS
        return not self.renderer.features.kinds_of_document or (group, version) in (of, ("", "v1"))

    def _define(self, name: str, registered: list[GroupVersionKind]) -> Document:
        resource, listed = self._resources.get(name), self._lists.get(name)
        if resource is not None and resource.custom:
            return custom_kind(self.renderer, resource)
        if listed is not None:
            return self._list(listed)
        return self.renderer.shape(self.types[name]) | gvk_entries(self._kinds(name, registered))

    def _kinds(self, name: str, registered: list[GroupVersionKind]) -> list[GroupVersionKind]:
        if name in _SHARED_KINDS:
            return [gvk._replace(kind=_SHARED_KINDS[name]) for gvk in registered]
        kind = name.removeprefix(META)
        if kind in _META_KINDS:
            return [GroupVersionKind("", "v1", kind)]
        found = self.types.kind_of(name)
        return [found] if found else []

    def _list(self, resource: Resource) -> Document:
        gvk = GroupVersionKind(resource.group, resource.version, resource.list_kind)
        if resource.custom:
            return custom_list(self.renderer, resource, kind_name(resource)) | gvk_entries([gvk])
        items = Schema(Kind.LIST, items=self.types[kind_name(resource)], list_type_implied=True)
        fields = {
            "apiVersion": Field(_STRING),
            "kind": Field(_STRING),
            "metadata": Field(self.types[LIST_META], omit_empty=False),
            "items": Field(items, required=True, omit_empty=False),
        }
        return self.renderer.shape(Schema(Kind.OBJECT, list_name(resource), fields=fields)) | gvk_entries(
            [gvk]
        )


def kind_name(resource: Resource) -> str:
    """Returns the name of the definition of a resource's kind."""
    return definition_name(resource.group, resource.version, resource.kind, resource.schema)


def list_name(resource: Resource) -> str:
    """Returns the name of the definition of a list of a resource's kind."""
    if not resource.custom:
        return f"{kind_name(resource)}List"
    return definition_name(resource.group, resource.version, resource.list_kind, resource.schema)
