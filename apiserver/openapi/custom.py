"""Makes the definitions of a custom resource and of its list.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, 1.36.
"""

from kubeskew.apimachinery.catalogue.types import LIST_META, OBJECT_META
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.openapi.rendering import Document, Renderer, gvk_entries
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


def custom_kind(renderer: Renderer, resource: Resource) -> Document:
    """Returns the definition of a custom resource's kind."""
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
    """Returns the definition of a list of a custom resource's kind, which is called `name`."""
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
