"""Reads from a schema how a field is patched: whether its list merges, and by which key.

Errors are those of Go's reflection, which upstream looks fields up with.
Source: k8s.io/apimachinery/third_party/forked/golang/json/fields.go, 1.36.
"""

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.patching.values import failed


def field_of(schema: Schema, name: str) -> Field:
    """Returns the field of a struct, by its name or, as Go's JSON decoder, by its name in another case."""
    if schema.kind not in (Kind.OBJECT, Kind.ANY):
        kind = go_kind(schema)
        raise failed(f"merging an object in json but data type is not struct, instead is: {kind}")
    found = schema.fields.get(name)
    if found is None:
        folded = name.casefold()
        found = next((field for key, field in schema.fields.items() if key.casefold() == folded), None)
    if found is None:
        struct = schema.name.rpartition(".")[2]
        raise failed(f'unable to find api field in struct {struct} for the json field "{name}"')
    return found


def list_field(schema: Schema, name: str) -> Field:
    """Returns the same of a field that must be a list."""
    field = field_of(schema, name)
    if field.schema.kind is not Kind.LIST:
        raise failed(f"expected slice or array type, but got: {go_kind(schema)}")
    return field


def strategy(field: Field) -> str:
    """Returns `merge`, `replace` or none; retainKeys concerns clients alone."""
    return next((name for name in field.patch_strategy if name != "retainKeys"), "")


def go_kind(schema: Schema) -> str:
    """Returns Go's name for the kind of type."""
    kinds = {Kind.MAP: "map", Kind.LIST: "slice", Kind.STRING: "string", Kind.BOOLEAN: "bool"}
    return kinds.get(schema.kind, schema.format if schema.kind is Kind.INTEGER else "struct")
