"""Definitions of a document: schemas of kinds, their lists and custom resources, in the dialect of v2 or v3.

Kinds of a definition: apiserver pkg/endpoints/openapi/openapi.go (DefinitionNamer); only those of its own
group in documents of v3 since 1.36: pkg/server/routes/openapi.go (filterScopedGVKs).

Sources: k8s.io/kube-openapi pkg/{builder,builder3,generators}, 1.36; what v2 cannot express is left out
(nullable, oneOf, defaults), as upstream does for clients that validate with it; apiextensions-apiserver
pkg/controller/openapi/builder/builder.go, 1.36.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.catalogue.types import LIST_META, META, OBJECT_META, Types, types_of
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.descriptions import Descriptions, text
from kubeskew.apiserver.openapi.facts import Facts
from kubeskew.apiserver.openapi.routes import DELETE_OPTIONS, WATCH_EVENT, Route
from kubeskew.apiserver.structuralschema import openapi
from kubeskew.apiserver.structuralschema.model import structural_of

Document = dict[str, Any]
Definer = Callable[[], Document]

GVK = "x-kubernetes-group-version-kind"
_PLAIN = {
    Kind.STRING: "string",
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.BOOLEAN: "boolean",
}
_ZERO: dict[Kind, Any] = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
# Named types without a shape (their Go types marshal themselves).
_SHAPELESS = (".JSON", ".JSONSchemaPropsOrArray", ".JSONSchemaPropsOrBool", ".JSONSchemaPropsOrStringArray")
_SHOWN_FORMATS = {"micro-time": "date-time", "duration": ""}
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_TYPE_META = {
    "apiVersion": (
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
        "recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
        f"{_CONVENTIONS}#resources"
    ),
    "kind": (
        "Kind is a string value representing the REST resource this object represents. Servers may infer "
        "this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds"
    ),
}
_FREE = "x-kubernetes-preserve-unknown-fields"
_METADATA = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
_LIST_METADATA = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"
_STRING = Schema(Kind.STRING)
_SHARED_KINDS = {DELETE_OPTIONS: "DeleteOptions", WATCH_EVENT: "WatchEvent"}
_META_KINDS = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status")
# Groups that kube-apiserver knows and client-go, with whose kinds custom resources are described, does not.
_NOT_OF_CLIENTS = frozenset(
    {"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}
)


def gvk_entry(gvk: GroupVersionKind) -> Document:
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def gvk_entries(kinds: Iterable[GroupVersionKind]) -> Document:
    entries = [gvk_entry(gvk) for gvk in kinds]
    return {GVK: entries} if entries else {}


class Renderer:
    """Renders schemas of one document and collects the named definitions that they refer to."""

    def __init__(
        self, modern: bool, types: Mapping[str, Schema], features: DocumentFeatures, facts: Facts,
        descriptions: Descriptions,
    ) -> None:  # fmt: skip
        """`modern` documents are of v3, to which defaults belong."""
        self.prefix = "#/components/schemas/" if modern else "#/definitions/"
        self.modern = modern
        self.types = types
        self.features = features
        self.facts = facts
        self.descriptions = descriptions
        self.definitions: dict[str, Document] = {}
        self._waiting: dict[str, None] = {}

    def reference(self, name: str) -> Document:
        if name not in self.definitions:
            self._waiting[name] = None
        return {"$ref": self.prefix + name}

    def finish(self, define: Callable[[str], Document]) -> dict[str, Document]:
        """Adds what definitions refer to, until nothing is missing; sorted by name. `define` makes one
        definition.
        """
        while self._waiting:
            name, _ = self._waiting.popitem()
            self.definitions[name] = {}  # it may refer to itself
            self.definitions[name] = define(name)
        return dict(sorted(self.definitions.items()))

    def inline(self, schema: Schema) -> Document:
        """Refers to a schema that is named, else writes its shape."""
        return self.reference(schema.name) if schema.name else self.shape(schema)

    def shape(self, schema: Schema) -> Document:
        shape = self._bare(schema)
        if schema.enum and self.features.enums:
            shape["enum"] = list(schema.enum)
        if self.modern and schema.nullable:
            shape["nullable"] = True
        if schema.preserve_unknown and not schema.name:
            shape["x-kubernetes-preserve-unknown-fields"] = True
        return text(self.descriptions.definition(schema.name)) | shape

    def described(self, name: str, description: str) -> Document:
        """In v3, a reference allows nothing next to it: it goes into an `allOf`."""
        reference = self.reference(name)
        return text(description) | ({"allOf": [reference]} if self.modern else reference)

    def _bare(self, schema: Schema) -> Document:
        match schema.kind:
            case Kind.OBJECT:
                return self._object(schema)
            case Kind.MAP:
                values = self._element(schema.items) if schema.items else {"type": "string"}
                shape: Document = {"type": "object", "additionalProperties": values}
                if schema.map_type != "granular":
                    shape["x-kubernetes-map-type"] = schema.map_type
                return shape
            case Kind.LIST:
                return self._list(schema)
            case Kind.QUANTITY:
                return (
                    {"oneOf": [{"type": "string"}, {"type": "number"}]} if self.modern else {"type": "string"}
                )
            case Kind.INT_OR_STRING:
                return self._int_or_string(schema)
            case Kind.ANY:
                return {} if schema.name.endswith(_SHAPELESS) else {"type": "object"}
        form = _SHOWN_FORMATS.get(schema.format, schema.format)
        return {"type": _PLAIN[schema.kind]} | ({"format": form} if form else {})

    def _int_or_string(self, schema: Schema) -> Document:
        if not schema.name:
            return {"x-kubernetes-int-or-string": True}
        if self.modern:
            return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
        return {"type": "string", "format": "int-or-string"}

    def _list(self, schema: Schema) -> Document:
        shape: Document = {"type": "array", "items": self._element(schema.items) if schema.items else {}}
        if schema.list_type_implied:
            return shape
        if schema.list_keys:
            shape["x-kubernetes-list-map-keys"] = list(schema.list_keys)
        shape["x-kubernetes-list-type"] = schema.list_type
        return shape

    def _element(self, schema: Schema) -> Document:
        """Items and values of older releases have Go's zero value as default."""
        shape = self.inline(schema)
        return self._with_default(shape, _zero(schema)) if self.features.element_defaults else shape

    def _object(self, schema: Schema) -> Document:
        shape: Document = {"type": "object"}
        if schema.fields:
            shape["properties"] = {
                name: self._field(schema.name, name, field) for name, field in sorted(schema.fields.items())
            }
        required = self._required(schema)
        if required:
            shape["required"] = required
        if schema.map_type != "granular":
            shape["x-kubernetes-map-type"] = schema.map_type
        return {**shape, **self.facts.extensions.get(schema.name, {})}

    def _required(self, schema: Schema) -> list[str]:
        """The order is that of the Go struct."""
        required = sorted(name for name, field in schema.fields.items() if field.required)
        order = self.facts.order.get(schema.name, ())
        return [name for name in order if name in required] + [name for name in required if name not in order]

    def _field(self, definition: str, name: str, field: Field) -> Document:
        path = f"{definition}.{name}"
        shape = self.inline(field.schema)
        if self.modern and "$ref" in shape and path not in self.facts.bare:
            shape = {"allOf": [shape]}  # nothing may stand next to a reference, not even a description
        if field.has_default:
            shape = self._with_default(shape, field.default)
        elif not field.pointer and not field.omit_empty:
            shape = self._with_default(shape, _zero(field.schema))
        if self.features.enums and path in self.facts.enums:
            shape.pop("enum", None)
            shape |= {"enum": values} if (values := self.facts.enums[path]) else {}
        own = self.types.get(field.schema.name)
        if own is not None and own.map_type != field.schema.map_type:
            shape["x-kubernetes-map-type"] = field.schema.map_type
        if field.patch_strategy:
            shape["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
        if field.patch_merge_key:
            shape["x-kubernetes-patch-merge-key"] = field.patch_merge_key
        described = text(self.descriptions.field(definition, name))
        return {**described, **shape, **self.facts.extensions.get(path, {})}

    def _with_default(self, shape: Document, default: Any) -> Document:
        if not self.modern or default is None:
            return shape
        if "$ref" in shape:
            shape = {"allOf": [shape]}
        return shape | {"default": default}


def _zero(schema: Schema) -> Any:
    """Go always writes the field with this default: none for named types that are no structs, and for bytes,
    which are a slice.
    """
    if schema.name:
        return {} if schema.kind is Kind.OBJECT else None
    return None if schema.format == "byte" else _ZERO.get(schema.kind)


def definition_name(group: str, version: str, kind: str, schema: Schema) -> str:
    """Custom kinds are named after their group, read backwards."""
    if schema.name:
        return schema.name
    return ".".join([*reversed(group.split(".")), version, kind])


def custom_kind(renderer: Renderer, resource: Resource) -> Document:
    structural = structural_of(resource)
    props = structural.props if structural is not None else None
    shape = openapi(props, v2=not renderer.modern)
    renderer.reference(OBJECT_META)
    says_nothing = props is None or (not renderer.modern and bool(props.get(_FREE)))
    if not says_nothing:
        metadata = renderer.described(OBJECT_META, _METADATA)
        shape["properties"] = shape.get("properties", {}) | {"metadata": metadata, **_type_meta()}
    return shape | gvk_entries([resource.gvk]) | _selectable(resource)


def custom_list(renderer: Renderer, resource: Resource, name: str) -> Document:
    """`name` is the definition of the items."""
    items = f"List of {resource.plural}. More info: {_CONVENTIONS}"
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"description": items, "type": "array", "items": renderer.reference(name)},
            "metadata": renderer.described(LIST_META, _LIST_METADATA),
            **_type_meta(),
        },
        **_selectable(resource),
    }


