"""Persistent volumes follow these rules.

Source: core validation (ValidatePersistentVolumeSpec, …Update) and pkg/volume/validation, 1.36.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    InternalValue,
    child,
    forbidden,
    invalid,
    key,
    not_supported,
    required,
)
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import ZERO
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes import sources

_POLICIES = ("Delete", "Recycle", "Retain")
_MAX_ISCSI = 64
_CSI_SECRETS = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip
_BETA_LABELS = {
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_WITH_MOUNT_OPTIONS = (
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder",
    "cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
)  # fmt: skip
_INLINE = "in the context of inline volumes"
_NOT_INLINE = f"may not be specified {_INLINE}"
_NO_WHOLE_HOST = "may not be 'recycle' for a hostPath mount of '/'"


def volume_errors(spec: Object, *, any_value: bool, required_alone: bool) -> Iterator[FieldError]:
    """`any_value`: node affinity may ask for values that no label can have; `required_alone`: of a CSI driver
    that is missing nothing else is said."""
    yield from _access_modes(spec, "spec")
    yield from _capacity(spec)
    policy = spec.get("persistentVolumeReclaimPolicy") or ""
    if policy and policy not in _POLICIES:
        yield not_supported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        yield from _affinity(affinity, any_value=any_value)
    yield from _source_errors(spec, "spec", required_alone=required_alone)
    for field in ("storageClassName", "volumeAttributesClassName"):
        name = spec.get(field) or ""
        if field == "volumeAttributesClassName":
            yield from _class_errors(spec)
        if name:
            yield from (invalid(child("spec", field), name, text) for text in names.dns1123_subdomain(name))
        mode = spec.get("volumeMode")
        if field == "storageClassName" and mode is not None and mode not in volumes_claims.VOLUME_MODES:
            yield not_supported("spec.volumeMode", mode, volumes_claims.VOLUME_MODES)


def mount_option_errors(obj: Object) -> Iterator[FieldError]:
    noted = _MOUNT_OPTIONS in (obj["metadata"].get("annotations") or {})
    if noted and all(obj["spec"].get(kind) is None for kind in _WITH_MOUNT_OPTIONS):
        text = "may not specify mount options for this volume type"
        yield forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", text)


def inline_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """An attachment may hold a pod's inline volume itself: nobody else knows it."""
    if spec.get("claimRef") is not None:
        yield forbidden(child(path, "claimRef"), _NOT_INLINE)
    if spec.get("capacity"):
        yield forbidden(child(path, "capacity"), _NOT_INLINE)
    if spec.get("csi") is None:
        yield required(child(path, "csi"), f"has to be specified {_INLINE}")
    yield from _access_modes(spec, path)
    if spec.get("persistentVolumeReclaimPolicy") not in {None, "", "Retain"}:
        yield forbidden(child(path, "persistentVolumeReclaimPolicy"), f"may only be Retain {_INLINE}")
    if spec.get("nodeAffinity") is not None:
        yield forbidden(child(path, "nodeAffinity"), _NOT_INLINE)
    yield from _source_errors(spec, path)
    if spec.get("storageClassName"):
        yield forbidden(child(path, "storageClassName"), _NOT_INLINE)
    if spec.get("volumeMode") not in {None, "Filesystem"}:
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        yield forbidden(child(path, "volumeMode"), text)


def _access_modes(spec: Object, path: str) -> Iterator[FieldError]:
    modes, at = spec.get("accessModes") or [], child(path, "accessModes")
    if not modes:
        yield required(at)
    yield from volumes_claims.access_mode_errors(modes, at)


def _is_root(source: Object) -> bool:
    where = source.get("path") or ""
    return where.startswith("/") and not where.strip("/.")


