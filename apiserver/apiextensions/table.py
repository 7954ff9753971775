"""Composes the table of served resources: built-in ones and those of the stored definitions.

Sources: k8s.io/apimachinery/pkg/version/helpers.go (CompareKubeAwareVersionStrings), 1.36;
apiextensions-apiserver pkg/apiserver/customresource_{discovery_controller,handler}.go, and kube-aggregator
(order of groups and versions), 1.36.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.catalogue.types import OBJECT_META
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.resource import STORED_AS, CustomResource, Definition
from kubeskew.apiserver.features import Features, SchemaFeatures
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import known_object

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
            self._store.raise_horizon(found.stored_as, entry.created)
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
