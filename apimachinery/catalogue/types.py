"""Schema trees of one release, built from the data file when first touched.

Trees depend on the release alone, never on gates: one `Types` per release serves the whole process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.json_fields import FILE, JsonFields
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import JSON, Field, Kind, Rules, Schema
from kubeskew.apimachinery.versions import Version

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META = META + "ObjectMeta"
LIST_META = META + "ListMeta"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

# Named types that are no structs on the wire.
_OPAQUE: Mapping[str, tuple[Kind, str]] = {
    META + "Time": (Kind.STRING, "date-time"),
    META + "MicroTime": (Kind.STRING, "micro-time"),
    META + "Duration": (Kind.STRING, "duration"),
    META + "FieldsV1": (Kind.ANY, ""),
    META + "Patch": (Kind.ANY, ""),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": (Kind.QUANTITY, ""),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (Kind.INT_OR_STRING, ""),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": (Kind.ANY, ""),
    JSON: (Kind.ANY, ""),
    _EXTENSIONS + "JSONSchemaPropsOrArray": (Kind.ANY, ""),
    _EXTENSIONS + "JSONSchemaPropsOrBool": (Kind.ANY, ""),
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": (Kind.ANY, ""),
}
# A schema or something else: their `items` are the schema.
_UNIONS = frozenset(name for name in _OPAQUE if name.startswith(f"{_EXTENSIONS}JSONSchemaPropsOr"))
_SCALARS: Mapping[str, Schema] = {
    "string": Schema(Kind.STRING),
    "bool": Schema(Kind.BOOLEAN),
    "int32": Schema(Kind.INTEGER, format="int32"),
    "int64": Schema(Kind.INTEGER, format="int64"),
    "double": Schema(Kind.NUMBER, format="double"),
    "byte": Schema(Kind.STRING, format="byte"),
}


class Types(Mapping[str, Schema]):
    """Schemas of one release, by the names of their definitions.

    Iterating is cheap; a schema is built when it is looked up.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        minor: int,
        imported: str = "",
        json_fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`document` is a catalogue (`kubeskew/releases/catalogue/assembly.py` has its shape); `imported` is
        the name of its release if that was imported, `json_fields` its own order of fields."""
        self._minor = minor
        self._imported = imported
        self._kinds: dict[str, str] = document["kinds"]
        self._specs: list[dict[str, Any]] = document["specs"]
        self._entries: dict[str, Any] = document["definitions"]
        self._rules: list[Rules] = document.get("rules", [])
        self._json = JsonFields(minor, json_fields)
        self._built: dict[str, Schema] = {}
        self._fields: dict[int, Field] = {}
        self._named: dict[str, GroupVersionKind] = {}

    def __contains__(self, name: object) -> bool:
        entry = self._entries.get(name) if isinstance(name, str) else None
        return name in _OPAQUE or (
            entry is not None and "f" in entry and data.within(entry["in"], self._minor)
        )

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted({*self._entries, *_OPAQUE}) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Schema:
        built = self._built.get(name)
        if built is not None:
            return built
        if name not in self:
            raise KeyError(name)
        return self._definition(name)

    def of_kind(self, group: str, version: str, kind: str) -> Schema | None:
        """Kinds of bodies that are no resources (Scale, Eviction, PodExecOptions) have schemas, too."""
        name = self._kinds.get(f"{group}/{version}/{kind}".lstrip("/"))
        return self[name] if name is not None and name in self else None

    def kind_of(self, name: str) -> GroupVersionKind | None:
        """None for a definition that is only part of others."""
        if not self._named:
            for key, definition in self._kinds.items():
                api_version, _, kind = key.rpartition("/")
                group, _, version = api_version.rpartition("/")
                self._named[definition] = GroupVersionKind(group, version, kind)
        return self._named.get(name)

    def _definition(self, name: str) -> Schema:
        built = self._built.get(name)
        if built is not None:
            return built
        if name in _OPAQUE:
            kind, form = _OPAQUE[name]
            schema = Schema(kind, name, form, preserve_unknown=kind is Kind.ANY)
            self._built[name] = schema
            if name in _UNIONS:  # kinds that contain themselves
                object.__setattr__(schema, "items", self._definition(_EXTENSIONS + "JSONSchemaProps"))
            return schema
        entry = self._entries[name]
        if "e" in entry:
            return self._enum(name, entry)
        fields: dict[str, Field] = {}
        map_type = data.at(entry.get("mt", "granular"), self._minor)
        rules = self._declared(entry.get("v", {}))
        places = self._json.of(name)
        schema = Schema(
            Kind.OBJECT,
            name,
            fields=fields,
            map_type=map_type,
            release=self._imported,
            path_defaults=entry.get("pd", {}),
            rules=rules.get("", ()),
            in_order=bool(places),
        )
        self._built[name] = schema  # before its fields: types may contain themselves
        histories = entry["f"]
        for field in [
            *(each for each in places if each in histories),
            *(each for each in histories if each not in places),
        ]:
            index = self._at(histories[field])
            if index is not None:
                built_field = self._field(index)
                own = rules.get(field, ())
                embedded = places.get(field, ()) if self._json.named else ()
                changed = own or embedded
                fields[field] = replace(built_field, rules=own, embedded=embedded) if changed else built_field
        return schema

    def _at(self, history: Any) -> int | None:
        found: int | None = data.at(history, self._minor)
        return found

    def _declared(self, histories: dict[str, Any]) -> dict[str, Rules]:
        places = {field: self._at(history) for field, history in histories.items()}
        return {field: self._rules[place] for field, place in places.items() if place is not None}

    def _enum(self, name: str, entry: dict[str, Any]) -> Schema:
        values = tuple(value for value, spans in entry["e"].items() if data.within(spans, self._minor))
        go_name = ".".join(name.split(".")[-2:])
        return self._built.setdefault(name, Schema(Kind.STRING, enum=values, go_name=go_name))

    def _field(self, index: int) -> Field:
        built = self._fields.get(index)
        if built is None:
            spec = self._specs[index]
            built = self._fields[index] = Field(
                self._type(spec["t"], spec),
                required="r" in spec,
                default=spec.get("d"),
                has_default="d" in spec,
                gates=tuple(spec.get("g", ())),
                patch_strategy=tuple(spec.get("ps", ())),
                patch_merge_key=spec.get("pk", ""),
                omit_empty="o" in spec,
                pointer="p" in spec,
            )
        return built

    def _list(self, kind: str, spec: dict[str, Any]) -> Schema:
        """Lists without a list type that strategic patches merge are merged by server-side apply, too
        (kube-openapi's schemaconv): most of core's, until 1.29. Others are atomic.
        """
        items = self._type(kind, {})
        if "lt" in spec:
            keys = tuple(spec.get("lk", ()))
            return Schema(Kind.LIST, items=items, list_type=spec["lt"], list_keys=keys)
        if "merge" not in spec.get("ps", ()):
            return Schema(Kind.LIST, items=items, list_type_implied=True)
        keys = (spec["pk"],) if "pk" in spec else ()
        list_type = "map" if keys else "set"
        return Schema(Kind.LIST, items=items, list_type=list_type, list_keys=keys, list_type_implied=True)

    def _type(self, kind: str, spec: dict[str, Any]) -> Schema:
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return scalar
        if kind.startswith("'"):
            _, go_name, rest = kind.split("'")
            return replace(self._type(rest, spec), go_name=go_name)
        if kind.startswith("[]"):
            return self._list(kind[2:], spec)
        if kind.startswith("{}"):
            return Schema(Kind.MAP, items=self._type(kind[2:], {}), map_type=spec.get("mt", "granular"))
        schema = self._definition(kind)
        if "mt" in spec and schema.map_type != spec["mt"]:
            return replace(schema, map_type=spec["mt"])
        return schema


def types_of(version: Version) -> Types:
    """All patches of a release share one `Types`, and so does the whole process."""
    return _types_of(version.release)


@cache
def _types_of(version: Version) -> Types:
    document, minor, _ = data.release(version)
    imported = str(version) if version.imported_from is not None else ""
    return Types(document, minor, imported, version.document(FILE.name))