def _class_errors(spec: Object) -> Iterator[FieldError]:
    name = spec.get("volumeAttributesClassName")
    if name == "":
        yield required("spec.volumeAttributesClassName", "an empty string is disallowed")
    if name is not None and spec.get("csi") is None:
        yield required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _capacity(spec: Object) -> Iterator[FieldError]:
    capacity, shown = spec.get("capacity") or {}, given(spec, "capacity")
    if not capacity:
        yield required("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported("spec.capacity", shown, ("storage",))
    for name in sorted(capacity):
        size, at = Quantity.parse(capacity[name]), key("spec.capacity", name)
        if size < ZERO:
            yield invalid(at, size.value(), "must be a valid resource quantity")
        if size <= ZERO:
            yield invalid(at, capacity[name], "must be greater than zero")


def _affinity(affinity: Object, *, any_value: bool) -> Iterator[FieldError]:
    at = "spec.nodeAffinity.required"
    if affinity.get("required") is None:
        yield required(at, "must specify required node constraints")
    else:
        yield from selectors.node_selector_errors(affinity["required"], at, any_value=any_value)


# --- sources -----------------------------------------------------------------------------------------------

Rule = Callable[[Object, str], Iterator[FieldError]]


def _source_errors(spec: Object, path: str, *, required_alone: bool = True) -> Iterator[FieldError]:
    found = False
    for kind in [source for source in SOURCES if spec.get(source) is not None]:
        if found and kind != "flexVolume":  # which may come second, but none after it
            refused = {"cephfs": "cephFS", "gcePersistentDisk": "gcePersistentDisk"}.get(kind, kind)
            yield forbidden(child(path, refused), "may not specify more than 1 volume type")
            continue
        found = True
        shown = {"gcePersistentDisk": "persistentDisk"}.get(kind, kind)
        if kind == "csi":
            name, at = spec["csi"].get("driver") or "", child(path, "csi.driver")
            yield from sources.csi_driver_name(name, at, required_alone=required_alone)
        yield from SOURCES[kind](spec[kind], child(path, shown))
        if kind == "local" and spec.get("nodeAffinity") is None:
            yield required(child(path, "nodeAffinity"), "Local volume requires node affinity")
    if not found:
        yield required(path, "must specify a volume type")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if spec.get("hostPath") is not None and recycled and _is_root(spec["hostPath"]):
        yield forbidden(child(path, "persistentVolumeReclaimPolicy"), _NO_WHOLE_HOST)


def _iscsi(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.iscsi(source, path, long=False)
    yield from sources.secret_reference(source, path, "name")


def _local(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    if not where:
        yield required(child(path, "path"))
        return
    yield from sources.without_backsteps(child(path, "path"), where)


def _azure_file(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.needed(source, path, "secretName", "shareName")
    if source.get("secretNamespace") == "":
        yield required(child(path, "secretNamespace"))


def _glusterfs(source: Object, path: str) -> Iterator[FieldError]:
    namespace, at = source.get("endpointsNamespace"), child(path, "endpointsNamespace")
    yield from sources.needed(source, path, "endpoints", "path")
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid(at, namespace, text)
    elif namespace is not None:
        yield from (invalid(at, namespace, text) for text in names.dns1123_label(namespace))


def _scale_io(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.needed(source, path, "gateway", "system", "volumeName")


def _storage_os(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.storage_os({**source, "secretRef": None}, path)
    yield from sources.secret_reference(source, path, "name", "namespace")


def _csi(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.needed(source, path, "volumeHandle")
    for field in _CSI_SECRETS:
        reference = source.get(field)
        if reference is not None:
            yield from _reference(reference, child(path, field))


def _reference(reference: Object, path: str) -> Iterator[FieldError]:
    for field, check in (("name", names.dns1123_subdomain), ("namespace", names.dns1123_label)):
        value = reference.get(field) or ""
        if not value:
            yield required(child(path, field))
        else:
            yield from (invalid(child(path, field), value, text) for text in check(value))


def _cinder(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.needed(source, path, "volumeID")
    yield from sources.secret_reference(source, path, "name", "namespace")


SOURCES: dict[str, Rule] = {
    "hostPath": sources.host_path,
    "gcePersistentDisk": sources.disk("pdName"),
    "awsElasticBlockStore": sources.disk("volumeID"),
    "glusterfs": _glusterfs,
    "flocker": sources.flocker,
    "nfs": sources.nfs,
    "rbd": sources.only("monitors", "image"),
    "quobyte": sources.quobyte,
    "cephfs": sources.only("monitors"),
    "iscsi": _iscsi,
    "cinder": _cinder,
    "fc": sources.fibre_channel,
    "flexVolume": sources.flex,
    "azureFile": _azure_file,
    "vsphereVolume": sources.only("volumePath"),
    "photonPersistentDisk": sources.only("pdID"),
    "portworxVolume": sources.only("volumeID"),
    "azureDisk": sources.azure_disk,
    "scaleIO": _scale_io,
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}


# --- changes -----------------------------------------------------------------------------------------------


def update_errors(new: Object, old: Object, types: InternalTypes) -> Iterator[FieldError]:
    before, after = ({kind: spec[kind] for kind in SOURCES if kind in spec} for spec in (old, new))
    _let_in_expansion_secret(after, before)
    if before != after:
        text = "spec.persistentvolumesource is immutable after creation\n"
        difference = types.difference("core.PersistentVolumeSource", before, after)
        yield forbidden("spec.persistentvolumesource", text + difference)
    if new.get("volumeMode") != old.get("volumeMode"):
        yield invalid("volumeMode", new.get("volumeMode"), IMMUTABLE)
    affinity, was = new.get("nodeAffinity"), old.get("nodeAffinity")
    if was is not None and not _only_renames(was, affinity):
        text = "field is immutable, except for updating from beta label to GA"
        yield invalid("nodeAffinity", InternalValue(affinity, "*core.VolumeNodeAffinity"), text)
    if old.get("volumeAttributesClassName") is not None and new.get("volumeAttributesClassName") is None:
        yield forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _let_in_expansion_secret(after: Object, before: Object) -> None:
    now, then = after.get("csi"), before.get("csi")
    if now and then and then.get("controllerExpandSecretRef") is None:
        after["csi"] = now.copy()
        after["csi"].pop("controllerExpandSecretRef", None)


def _only_renames(old: Any, new: Any) -> bool:
    """True if nothing but keys of requirements changed, beta labels to those that followed them.

    Other keys were followed by none, so that an empty key may stand for each.
    """
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_only_renames, old, new))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return bool(old == new)
    if "operator" in old or "operator" in new:  # a requirement
        if _BETA_LABELS.get(old.get("key") or "", "") == (new.get("key") or ""):
            old = {**old, "key": new.get("key")}
        return {**old, "key": old.get("key") or ""} == {**new, "key": new.get("key") or ""}
    return old.keys() == new.keys() and all(_only_renames(old[name], new[name]) for name in old)
