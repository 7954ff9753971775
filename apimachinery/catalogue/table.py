"""`Catalogue`: the resource table of the built-in kinds at a version, with gates and a runtime config."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.served_resources import is_served, version_order
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import STANDARD_VERBS, Column, GroupVersionKind, Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version

_Row = dict[str, Any]


class Catalogue:
    """Everything built in that a server of one version serves. Immutable; answers are memoised."""

    def __init__(
        self, version: Version, gates: FeatureGates, runtime_config: Mapping[str, bool] | None = None
    ) -> None:
        self.version = version
        self.gates = gates
        self._types = types_of(version)
        self._document, self._minor, by_default = data.release(version)
        minor = self._minor
        rows: list[_Row] = [
            row
            for row in self._document["resources"]
            if row["in"][0] <= minor <= row.get("known", row["in"][1])
        ]
        config = runtime_config or {}
        self._rows = {(row["g"], row["v"], row["r"]): row for row in rows}
        self._plurals = {(row["g"], row["v"], row["k"]): row["r"] for row in rows}
        self._built: dict[tuple[str, str, str], Resource] = {}
        self._served = {
            (row["g"], row["v"], row["r"])
            for row in rows
            if minor <= row["in"][1]
            and self._gate_open(row)
            and is_served(version, row["g"], row["v"], row["r"], config, by_default)
        }
        self._groups = self._order_groups()

    def _gate_open(self, row: _Row) -> bool:
        gate = data.at(row.get("gates", []), self._minor)
        return gate is None or self.gates.enabled(gate)

    def _order_groups(self) -> list[tuple[str, list[str]]]:
        versions: dict[str, dict[str, None]] = {}
        for group, version, _ in sorted(self._served):
            versions.setdefault(group, {})[version] = None
        groups = data.at(self._document["groups"], self._minor)
        order = [group for group in groups if group in versions]
        return [(group, sorted(versions[group], key=version_order)) for group in order]

    # The ResourceTable protocol

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        """None if the resource is not served."""
        key = (group, version, plural)
        return self._resource(key) if key in self._served else None

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Finds resources of served versions and of those that are only known for storage and decoding."""
        plural = self._plurals.get((group, version, kind))
        return None if plural is None else self._resource((group, version, plural))

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Served groups in discovery order (core first), each with its versions, the preferred first."""
        return self._groups

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        """Sorted by plural."""
        keys = sorted(key for key in self._served if key[:2] == (group, version))
        return [self._resource(key) for key in keys]

    # Types

    def definition(self, name: str) -> Schema:
        """Raises KeyError if this version has no definition of that name."""
        return self._types[name]

    def definitions(self) -> Mapping[str, Schema]:
        """Each schema is built when it is looked up."""
        return self._types

    def kind_schema(self, group: str, version: str, kind: str) -> Schema | None:
        """Kinds of bodies that are no resources (Scale, Eviction, PodExecOptions) have schemas, too."""
        return self._types.of_kind(group, version, kind)

    def registered(self) -> Iterable[tuple[str, str]]:
        """Groups and versions that this release knows, served or not."""
        return sorted({key[:2] for key in self._rows})

    def stores(self) -> Mapping[str, bool]:
        """Every place where this release keeps objects, with True if any version of them is served."""
        found: dict[str, bool] = {}
        for key in sorted(self._rows):
            place = self._resource(key).storage_resource
            found[place] = found.get(place, False) or key in self._served
        return found

    # Building

    def _resource(self, key: tuple[str, str, str]) -> Resource:
        built = self._built.get(key)
        if built is None:
            built = self._built[key] = self._build(self._rows[key])
        return built

    def _build(self, row: _Row) -> Resource:
        group, version, plural, kind = row["g"], row["v"], row["r"], row["k"]
        storage = self._storage(group, version, kind)
        schema = self.kind_schema(group, version, kind)
        if schema is None:
            raise LookupError(f"the catalogue has no type for {group}/{version} {kind}")
        return Resource(
            group=group,
            version=version,
            plural=plural,
            singular=row["s"],
            kind=kind,
            namespaced=bool(row["n"]),
            verbs=_verbs(row["verbs"]),
            schema=schema,
            storage=storage,
            storage_resource=row.get("store") or (f"{plural}.{storage.group}" if storage.group else plural),
            short_names=tuple(row.get("short", ())),
            categories=tuple(row.get("cat", ())),
            subresources=self._subresources(row),
            columns=self._columns(f"{group}/{kind}"),
        )

    def _storage(self, group: str, version: str, kind: str) -> GroupVersionKind:
        stored = data.at(self._document["storage"].get(f"{group}/{kind}", []), self._minor)
        if stored is None:
            return GroupVersionKind(group, version, kind)
        storage_group, _, storage_version = stored.rpartition("/")
        return GroupVersionKind(storage_group, storage_version, kind)

    def _subresources(self, row: _Row) -> Mapping[str, Subresource]:
        found = {}
        for name, sub in row.get("sub", {}).items():
            if self._gate_open(sub):
                gvk = GroupVersionKind(sub.get("g", row["g"]), sub.get("v", row["v"]), sub["k"])
                found[name] = Subresource(name, gvk, _verbs(sub["verbs"]))
        return found

    def _columns(self, key: str) -> tuple[Column, ...]:
        columns = data.at(self._document["columns"].get(key, []), self._minor) or ()
        texts = data.column_descriptions(self.version).get(key, {})
        return tuple(
            Column(name, type_, form, texts.get(name, ""), priority)
            for name, type_, form, priority in columns
        )


def _verbs(listed: str | list[str]) -> frozenset[str]:
    return STANDARD_VERBS if listed == "std" else frozenset(listed)


@cache
def _shared(version: Version, gates: FeatureGates, config: tuple[tuple[str, bool], ...]) -> Catalogue:
    return Catalogue(version, gates, dict(config))


def catalogue_for(
    version: Version, gates: FeatureGates | None = None, runtime_config: Mapping[str, bool] | None = None
) -> Catalogue:
    """Each combination is made once per process."""
    return _shared(version, gates or FeatureGates(version), tuple(sorted((runtime_config or {}).items())))
