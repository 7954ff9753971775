"""Validates CustomResourceDefinitions: their names, versions, conversion, subresources and columns.

Field paths and printed values of errors are those of the internal version, to which v1 is converted first.

Sources: apiextensions-apiserver pkg/apis/apiextensions/v1/conversion.go and types.go, 1.36;
apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (validateCustomResourceConversion) and
apiserver pkg/util/webhook/validation.go, 1.36; apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery import names
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.field import (
    FieldError,
    Unquoted,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions import conditions
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import conversion, has_defaults, validate_definition
from kubeskew.apiserver.structuralschema.definitions import no_structure
from kubeskew.apiserver.structuralschema.rule_programs import (
    FieldPathError,
    UnknownFieldError,
    read_field_path,
)
from kubeskew.apiserver.webhooks.validation import (
    review_version_errors,
    validate_ca_bundle,
    validate_service,
    validate_url,
)

_NIL_POINTER = "panic: runtime error: invalid memory address or nil pointer dereference"
_LIFTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_NAMES = {"schema": "validation"}
_PATH = "spec.conversion"
_CLIENT = f"{_PATH}.webhookClientConfig"
_REVIEWS = f"{_PATH}.conversionReviewVersions"
_KNOWN = ("v1", "v1beta1")
_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8
_MOST_WARNING_BYTES = 256
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_WRONG_TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
    "are allowed."
)
_IMMUTABLE = "field is immutable"


class Place(NamedTuple):
    """Errors name this part of a definition by `path`; `version` is None above the versions."""

    path: str
    version: Object | None
    parts: Object  # the part's own fields: schema, subresources, additionalPrinterColumns, …


def places(spec: Object) -> list[Place]:
    """Schemas, subresources and columns stand in each version, and above the versions if alike in all."""
    versions = spec.get("versions") or []
    lifted = {name for name in _LIFTED if versions and _alike(versions, name)}
    found = []
    for position, version in enumerate(versions):
        own = {name: version[name] for name in _LIFTED if name not in lifted and version.get(name)}
        found.append(Place(f"spec.versions[{position}]", version, own))
    above = {name: versions[0][name] for name in _LIFTED if name in lifted and versions[0].get(name)}
    return [*found, Place("spec", None, above)]


def _alike(versions: list[Object], name: str) -> bool:
    return all((version.get(name) or None) == (versions[0].get(name) or None) for version in versions)


def shown(spec: Object) -> Any:
    """Errors print `spec.versions` as Go prints its structs."""
    if spec.get("versions") is None:
        return None
    return [_version(place) for place in places(spec) if place.version is not None]


def _version(place: Place) -> Object:
    version, parts = place.version or {}, place.parts
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": _schema(parts.get("schema")),
        "Subresources": _subresources(parts.get("subresources")),
        "AdditionalPrinterColumns": [
            _column(column) for column in parts.get("additionalPrinterColumns") or ()
        ]
        or None,
        "SelectableFields": [{"JSONPath": field.get("jsonPath") or ""} for field in parts["selectableFields"]]
        if "selectableFields" in parts
        else None,
    }


def _schema(given: Object | None) -> Object | None:
    if given is None:
        return None
    schema = given.get("openAPIV3Schema")
    return {"OpenAPIV3Schema": None if schema is None else conversion.go_schema(schema)}


def _subresources(given: Object | None) -> Object | None:
    if given is None:
        return None
    scale = given.get("scale")
    return {
        "Status": {} if given.get("status") is not None else None,
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _column(given: Object) -> Object:
    return {
        "Name": given.get("name") or "",
        "Type": given.get("type") or "",
        "Format": given.get("format") or "",
        "Description": given.get("description") or "",
        "Priority": given.get("priority") or 0,
        "JSONPath": given.get("jsonPath") or "",
    }


def validate_conversion(spec: Object, old: Object | None, *, established: bool) -> list[FieldError]:
    """`old` is the spec before, None for a new definition."""
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    errors = []
    if spec.get("preserveUnknownFields") and strategy != "None":
        why = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(f"{_PATH}.strategy", strategy, why))
    errors += _strategy(strategy)
    if strategy != "Webhook":
        unset = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(forbidden(_CLIENT, unset))
        return [*errors, *([forbidden(_REVIEWS, unset)] if reviews else [])]
    before = ((old or {}).get("conversion") or {}).get("webhook") or {}
    if client is None:
        errors.append(required(_CLIENT, "required when strategy is set to Webhook"))
    else:
        errors += _client(client)
        if established and not _has_bad_bundle(before.get("clientConfig") or {}):
            errors += _bundle(client)
    lenient = old is not None and not _is_known(before.get("conversionReviewVersions") or ())
    return [*errors, *_review_versions(reviews, lenient=lenient)]


def _strategy(strategy: str) -> Iterator[FieldError]:
    if not strategy:
        yield required(f"{_PATH}.strategy")
    elif strategy not in {"None", "Webhook"}:
        yield not_supported(f"{_PATH}.strategy", strategy, ("None", "Webhook"))


def _client(client: Object) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(_CLIENT, "exactly one of url or service is required")]
    if url is not None:
        return list(validate_url(child(_CLIENT, "url"), url))
    return list(validate_service(child(_CLIENT, "service"), service or {}))


def _bundle(client: Object) -> list[FieldError]:
    bundle = client.get("caBundle") or ""
    return list(validate_ca_bundle(child(_CLIENT, "caBundle"), bundle)) if bundle else []


def _has_bad_bundle(client: Object) -> bool:
    return bool(_bundle(client))


def _is_known(versions: Sequence[str]) -> bool:
    return not versions or any(version in _KNOWN for version in versions)


def _review_versions(versions: Sequence[Any], *, lenient: bool) -> Iterator[FieldError]:
    if not versions:
        yield required(_REVIEWS)
        return
    yield from review_version_errors(versions, _REVIEWS)
    if not lenient and not set(versions) & set(_KNOWN):
        yield invalid(_REVIEWS, list(versions), f"must include at least one of {', '.join(_KNOWN)}")


def validate_parts(place: Place, schema: list[FieldError]) -> list[FieldError]:
    """`place` is a version, or what all have in common; `schema` are the errors of its schema."""
    errors = [*_warning(place.version or {}, child(place.path, "deprecationWarning")), *schema]
    errors += _scale((place.parts.get("subresources") or {}).get("scale"), child(place.path, "subresources"))
    for position, column in enumerate(place.parts.get("additionalPrinterColumns") or ()):
        errors += _column_rules(column, index(child(place.path, "additionalPrinterColumns"), position))
    fields = place.parts.get("selectableFields")
    if fields:
        errors += _selectable(place, fields, child(place.path, "selectableFields"))
    return errors


def _warning(version: Object, path: str) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > _MOST_WARNING_BYTES:
        yield invalid(path, text, "must be <= 256 characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    for position, char in enumerate(text):
        if not (char == " " or unicodedata.category(char)[0] in "LMNPS"):
            at = len(text[:position].encode())
            why = f"non-printable character found at index {at}"
            shown = Unquoted(json.dumps(text, ensure_ascii=False))  # a pointer, so as JSON
            yield invalid(path, shown, f"must only contain printable UTF-8 characters; {why}")
            return


def _scale(scale: Object | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for name, prefix in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        at, value = child(path, f"scale.{name}"), scale.get(name) or ""
        if not value:
            yield required(at)
        elif not value.startswith("."):
            yield _not_simple(at, value)
        elif not value.startswith(f"{prefix}."):
            yield invalid(at, value, f"should be a json path under {prefix}")
    selector, at = scale.get("labelSelectorPath") or "", child(path, "scale.labelSelectorPath")
    if selector and not selector.startswith("."):
        yield _not_simple(at, selector)
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield invalid(at, selector, "should be a json path under either .spec or .status")


def _not_simple(path: str, value: str) -> FieldError:
    return invalid(path, value, "must be a simple json path starting with .")


def _column_rules(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(child(path, "name"))
    kind, form, place = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    if not kind:
        yield required(child(path, "type"), f"must be one of {','.join(_TYPES)}")
    elif kind not in _TYPES:
        yield invalid(child(path, "type"), kind, f"must be one of {','.join(_TYPES)}")
    if form and form not in _FORMATS:
        yield invalid(child(path, "format"), form, f"must be one of {','.join(_FORMATS)}")
    if not place:
        yield required(child(path, "JSONPath"))
    elif not place.startswith("."):
        yield _not_simple(child(path, "JSONPath"), place)


def _selectable(place: Place, fields: list[Object], path: str) -> Iterator[FieldError]:
    schema = _schema_of_version(place)
    if schema is None:
        where = (
            "validations.schema is included"
            if place.version is None
            else "`version.schema.openAPIV3Schema` is not included"
        )
        yield invalid(path, "", f"may only be set when {where}")
        return
    broken = no_structure(schema)
    if broken is not None:
        yield invalid(child(place.path, "schema.openAPIV3Schema"), "", broken)
    seen: set[str] = set()
    for position, field in enumerate(fields):
        at, given = child(index(path, position), "jsonPath"), field.get("jsonPath") or ""
        if not given:
            yield required(at)
            continue
        try:
            shown, found = read_field_path(given, schema if broken is None else {}, brackets=False)
        except FieldPathError as error:
            if broken is not None and isinstance(error, UnknownFieldError):  # looked for in a nil schema
                raise RuntimeError(_NIL_POINTER) from None
            yield invalid(at, given, f"is an invalid path: {error}")
            continue
        if shown.partition(".")[0] == "metadata":
            yield invalid(at, given, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            yield invalid(at, given, _WRONG_TYPE)
        if shown in seen:
            yield duplicate(at, given)
        seen.add(shown)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _schema_of_version(place: Place) -> Object | None:
    """Upstream looks for the schema at the same place, and nowhere else."""
    found: Object | None = (place.parts.get("schema") or {}).get("openAPIV3Schema")
    return found


def validate(obj: Object, features: SchemaFeatures) -> list[FieldError]:
    spec = obj.get("spec") or {}
    schemas = validate_definition(obj, None, features)
    errors = [*_check_name(obj), *_validate_spec(spec, schemas, established=False, old=None)]
    errors += [*validate_status(obj), *_stored_versions(obj)]
    return [*errors, *conditions.validate_approval(obj, None), *_preserve_unknown(spec, {})]


def validate_update(new: Object, old: Object, features: SchemaFeatures) -> list[FieldError]:
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    established = is_condition_true(old, conditions.ESTABLISHED)
    schemas = validate_definition(new, old, features)
    errors = _validate_spec(spec, schemas, established=established, old=was)
    errors += [*_immutable(spec, was, established=established), *validate_status(new), *_stored_versions(new)]
    return [*errors, *conditions.validate_approval(new, old), *_preserve_unknown(spec, was)]


def validate_status(obj: Object) -> list[FieldError]:
    accepted = (obj.get("status") or {}).get("acceptedNames") or {}
    return list(_names(accepted, "status.acceptedNames"))


def _check_name(obj: Object) -> Iterator[FieldError]:
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    for name in ("generateName", "name"):
        if metadata.get(name) and metadata[name] != expected:
            yield invalid(f"metadata.{name}", metadata[name], 'must be spec.names.plural+"."+spec.group')


def _validate_spec(
    spec: Object, schemas: list[FieldError], *, established: bool, old: Object | None
) -> list[FieldError]:
    """Errors of the `schemas` stand among the others, in upstream's order."""
    errors = [*_group(spec), *_enum("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))]
    *versions, above = places(spec)
    for place in versions:
        errors += _of_schema(place, schemas) if "schema" not in place.parts else ()
    if spec.get("preserveUnknownFields") and has_defaults(spec):
        why = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    for place in versions:
        errors += _version_name(place)
        errors += validate_parts(place, _of_schema(place, schemas) if "schema" in place.parts else [])
    errors += [*_versions(spec), *_required_names(spec.get("names") or {})]
    errors += _names(spec.get("names") or {}, "spec.names")
    errors += validate_parts(above, _of_schema(above, schemas))
    return [*errors, *validate_conversion(spec, old, established=established)]


def _of_schema(place: Place, schemas: list[FieldError]) -> list[FieldError]:
    at = child(place.path, "schema" if place.version is not None else "validation")
    return [error for error in schemas if error.path.startswith(at)]


def _group(spec: Object) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif problems := names.dns1123_subdomain(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _enum(path: str, value: Any, accepted: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in accepted:
        yield not_supported(path, value, accepted)


def _version_name(place: Place) -> Iterator[FieldError]:
    name = (place.version or {}).get("name") or ""
    if problems := names.dns1035_label(name):
        yield invalid(child(place.path, "name"), name, ",".join(problems))


def _versions(spec: Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", shown(spec), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", shown(spec), why)
    first = (versions[0].get("name") or "") if versions else ""
    if first and (problems := names.dns1035_label(first)):
        yield invalid("spec.version", first, ",".join(problems))


def _required_names(given: Object) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield required(f"spec.names.{name}")


def _names(given: Object, path: str) -> Iterator[FieldError]:
    for name in ("plural", "singular"):
        if given.get(name) and (problems := names.dns1035_label(given[name])):
            yield invalid(child(path, name), given[name], ",".join(problems))
    for name in ("kind", "listKind"):
        if given.get(name) and (problems := names.dns1035_label(given[name].lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield invalid(child(path, name), given[name], why)
    yield from _labels(given, path, "shortNames")
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid(child(path, "listKind"), given["listKind"], "kind and listKind may not be the same")
    yield from _labels(given, path, "categories")


def _labels(given: Object, path: str, name: str) -> Iterator[FieldError]:
    for position, label in enumerate(given.get(name) or ()):
        if problems := names.dns1035_label(label):
            yield invalid(index(child(path, name), position), label, ",".join(problems))


def _stored_versions(obj: Object) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored = (obj.get("status") or {}).get("storedVersions")
    if not stored:
        yield invalid(path, stored, "must have at least one stored version")
        return
    versions = (obj.get("spec") or {}).get("versions") or []
    left = set(stored)
    for version in versions:
        if version.get("storage") and version["name"] not in left:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
        left.discard(version["name"])  # so a name that is there twice is missed the second time
    there = {version.get("name") for version in versions}
    for name, position in {name: position for position, name in enumerate(stored)}.items():
        if name not in there:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            yield invalid(index(path, position), name, why)


def _immutable(spec: Object, was: Object, *, established: bool) -> Iterator[FieldError]:
    new, old = spec.get("names") or {}, was.get("names") or {}
    if established:
        if spec.get("scope") != was.get("scope"):
            yield invalid("spec.scope", spec.get("scope") or "", _IMMUTABLE)
        if new.get("kind") != old.get("kind"):
            yield invalid("spec.names.kind", new.get("kind") or "", _IMMUTABLE)
    if spec.get("group") != was.get("group"):
        yield invalid("spec.group", spec.get("group") or "", _IMMUTABLE)
    if new.get("plural") != old.get("plural"):
        yield invalid("spec.names.plural", new.get("plural") or "", _IMMUTABLE)


def _preserve_unknown(spec: Object, was: Object) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields") and not was.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema"
        )
        yield invalid("spec.preserveUnknownFields", True, f"{why} instead")
