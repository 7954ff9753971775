"""Shows schemas as Go's internal structs look in errors: every field, by its Go name.

Source: apiextensions-apiserver pkg/apis/apiextensions/types_jsonschema.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object

# JSON name, Go name, Go's zero value.
_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("id", "ID", ""), ("$schema", "Schema", ""), ("$ref", "Ref", None), ("description", "Description", ""),
    ("type", "Type", ""), ("nullable", "Nullable", False), ("format", "Format", ""), ("title", "Title", ""),
    ("default", "Default", None), ("maximum", "Maximum", None),
    ("exclusiveMaximum", "ExclusiveMaximum", False),
    ("minimum", "Minimum", None), ("exclusiveMinimum", "ExclusiveMinimum", False),
    ("maxLength", "MaxLength", None), ("minLength", "MinLength", None), ("pattern", "Pattern", ""),
    ("maxItems", "MaxItems", None), ("minItems", "MinItems", None), ("uniqueItems", "UniqueItems", False),
    ("multipleOf", "MultipleOf", None), ("enum", "Enum", None), ("maxProperties", "MaxProperties", None),
    ("minProperties", "MinProperties", None), ("required", "Required", None), ("items", "Items", None),
    ("allOf", "AllOf", None), ("oneOf", "OneOf", None), ("anyOf", "AnyOf", None), ("not", "Not", None),
    ("properties", "Properties", None), ("additionalProperties", "AdditionalProperties", None),
    ("patternProperties", "PatternProperties", None), ("dependencies", "Dependencies", None),
    ("additionalItems", "AdditionalItems", None), ("definitions", "Definitions", None),
    ("externalDocs", "ExternalDocs", None), ("example", "Example", None),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", None),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", False),
    ("x-kubernetes-int-or-string", "XIntOrString", False),
    ("x-kubernetes-list-map-keys", "XListMapKeys", None),
    ("x-kubernetes-list-type", "XListType", None), ("x-kubernetes-map-type", "XMapType", None),
    ("x-kubernetes-validations", "XValidations", None),
)  # fmt: skip
_SCHEMA_LISTS = frozenset({"allOf", "oneOf", "anyOf"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "definitions"})


def schema(props: Object) -> Object:
    """Returns a JSONSchemaProps."""
    return {go: _field(name, props.get(name), zero) for name, go, zero in _FIELDS}


def set_fields(props: Object) -> list[str]:
    """Returns the Go names of the fields that are not zero, in the struct's order."""
    return [go for name, go, zero in _FIELDS if props.get(name) not in (None, zero) or _is_set(props, name)]


def _is_set(props: Object, name: str) -> bool:
    return props.get(name) in ({}, [], False) and name in {"additionalProperties", "externalDocs", "default"}


def rule(given: Object) -> Object:
    """Returns a ValidationRule."""
    return {
        "Rule": given.get("rule") or "",
        "Message": given.get("message") or "",
        "MessageExpression": given.get("messageExpression") or "",
        "Reason": given.get("reason"),
        "FieldPath": given.get("fieldPath") or "",
        "OptionalOldSelf": given.get("optionalOldSelf"),
    }


def _field(name: str, value: Any, zero: Any) -> Any:
    if value is None:
        return zero
    if name in _SCHEMA_LISTS:
        return [schema(element) for element in value]
    if name in _SCHEMA_MAPS:
        return {key: schema(value[key]) for key in sorted(value)}
    if name == "items":
        several = isinstance(value, list)
        return {
            "Schema": None if several else schema(value),
            "JSONSchemas": [schema(element) for element in value] if several else None,
        }
    if name in {"additionalProperties", "additionalItems"}:
        return {"Allows": value is not False, "Schema": schema(value) if isinstance(value, dict) else None}
    if name == "x-kubernetes-validations":
        return [rule(element) for element in value]
    if name == "externalDocs":
        return {"Description": value.get("description") or "", "URL": value.get("url") or ""}
    return schema(value) if name == "not" else value
