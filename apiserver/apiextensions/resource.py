"""Builds the resources of a definition: one per version, with scale, columns and selectable fields.

Sources: apiextensions-apiserver pkg/registry/customresource/tableconvertor/tableconvertor.go, 1.36;
apiextensions-apiserver pkg/apiserver/customresource_handler.go (getOrCreateServingInfoFor), 1.36.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import STANDARD_VERBS, Column, GroupVersionKind, Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.json_path import JSONPath, JSONPathError
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.features import RequestFeatures, SchemaFeatures
from kubeskew.apiserver.storage.interfaces import Watch
from kubeskew.apiserver.structuralschema import Structural, to_schema
from kubeskew.apiserver.structuralschema.model import StructuralResource

_numbers = count(1)
AGE: Object = {
    "name": "Age",
    "type": "date",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is "
        "not guaranteed to be set in happens-before order across separate operations. Clients may not set "
        "this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. "
        "Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
    "jsonPath": ".metadata.creationTimestamp",
}
_SHOWN_BY_PATH = "Custom resource definition column (in JSONPath format): "
GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
STORED_AS = f"{PLURAL}.{GROUP}"

_ITEM_VERBS = frozenset({"get", "patch", "update"})
_LAST_EVENTS_SECONDS = 0.1
_TERMINATING_VERBS = frozenset({"delete", "deletecollection", "get", "list", "watch"})


class ServedDefinition(Protocol):
    """Handlers of custom objects see this of a definition."""

    watches: dict[Watch, None]  # of its objects

    @property
    def webhook(self) -> Object | None:
        """None if versions differ in their name only."""

    @property
    def is_terminating(self) -> bool:
        """A condition says that its objects are being deleted before it."""

    @property
    def is_deleted(self) -> bool:
        """Finalizers keep a definition that somebody has deleted."""

    def resource_of(self, gvk: GroupVersionKind) -> Resource | None:
        """Versions that are not served count too; None for other kinds."""


@dataclass(frozen=True, slots=True, eq=False)
class CustomResource(StructuralResource):
    """One version of a custom resource has its columns, scale and warning next to its schema."""

    definition: ServedDefinition | None = None
    paths: tuple[JSONPath, ...] = ()  # of the columns
    scale: ScalePaths | None = None
    warning: str = ""  # of a deprecated version
    list_name: str = ""
    number: int = field(
        default_factory=lambda: next(_numbers)
    )  # the key of caches, since a definition may be large

    @property
    def list_kind(self) -> str:
        return self.list_name


def takes_nothing_new(resource: Resource, features: RequestFeatures) -> bool:
    """Objects cannot be created while their definition goes (customresource_handler.go, `terminating`)."""
    if not isinstance(resource, CustomResource) or resource.definition is None:
        return False
    definition = resource.definition
    return definition.is_terminating or (definition.is_deleted and not features.new_after_cleanup)


def column_of(given: Object) -> Column:
    description = given.get("description") or f"{_SHOWN_BY_PATH}{given['jsonPath']}"
    return Column(
        given["name"], given["type"], given.get("format") or "", description, given.get("priority") or 0
    )


class Definition:
    """A stored definition with its accepted names; resources are built when they are first needed."""

    def __init__(
        self, obj: Object, revision: int, created: int, metadata: Schema, features: SchemaFeatures
    ) -> None:
        self.obj = obj
        self.revision = revision  # at which the definition was read
        self.created = created
        self.spec: Object = obj["spec"]
        self.status: Object = obj.get("status") or {}
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"]["uid"]
        self.group: str = self.spec["group"]
        self.names: Object = self.status.get("acceptedNames") or {}
        self.namespaced: bool = self.spec.get("scope") == "Namespaced"
        self.versions: dict[str, Object] = {
            version["name"]: version for version in self.spec.get("versions") or []
        }
        self.storage = next((name for name, version in self.versions.items() if version.get("storage")), "")
        self._metadata = metadata
        self._features = features
        self._resources: dict[str, CustomResource] = {}
        self.watches: dict[Watch, None] = {}  # of its objects; they end when the definition changes

    def is_true(self, condition: str) -> bool:
        return is_condition_true(self.obj, condition)

    @property
    def is_established(self) -> bool:
        return self.is_true("Established")

    @property
    def is_terminating(self) -> bool:
        return self.is_true("Terminating")

    @property
    def is_deleted(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    @property
    def is_served(self) -> bool:
        """Requests are answered a moment before discovery lists the resource."""
        return self.is_established or self.is_true("NamesAccepted")

    @property
    def plural(self) -> str:
        plural: str = self.spec["names"]["plural"]
        return plural

    @property
    def kind(self) -> str:
        kind: str = self.names.get("kind") or self.spec["names"]["kind"]
        return kind

    @property
    def stored_as(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def webhook(self) -> Object | None:
        conversion = self.spec.get("conversion") or {}
        return conversion.get("webhook") if conversion.get("strategy") == "Webhook" else None

    def makes_same_as(self, other: "Definition") -> bool:
        return (self.uid, self.names, self.spec) == (other.uid, other.names, other.spec)

    def follow(self, newer: "Definition") -> None:
        """`newer` makes the same resources; its conditions and revision replace those known."""
        if newer.is_terminating != self.is_terminating:
            self._resources = {}  # they have other verbs now
        self.obj, self.status, self.revision = newer.obj, newer.status, newer.revision

    def end_watches(self) -> None:
        """Watchers receive the last events and are ended: they come again for the changed resource."""
        for watch in self.watches:
            asyncio.get_running_loop().call_later(_LAST_EVENTS_SECONDS, watch.close)

    def resource(self, version: str) -> CustomResource:
        """Versions that are not served count too; KeyError for one that is not defined."""
        found = self._resources.get(version)
        if found is None:
            found = self._resources[version] = self._build(self.versions[version])
        return found

    def resource_of(self, gvk: GroupVersionKind) -> CustomResource | None:
        is_own = (gvk.group, gvk.kind) == (self.group, self.kind) and gvk.version in self.versions
        return self.resource(gvk.version) if is_own else None

    def _build(self, version: Object) -> CustomResource:
        names, name = self.names or self.spec["names"], version["name"]
        structural = Structural.of((version.get("schema") or {}).get("openAPIV3Schema"), self._features)
        subresources = version.get("subresources") or {}
        columns, paths = _columns(version.get("additionalPrinterColumns") or [AGE])
        return CustomResource(
            group=self.group,
            version=name,
            plural=self.plural,
            singular=names.get("singular") or "",
            kind=self.kind,
            namespaced=self.namespaced,
            verbs=_TERMINATING_VERBS if self.is_terminating else STANDARD_VERBS,
            schema=to_schema(structural, self._metadata),
            storage=GroupVersionKind(self.group, self.storage, self.kind),
            storage_resource=self.stored_as,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=self._subresources(name, subresources),
            columns=columns,
            custom=True,
            structural=structural,
            definition=self,
            paths=paths,
            selectable=tuple(
                field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
            ),
            scale=_scale(subresources.get("scale")),
            warning=self._warning(version),
            list_name=names.get("listKind") or f"{self.kind}List",
        )

    def _subresources(self, version: str, wanted: Object) -> dict[str, Subresource]:
        found = {}
        if wanted.get("status") is not None:
            kind = GroupVersionKind(self.group, version, self.kind)
            found["status"] = Subresource("status", kind, _ITEM_VERBS)
        if wanted.get("scale") is not None:
            kind = GroupVersionKind("autoscaling", "v1", "Scale")
            found["scale"] = Subresource("scale", kind, _ITEM_VERBS)
        return found

    def _warning(self, version: Object) -> str:
        if not version.get("deprecated"):
            return ""
        given: str | None = version.get("deprecationWarning")
        return f"{self.group}/{version['name']} {self.kind} is deprecated" if given is None else given


def _columns(given: Sequence[Object]) -> tuple[tuple[Column, ...], tuple[JSONPath, ...]]:
    """Columns end before the first whose path cannot be read."""
    paths = []
    for column in given:
        try:
            paths.append(JSONPath(column["jsonPath"]))
        except JSONPathError:
            break
    return tuple(map(column_of, given[: len(paths)])), tuple(paths)


def _scale(given: Object | None) -> ScalePaths | None:
    if given is None:
        return None
    return ScalePaths(
        given["specReplicasPath"].removeprefix("."),
        given["statusReplicasPath"].removeprefix("."),
        (given.get("labelSelectorPath") or "").removeprefix("."),
    )
