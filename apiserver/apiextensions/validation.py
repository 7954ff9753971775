"""Holds the rules of definitions.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions import approval, conditions, internal
from kubeskew.apiserver.apiextensions.validating_conversion import validate_conversion
from kubeskew.apiserver.apiextensions.validating_parts import validate_parts
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import has_defaults, validate_definition

_IMMUTABLE = "field is immutable"


def validate(obj: Object, features: SchemaFeatures) -> list[FieldError]:
    """Returns the errors of a new definition, beside those of metadata in general."""
    spec = obj.get("spec") or {}
    schemas = validate_definition(obj, None, features)
    errors = [*_check_name(obj), *_validate_spec(spec, schemas, established=False, old=None)]
    errors += [*validate_status(obj), *_stored_versions(obj)]
    return [*errors, *approval.validate(obj, None), *_preserve_unknown(spec, {})]


def validate_update(new: Object, old: Object, features: SchemaFeatures) -> list[FieldError]:
    """Returns the errors of a changed definition."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    established = conditions.is_true(old, conditions.ESTABLISHED)
    schemas = validate_definition(new, old, features)
    errors = _validate_spec(spec, schemas, established=established, old=was)
    errors += [*_immutable(spec, was, established=established), *validate_status(new), *_stored_versions(new)]
    return [*errors, *approval.validate(new, old), *_preserve_unknown(spec, was)]


def validate_status(obj: Object) -> list[FieldError]:
    """Returns the errors of a definition's status."""
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
    """Returns the errors of the specification, with those of its `schemas` in upstream's order."""
    errors = [*_group(spec), *_enum("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))]
    *versions, above = internal.places(spec)
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


def _of_schema(place: internal.Place, schemas: list[FieldError]) -> list[FieldError]:
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


def _version_name(place: internal.Place) -> Iterator[FieldError]:
    name = (place.version or {}).get("name") or ""
    if problems := names.dns1035_label(name):
        yield invalid(child(place.path, "name"), name, ",".join(problems))


def _versions(spec: Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", internal.shown(spec), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", internal.shown(spec), why)
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
