"""Makes the definitions of a custom resource and of its list.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, 1.36.
"""

from kubeskew.apimachinery.catalogue.types import LIST_META, OBJECT_META
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apiserver.openapi.rendering import GVK, Document, Renderer, gvk_entry
from kubeskew.apiserver.structuralschema import openapi
from kubeskew.apiserver.structuralschema.resources import structural_of

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


def define_custom(renderer: Renderer, resource: Resource, name: str) -> None:
    """Defines the kind of a custom resource as `name`, and its list."""
    structural = structural_of(resource)
    props = structural.props if structural is not None else None
    shape = openapi(props, v2=not renderer.modern)
    says_nothing = props is None or (not renderer.modern and bool(props.get(_FREE)))
    if not says_nothing:
        metadata = _reference(renderer, OBJECT_META, _METADATA)
        shape["properties"] = shape.get("properties", {}) | {"metadata": metadata, **_type_meta()}
        _refer(renderer, shape)
    selected: Document = {}
    if resource.selectable:
        selected = {"x-kubernetes-selectable-fields": [{"fieldPath": path} for path in resource.selectable]}
    renderer.definitions[name] = shape | {GVK: [gvk_entry(resource.gvk)], **selected}
    items = f"List of {resource.plural}. More info: {_CONVENTIONS}"
    listed: Document = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"description": items, "type": "array", "items": {"$ref": renderer.prefix + name}},
            "metadata": _reference(renderer, LIST_META, _LIST_METADATA),
            **_type_meta(),
        },
        GVK: [gvk_entry(GroupVersionKind(resource.group, resource.version, resource.list_kind))],
        **selected,
    }
    renderer.definitions[f"{name}List"] = listed


def _type_meta() -> Document:
    return {name: {"description": text, "type": "string"} for name, text in _TYPE_META.items()}


def _reference(renderer: Renderer, name: str, description: str) -> Document:
    """Returns a described reference; nothing may stand beside a `$ref` in v3."""
    reference = renderer.reference(renderer.types[name])
    if renderer.modern:
        return {"description": description, "allOf": [reference]}
    return {"description": description, **reference}


def _refer(renderer: Renderer, shape: Document) -> None:
    """Defines in the document what embedded resources refer to."""
    if "x-kubernetes-embedded-resource" in str(shape):
        renderer.reference(renderer.types[OBJECT_META])
