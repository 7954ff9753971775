"""PersistentVolumeClaim: defaults, and the rules of claims and of templates of them.

The rules of a template's metadata are those of templates of ResourceClaims too: labels and annotations,
nothing else.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidatePersistentVolumeClaim
and its neighbours, ValidateTemplateObjectMeta), 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, invalid, key, not_supported, required
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_native
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import VolumeFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import ZERO, round_amounts

# What it may not have, in the order of the Go type.
_SPELLED = {"uid": "uID"}  # upstream lowers the first letter of the Go field's name
_OTHERS = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_ALONE = "may not use ReadWriteOncePod with other access modes"
_DEFAULT_GROUP = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
_RESIZES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
    "NodeResizeInfeasible", "NodeResizePending",
)  # fmt: skip


def default_volume_claim(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "status"), phase="Pending")
    fill_null(struct(obj, "spec"), volumeMode="Filesystem")
    round_amounts(obj["spec"].get("resources"), "limits", "requests")
    round_amounts(obj["status"], "capacity", "allocatedResources")


def template_metadata_errors(metadata: Object, path: str) -> Iterator[FieldError]:
    yield from object_meta.validate_annotations(metadata.get("annotations") or {}, child(path, "annotations"))
    yield from object_meta.validate_labels(metadata.get("labels") or {}, child(path, "labels"))
    for name in _OTHERS:
        value = given(metadata, name)
        if value or isinstance(value, list):  # an empty list is set, in Go
            yield forbidden(child(path, _SPELLED.get(name, name)), "cannot be set")


def access_mode_errors(modes: list[str], path: str) -> Iterator[FieldError]:
    yield from (not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES)
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        yield forbidden(path, _ALONE)


def claim_errors(spec: Object, path: str, *, classes: bool = True) -> Iterator[FieldError]:
    """`classes`: classes of attributes are known (gate VolumeAttributesClass)."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield required(child(path, "accessModes"), "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from selectors.selector_errors(spec["selector"], child(path, "selector"))
    yield from access_mode_errors(modes, child(path, "accessModes"))
    at = key(child(path, "resources"), "storage")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required(at)
    elif Quantity.parse(storage) <= ZERO:
        yield invalid(at, storage, "must be greater than zero")
    yield from _class_errors(spec, "storageClassName", path)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield not_supported(child(path, "volumeMode"), mode, VOLUME_MODES)
    if spec.get("dataSource") is not None or spec.get("dataSourceRef") is not None:
        yield from _data_errors(spec, path)
    if classes:
        yield from _class_errors(spec, "volumeAttributesClassName", path)


def _class_errors(spec: Object, field: str, path: str) -> Iterator[FieldError]:
    name = spec.get(field) or ""
    if name:
        yield from (invalid(child(path, field), name, text) for text in names.dns1123_subdomain(name))


def _data_errors(spec: Object, path: str) -> Iterator[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        yield from _source_errors(source, child(path, "dataSource"))
    if reference is not None:
        yield from _source_errors(reference, child(path, "dataSourceRef"))
    namespace = (reference or {}).get("namespace")
    if namespace:
        at = child(path, "dataSourceRef.namespace")
        yield from (invalid(at, namespace, text) for text in names.dns1123_label(namespace))
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(path, {}, text)  # upstream passes the path, which has no visible fields
    elif source is not None and reference is not None:
        same = all(source.get(name) == reference.get(name) for name in ("apiGroup", "kind", "name"))
        if not same:
            yield invalid(path, {}, "must match dataSourceRef")


def _source_errors(source: Object, path: str) -> Iterator[FieldError]:
    yield from (required(child(path, name)) for name in ("name", "kind") if not source.get(name))
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        yield invalid(path, kind, _DEFAULT_GROUP)
    if group:
        at = child(path, "apiGroup")
        yield from (invalid(at, group, text) for text in names.dns1123_subdomain(group))


def template_errors(template: Object, path: str) -> Iterator[FieldError]:
    yield from template_metadata_errors(template.get("metadata") or {}, child(path, "metadata"))
    yield from claim_errors(template.get("spec") or {}, child(path, "spec"))


# --- changes -----------------------------------------------------------------------------------------------


def claim_update_errors(new: Object, old: Object, features: VolumeFeatures) -> Iterator[FieldError]:
    """The spec stays, except the size and class of bound claims, and the fields that binding sets."""
    before, after = old["spec"].copy(), new["spec"].copy()
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)
    yield from _storage_class_errors(new, old, before, after)
    if ((new.get("status") or {}).get("phase")) == "Bound":
        _free(after, before)
    if before != after:
        difference = features.internal.difference("core.PersistentVolumeClaimSpec", before, after)
        yield forbidden("spec", _IMMUTABLE_SPEC + difference)
    yield from _size_errors(new, old, shrinks=features.claim_shrinks)
    mode = new["spec"].get("volumeMode")
    if mode != old["spec"].get("volumeMode"):
        yield invalid("volumeMode", mode, IMMUTABLE)
    classes, applied = features.attributes_classes, features.plural_status_path
    yield from _attributes_errors(new, old, classes=classes, applied=applied)


_IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
    "claims\n"
)


def _storage_class_errors(new: Object, old: Object, before: Object, after: Object) -> Iterator[FieldError]:
    """A class is only added, or moved from the old annotation to its field."""
    had, has = (claim["metadata"].get("annotations") or {} for claim in (old, new))
    name = after.get("storageClassName")
    moved = before.get("storageClassName") is None and name is not None
    if moved and BETA_CLASS in had and name == had[BETA_CLASS] == has.get(BETA_CLASS, name):
        after.pop("storageClassName")
        return
    if had.get(BETA_CLASS, "") != has.get(BETA_CLASS, ""):
        yield invalid(f"metadata.annotations.{BETA_CLASS}", has.get(BETA_CLASS, ""), IMMUTABLE)
    if moved and name == had.get(BETA_CLASS, name):
        after.pop("storageClassName")


def _free(after: Object, before: Object) -> None:
    for resources, amounts in [(after.get("resources") or {}, before.get("resources") or {})]:
        if resources.get("requests") is not None:
            requests = {**resources["requests"], **_only(amounts.get("requests"), "storage")}
            after["resources"] = {**resources, "requests": requests}
    if after.get("volumeAttributesClassName") is not None:
        after.pop("volumeAttributesClassName")
        after.update(_only(before, "volumeAttributesClassName"))


def _only(obj: Object | None, name: str) -> Object:
    return {name: obj[name]} if obj and name in obj else {}


def _storage(obj: Any, *fields: str) -> Quantity:
    for field in fields:
        obj = (obj or {}).get(field)
    return Quantity.of((obj or {}).get("storage"))


def _size_errors(new: Object, old: Object, *, shrinks: bool) -> Iterator[FieldError]:
    size = _storage(new["spec"], "resources", "requests")
    if size >= _storage(old["spec"], "resources", "requests"):
        return
    at = "spec.resources.requests.storage"
    if not shrinks:
        yield forbidden(at, "field can not be less than previous value")
    elif size <= _storage(old, "status", "capacity"):
        yield forbidden(at, "field can not be less than status.capacity")


def _attributes_errors(new: Object, old: Object, *, classes: bool, applied: bool) -> Iterator[FieldError]:
    at, name = "spec.volumeAttributesClassName", new["spec"].get("volumeAttributesClassName")
    before = old["spec"].get("volumeAttributesClassName")
    if before == name:
        return
    if not classes:
        text = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
        yield forbidden(at, text)
    current = (old.get("status") or {}).get("currentVolumeAttributesClassName") if applied else before
    if current is None or name:
        return
    if applied:
        gone = "nil" if name is None else "empty string"
        text = f"update to {gone} is forbidden when status.currentVolumeAttributesClassName is not nil"
    else:
        text = f"update from non-nil value to {'nil' if name is None else 'an empty string'} is forbidden"
    yield forbidden(at, text)


def status_errors(new: Object, *, shrinks: bool, plural: bool) -> Iterator[FieldError]:
    """`plural`: the path's last name, right only in later releases."""
    status = new.get("status") or {}
    if not new["spec"].get("accessModes"):
        yield required("Spec.accessModes")
    yield from _capacities(status.get("capacity") or {}, "status.capacity")
    if not shrinks:
        return
    at = "status.allocatedResourceStatuses" if plural else "status.allocatedResourceStatus"
    for name, state in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        yield from _resource_key(name, at)
        if state not in _RESIZES:
            yield not_supported(at, name, _RESIZES)
    at = "status.allocatedResources"
    for name, amount in sorted((status.get("allocatedResources") or {}).items()):
        wrong = list(_resource_key(name, at))
        yield from wrong or _capacities({name: amount}, at)


def _capacities(amounts: dict[str, str], path: str) -> Iterator[FieldError]:
    for name in sorted(amounts):
        value = Quantity.parse(amounts[name]).value()
        if value < 0:
            yield invalid(key(path, name), value, "must be a valid resource quantity")


def _resource_key(name: str, path: str) -> Iterator[FieldError]:
    texts = names.qualified_name(name)
    yield from (invalid(path, name, text) for text in texts)
    if not texts and is_native(name) and name != "storage":
        yield not_supported(path, name, ("storage",))
