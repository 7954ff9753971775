"""Metadata rules for new objects and for changes.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go and core's own finalizer rule, about 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, required, too_long
from kubeskew.apimachinery.names import NameCheck
from kubeskew.apimachinery.objects import Object

MAX_ANNOTATIONS_BYTES = 256 * 1024
MAX_MANAGER_BYTES = 128
MAX_SUBRESOURCE_BYTES = 256
IMMUTABLE = "field is immutable"
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_NOT_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"
_ONE_CONTROLLER = "Only one reference can have Controller set to true"
_GRACE = "deletionGracePeriodSeconds"
# Fields that the client cannot set on a new object (rest.WipeObjectMetaSystemFields).
SYSTEM_METADATA = ("creationTimestamp", "uid", "deletionTimestamp", _GRACE, "selfLink")
_FROZEN = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", _GRACE)


def validate_object_meta(
    meta: Object,
    namespaced: bool,
    name_check: NameCheck = names.dns1123_subdomain,
    path: str = "metadata",
    *,
    core: bool = True,
) -> list[FieldError]:
    """Finalizers must be standard or qualified if `core`."""
    errors = validate_object_name(meta, name_check, path)
    errors += _validate_namespace(meta.get("namespace") or "", namespaced, path)
    if (meta.get("generation") or 0) < 0:
        errors.append(
            invalid(child(path, "generation"), meta["generation"], "must be greater than or equal to 0")
        )
    errors += _validate_rest(meta, path, _PARTS)
    return errors + validate_standard_finalizers(meta, path) if core else errors


def validate_object_name(meta: Object, name_check: NameCheck, path: str = "metadata") -> list[FieldError]:
    """Includes the prefix that the name was generated from."""
    errors: list[FieldError] = []
    name, prefix = meta.get("name") or "", meta.get("generateName") or ""
    if prefix:
        errors += [invalid(child(path, "generateName"), prefix, text) for text in name_check(prefix, True)]
    if not name:
        errors.append(required(child(path, "name"), "name or generateName is required"))
    else:
        errors += [invalid(child(path, "name"), name, text) for text in name_check(name, False)]
    return errors


def validate_object_meta_update(new: Object, old: Object, path: str = "metadata") -> list[FieldError]:
    """Takes over, in place as upstream, what an update may leave out."""
    _take_over(new, old)
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            errors.append(
                forbidden(
                    child(path, "finalizers"),
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{listed}}}",
                )
            )
    if not new.get("resourceVersion"):
        errors.append(invalid(child(path, "resourceVersion"), 0, "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(
            invalid(child(path, "generation"), new.get("generation") or 0, "must not be decremented")
        )
    errors += [
        invalid(child(path, name), new.get(name), IMMUTABLE)
        for name in _FROZEN
        if not _same(new.get(name), old.get(name))
    ]
    return errors + _validate_rest(new, path, _CHANGEABLE)


def _take_over(new: Object, old: Object) -> None:
    """Takes over metadata that an update may leave out, and what it cannot unset once the object is being
    deleted.
    """
    if not new.get("uid") and old.get("uid"):
        new["uid"] = old["uid"]
    if new.get(_GRACE) is None and old.get(_GRACE) is not None:
        new[_GRACE] = old[_GRACE]
    for name in ("creationTimestamp", "deletionTimestamp"):
        if old.get(name):
            new[name] = old[name]


def _same(after: str | int | None, before: str | int | None) -> bool:
    """An empty text equals none, but zero seconds of grace do not."""
    return (None if after == "" else after) == (None if before == "" else before)


def _validate_namespace(namespace: str, namespaced: bool, path: str) -> list[FieldError]:
    at = child(path, "namespace")
    if not namespaced:
        return [forbidden(at, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(at)]
    return [invalid(at, namespace, text) for text in names.dns1123_label(namespace)]


def _validate_rest(meta: Object, path: str, parts: "_Parts") -> list[FieldError]:
    errors: list[FieldError] = []
    for name, validate in parts:
        if part := meta.get(name):
            errors += validate(part, child(path, name))
    return errors


def validate_labels(labels: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in sorted(labels):
        if texts := names.qualified_name(key):
            errors += [invalid(path, key, text) for text in texts]
        if texts := names.label_value(labels[key]):
            errors += [invalid(path, labels[key], text) for text in texts]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors = []
    for key in sorted(annotations):
        errors += [invalid(path, key, text) for text in names.qualified_name(key.lower())]
    total = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if total > MAX_ANNOTATIONS_BYTES:
        errors.append(too_long(path, MAX_ANNOTATIONS_BYTES))
    return errors


def validate_owner_references(references: Sequence[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller: Object | None = None
    for reference in references:
        errors += _validate_owner(reference, path)
        if reference.get("controller"):
            if controller is not None:
                named = " and ".join(
                    f"{owner.get('kind')}/{owner.get('name')}" for owner in (controller, reference)
                )
                text = f'{_ONE_CONTROLLER}. Found "true" in references for {named}'
                errors.append(invalid(path, [_shown_owner(reference) for reference in references], text))
            controller = reference
    return errors


def _validate_owner(reference: Object, path: str) -> list[FieldError]:
    errors = []
    api_version = reference.get("apiVersion") or ""
    if api_version.count("/") > 1 or not api_version.rpartition("/")[2]:
        errors.append(invalid(child(path, "apiVersion"), api_version, "version must not be empty"))
    errors += [
        invalid(child(path, name), "", "must not be empty")
        for name in ("kind", "name", "uid")
        if not reference.get(name)
    ]
    if (api_version, reference.get("kind")) == ("v1", "Event"):
        text = f"/v1, Kind={reference['kind']} is disallowed from being an owner"
        errors.append(invalid(path, _shown_owner(reference), text))
    return errors


def _shown_owner(reference: Object) -> Object:
    """Writes the reference as Go does: fields in their order, the first four always."""
    found = {name: reference.get(name) or "" for name in ("apiVersion", "kind", "name", "uid")}
    rest = ("controller", "blockOwnerDeletion")
    return {**found, **{name: reference[name] for name in rest if reference.get(name) is not None}}


def validate_standard_finalizers(meta: Object, path: str = "metadata") -> list[FieldError]:
    """Finalizers of built-in kinds must be standard ones if they have no domain, beyond the generic rules."""
    at = child(path, "finalizers")
    return [
        invalid(index(at, position), name, _NOT_STANDARD)
        for position, name in enumerate(meta.get("finalizers") or ())
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]


def finalizer_name_errors(name: str, path: str) -> list[FieldError]:
    """Finalizers in a namespace's spec must be qualified, and standard ones if they have no domain."""
    texts = names.qualified_name(name)
    if "/" not in name and name not in STANDARD_FINALIZERS:
        texts = [*texts, _NOT_STANDARD]
    return [invalid(path, name, text) for text in texts]


