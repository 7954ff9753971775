"""Resources of definitions, one per version, and the table of all served ones: built-in ones and these.

A definition has scale, columns and selectable fields.

Sources, all 1.36: k8s.io/apimachinery/pkg/version/helpers.go (CompareKubeAwareVersionStrings),
apiextensions-apiserver (pkg/registry/customresource/tableconvertor/tableconvertor.go,
pkg/apiserver/customresource_handler.go (getOrCreateServingInfoFor), customresource_discovery_controller.go),
and kube-aggregator (order of groups and versions).
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.catalogue.types import OBJECT_META
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import STANDARD_VERBS, Column, GroupVersionKind, Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.json_path import JSONPath, JSONPathError
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.features import Features, RequestFeatures, SchemaFeatures
from kubeskew.apiserver.storage.interfaces import Store, Watch
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.structuralschema import Structural, to_schema
from kubeskew.apiserver.structuralschema.model import StructuralResource
from kubeskew.apiserver.unreadable import known_object

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


_KUBERNETES = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"": 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """The preferred version sorts first; names of another form follow by alphabet."""
    found = _KUBERNETES.fullmatch(version)
    if found is None:
        return len(_STAGES), 0, 0, version
    major, stage, minor = found.groups("")
    return _STAGES[stage], -int(major), -int(minor or 0), version


class StoredDefinitions:
    """Follows the store; a definition that did not change stays the same value, and so do its resources."""

    def __init__(self, store: Store, metadata: Schema, features: SchemaFeatures) -> None:
        self._store = store
        self._metadata = metadata
        self._features = features
        self._known: dict[str, Definition] = {}
        self._seen = -1
        self.generation = 0  # grows with every change

    def get(self) -> Mapping[str, Definition]:
        """Definitions stand by name, as of the newest revision that this server has applied."""
        seen = self._store.changed(STORED_AS)
        if seen != self._seen:
            self._seen = seen
            self._read(self._store.list(STORED_AS).entries)
        return self._known

    def _read(self, entries: Iterable[Entry]) -> None:
        before = self._known
        found = ((entry.key.name, self._definition(entry)) for entry in entries)
        self._known = {name: definition for name, definition in found if definition is not None}
        self.generation += 1
        for name, definition in before.items():
            if self._known.get(name) is not definition:
                definition.end_watches()

    def _definition(self, entry: Entry) -> Definition | None:
        """None for a definition that cannot be read: it defines nothing then."""
        known = self._known.get(entry.key.name)
        if known is not None and known.revision == entry.revision:
            return known
        obj = known_object(entry)
        if obj is None:
            return None
        found = Definition(obj, entry.revision, entry.created, self._metadata, self._features)
        if known is not None and known.makes_same_as(found):
            known.follow(found)
            return known
        if known is None or known.uid != found.uid:
            self._store.begin_cache(found.stored_as, entry.created)
        else:
            self._store.refill(found.stored_as)  # its watches end, too (customresource_handler.go)
        return found


class Snapshot:
    """The table at one moment; it does not change."""

    def __init__(self, builtin: Catalogue, definitions: Iterable[Definition], generation: int) -> None:
        self.generation = generation
        self._builtin = builtin
        own = {(group, version) for group, versions in builtin.groups() for version in versions}
        self._plurals: dict[tuple[str, str, str], Definition] = {}
        self._kinds: dict[tuple[str, str, str], Definition] = {}
        self._established: dict[tuple[str, str], list[Definition]] = {}
        for definition in definitions:
            for name, version in definition.versions.items():
                if (definition.group, name) not in own:
                    self._add(definition, name, served=bool(version.get("served")))
        self._groups = self._merge()

    def _add(self, definition: Definition, version: str, *, served: bool) -> None:
        group = definition.group
        if definition.is_served:
            self._kinds[group, version, definition.kind] = definition
            if served:
                self._plurals[group, version, definition.plural] = definition
        if definition.is_established and served:
            self._established.setdefault((group, version), []).append(definition)

    def _merge(self) -> list[tuple[str, list[str]]]:
        versions = {group: list(listed) for group, listed in self._builtin.groups()}
        added: dict[str, list[str]] = {}
        for group, version in self._established:
            added.setdefault(group, []).append(version)
        for group in sorted(added):
            versions.setdefault(group, []).extend(sorted(added[group], key=version_order))
        return list(versions.items())

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        found = self._builtin.resource(group, version, plural)
        return found if found is not None else self.custom(group, version, plural)

    def custom(self, group: str, version: str, plural: str) -> CustomResource | None:
        definition = self._plurals.get((group, version, plural))
        return definition.resource(version) if definition else None

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        found = self._builtin.by_kind(group, version, kind)
        if found is not None:
            return found
        definition = self._kinds.get((group, version, kind))
        return definition.resource(version) if definition else None

    def defines(self, group: str, version: str) -> bool:
        """Only served versions of established definitions count; a group version is built in or custom."""
        return (group, version) in self._established

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        return self._groups

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        definitions = self._established.get((group, version))
        if definitions is None:
            return self._builtin.resources(group, version)
        return [
            definition.resource(version) for definition in sorted(definitions, key=lambda one: one.plural)
        ]


class ComposedTable:
    """Each call sees the newest definitions; `now()` is the table to keep while making a document."""

    def __init__(self, builtin: Catalogue, stored: StoredDefinitions) -> None:
        self.builtin = builtin
        self.stored = stored
        self._snapshot = Snapshot(builtin, (), 0)

    def now(self) -> Snapshot:
        definitions = self.stored.get()
        if self._snapshot.generation != self.stored.generation:
            self._snapshot = Snapshot(self.builtin, definitions.values(), self.stored.generation)
        return self._snapshot

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        found = self.builtin.resource(group, version, plural)
        return found if found is not None else self.now().custom(group, version, plural)

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Versions that are known but not served count too."""
        return self.builtin.by_kind(group, version, kind) or self.now().by_kind(group, version, kind)

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Groups stand in discovery order, each with its versions, the preferred first."""
        return self.now().groups()

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        return self.now().resources(group, version)

    def kind_schema(self, group: str, version: str, kind: str) -> Schema | None:
        """Only built-in kinds are known, bodies that are no resource among them."""
        return self.builtin.kind_schema(group, version, kind)


def composed(builtin: Catalogue, store: Store, gates: FeatureGates) -> ComposedTable:
    metadata = builtin.definitions()[OBJECT_META]
    return ComposedTable(builtin, StoredDefinitions(store, metadata, Features.of(gates).schemas))
