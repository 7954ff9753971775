"""Validates the schemas of a definition when it is created or changed.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any, Final

from kubeskew.apimachinery.field import FieldError, forbidden, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import costs, formats, go_struct, openapi_rules
from kubeskew.apiserver.structuralschema.default_rules import check_defaults
from kubeskew.apiserver.structuralschema.model import NEWEST, Structural
from kubeskew.apiserver.structuralschema.paths import child
from kubeskew.apiserver.structuralschema.rule_compiling import RuleCompiler
from kubeskew.apiserver.structuralschema.scalars import types_of
from kubeskew.apiserver.structuralschema.structurality import validate_structure

_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required",
    "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_NO_STRUCTURE: Final = (
    ("id", "id"), ("$schema", "schema"), ("$ref", "$ref"), ("definitions", "definitions"),
    ("additionalItems", "additionalItems"), ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
)  # fmt: skip


def validate_definition(
    crd: Object, old: Object | None = None, features: SchemaFeatures = NEWEST
) -> list[FieldError]:
    """Returns errors of everything that concerns schemas.

    Where all versions say the same they are found at `spec.validation.openAPIV3Schema`, as upstream keeps it
    there; else at `spec.versions[i].schema.openAPIV3Schema`.
    """
    versions = _versions(crd)
    schemas = [_schema(version) for version in versions]
    if schemas and schemas[0] is not None and all(schema == schemas[0] for schema in schemas):
        with_status = any(_has_status(version) for version in versions)
        unchanged = old is not None and any(_schema(version) == schemas[0] for version in _versions(old))
        return _check(schemas[0], "spec.validation", with_status, old, unchanged, features)
    errors: list[FieldError] = []
    for position, version in enumerate(versions):
        if schemas[position] is None:
            errors.append(required(f"spec.versions[{position}].schema.openAPIV3Schema"))
            continue
        unchanged = any(
            before.get("name") == version.get("name") and _schema(before) == schemas[position]
            for before in (_versions(old) if old is not None else ())
        )
        path = f"spec.versions[{position}].schema"
        errors += _check(schemas[position], path, _has_status(version), old, unchanged, features)
    return errors


def _versions(crd: Object) -> list[Object]:
    return (crd.get("spec") or {}).get("versions") or []


def _schema(version: Object) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _check(
    props: Object, path: str, with_status: bool, old: Object | None, unchanged: bool, features: SchemaFeatures
) -> list[FieldError]:
    at = child(path, "openAPIV3Schema")
    errors = [*_root(props, at, with_status)]
    broken = _no_structure(props)
    context: costs.Context | None = None
    if broken is None:
        structure = validate_structure(props, at)
        structure = structure or check_defaults(Structural.of(props, features), at)
        errors += structure
        if not structure:
            context = costs.Context(props, costs.TotalCost(), root=True)
    compiler = RuleCompiler(features, known=_expressions(old), charges=not unchanged)
    errors += openapi_rules.check(props, at, compiler, context, root=True).all()
    if broken is not None and not errors:
        errors.append(invalid(at, "", broken))
    if context is not None:
        errors += _total(context.total, at)
    return errors


def _root(props: Object, at: str, with_status: bool) -> Iterator[FieldError]:
    """Checks the root: with the status subresource, the status is validated by its own part of the schema."""
    for name in go_struct.set_fields(props) if with_status else ():
        if name == "Type" and props["type"] != "object":
            yield invalid(
                child(at, "type"),
                props["type"],
                'only "object" is allowed as the type at the root of the schema '
                "if the status subresource is enabled",
            )
            break
        if name not in _AT_ROOT:
            yield invalid(
                at,
                go_struct.schema(props),
                f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema "
                "if the status subresource is enabled",
            )
            break
    if props.get("nullable"):
        yield forbidden(child(at, "nullable"), "nullable cannot be true at the root")


def _no_structure(props: Any) -> str | None:
    """Returns the reason for which no structural schema can be made of this at all, None if one can."""
    if not isinstance(props, dict):
        return None
    for name, shown in _NO_STRUCTURE:
        if props.get(name) not in (None, "", {}):
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if isinstance(props.get("items"), list) and props["items"]:
        return "OpenAPIV3Schema 'items' must be an object, but is an array"
    for below in _below(props):
        why = _no_structure(below)
        if why is not None:
            return why
    return None


def _below(props: Object) -> Iterator[Object]:
    yield from (props.get("properties") or {}).values()
    for name in ("items", "additionalProperties", "not"):
        if isinstance(props.get(name), dict):
            yield props[name]
    for name in ("allOf", "anyOf", "oneOf"):
        yield from props.get(name) or ()


def _expressions(old: Object | None) -> frozenset[str]:
    """Returns the expressions that are stored already: they may use all that the server knows."""
    found: set[str] = set()

    def collect(props: Any) -> None:
        if isinstance(props, dict):
            for rule in props.get("x-kubernetes-validations") or ():
                found.update(filter(None, (rule.get("rule"), rule.get("messageExpression"))))
            for below in _below(props):
                collect(below)

    for version in _versions(old) if old is not None else ():
        collect(_schema(version))
    return frozenset(found)


def has_defaults(spec: Object) -> bool:
    """Decides whether the schema of some version of a definition's spec has a default."""

    def found(props: Any) -> bool:
        if not isinstance(props, dict):
            return False
        return props.get("default") is not None or any(map(found, _below(props)))

    return any(found(_schema(version)) for version in spec.get("versions") or ())


def _total(total: costs.TotalCost, at: str) -> Iterator[FieldError]:
    if total.cost <= costs.DEFINITION_LIMIT:
        return
    for _, path in total.expensive:
        yield forbidden(
            path,
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        )
    name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield forbidden(at, costs.excess(name, total.cost, costs.DEFINITION_LIMIT))


def warnings(crd: Object, features: SchemaFeatures = NEWEST) -> list[str]:
    """Returns the warnings that writing the definition gives for its schemas: formats that are
    not checked.
    """
    if not features.format_warnings:
        return []
    found: dict[str, None] = {}

    def collect(props: Any) -> None:
        if not isinstance(props, dict):
            return
        name, types = props.get("format") or "", types_of(props)
        if name and not formats.is_recognized(name, types[0] if len(types) == 1 else "", features):
            found[f'unrecognized format "{name}"'] = None
        for below in _below(props):
            collect(below)

    for version in _versions(crd):
        collect(_schema(version))
    return list(found)