def _selectable(resource: Resource) -> Document:
    if not resource.selectable:
        return {}
    return {"x-kubernetes-selectable-fields": [{"fieldPath": path} for path in resource.selectable]}


def _type_meta() -> Document:
    return {name: {"description": text, "type": "string"} for name, text in _TYPE_META.items()}


class Definitions:
    """Collects the definitions that the routes of one document need."""

    def __init__(
        self, modern: bool, resources: Iterable[Resource], features: DocumentFeatures, facts: Facts,
        descriptions: Descriptions,
    ) -> None:  # fmt: skip
        self.types: Types = types_of(features.version)
        self.renderer = Renderer(modern, self.types, features, facts, descriptions)
        self._resources: dict[str, Resource] = {}
        self._lists: dict[str, Resource] = {}
        for resource in resources:
            self._resources[kind_name(resource)] = resource
            self._lists[list_name(resource)] = resource

    def of_routes(self, routes: Iterable[Route], of: tuple[str, str] | None = None) -> dict[str, Document]:
        """Includes all definitions that the named ones refer to. `of` is the document's group and version."""
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
        """DeleteOptions and WatchEvent are kinds of all groups; since 1.36 a document names only those of its
        own.
        """
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
    return definition_name(resource.group, resource.version, resource.kind, resource.schema)


def list_name(resource: Resource) -> str:
    if not resource.custom:
        return f"{kind_name(resource)}List"
    return definition_name(resource.group, resource.version, resource.list_kind, resource.schema)