def validate_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors = []
    for name in finalizers:
        errors += [invalid(path, name, text) for text in names.qualified_name(name)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, list(finalizers), text))
    return errors


def validate_managed_fields(entries: Sequence[Object], path: str) -> list[FieldError]:
    errors = []
    for position, entry in enumerate(entries):
        at = index(path, position)
        if entry.get("operation") not in {"Apply", "Update"}:
            operation = entry.get("operation") or ""
            errors.append(invalid(child(at, "operation"), operation, "must be `Apply` or `Update`"))
        if entry.get("fieldsType") not in {"", None, "FieldsV1"}:
            errors.append(invalid(child(at, "fieldsType"), entry["fieldsType"], "must be `FieldsV1`"))
        manager, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        if len(manager.encode()) > MAX_MANAGER_BYTES:
            errors.append(too_long(child(at, "manager"), MAX_MANAGER_BYTES))
        if not manager.isprintable():
            errors += manager_character_errors(manager, child(at, "manager"))
        if subresource and len(subresource.encode()) > MAX_SUBRESOURCE_BYTES:
            errors.append(too_long(child(at, "subresource"), MAX_SUBRESOURCE_BYTES))
    return errors


_Parts = Sequence[tuple[str, Callable[[Any, str], list[FieldError]]]]
_PARTS: _Parts = (
    ("labels", validate_labels),
    ("annotations", validate_annotations),
    ("ownerReferences", validate_owner_references),
    ("finalizers", validate_finalizers),
    ("managedFields", validate_managed_fields),
)


def manager_character_errors(manager: str, path: str) -> list[FieldError]:
    """Each character that cannot be printed is one error; positions are in bytes."""
    errors, position = [], 0
    for char in manager:
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(invalid(path, manager, text))
        position += len(char.encode(errors="surrogatepass"))
    return errors


_CHANGEABLE = [part for part in _PARTS if part[0] != "finalizers"]  # checked only by the rules of new objects
