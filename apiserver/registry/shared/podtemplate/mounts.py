"""Holds the rules of what a container mounts, and of its devices.

Source: pkg/apis/core/validation/validation.go (ValidateVolumeMounts, ValidateVolumeDevices), 1.36.
"""

from collections.abc import Iterator, Mapping

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    index,
    invalid,
    not_found,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import paths
from kubeskew.apiserver.registry.shared.pod_options import PodOptions

_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_UNIQUE = "must be unique"
_CLAIMS_ONLY = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


def mount_errors(
    container: Object, volumes: Mapping[str, Object], path: str, options: PodOptions
) -> Iterator[FieldError]:
    devices = {
        device.get("name") or "": device.get("devicePath") or ""
        for device in container.get("volumeDevices") or ()
    }
    seen: set[str] = set()
    for position, mount in enumerate(container["volumeMounts"]):
        at = index(path, position)
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(child(at, "name"))
        if name not in volumes:
            yield not_found(child(at, "name"), name)
        if not where:
            yield required(child(at, "mountPath"))
        if where in seen:
            yield invalid(child(at, "mountPath"), where, _UNIQUE)
        seen.add(where)
        if name in devices:
            yield invalid(child(at, "name"), name, "must not already exist in volumeDevices")
        if where in devices.values():
            text = "must not already exist as a path in volumeDevices"
            yield invalid(child(at, "mountPath"), where, text)
        if options.features.image_mount_paths and (volumes.get(name) or {}).get("image") is not None:
            yield from _image_paths(mount, at)
        yield from _sub_paths(mount, path, at)
        yield from _propagation_errors(mount, container, child(path, "mountPropagation"))
        yield from _recursive_errors(mount, child(path, "recursiveReadOnly"))


def _image_paths(mount: Object, path: str) -> Iterator[FieldError]:
    for name in ("subPath", "subPathExpr"):
        if mount.get(name):
            yield invalid(child(path, name), mount[name], "not allowed in image volume sources")


def _sub_paths(mount: Object, path: str, at: str) -> Iterator[FieldError]:
    """Checks sub paths; `path` is that of the list, as upstream tells."""
    sub, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if sub:
        yield from paths.descending(child(path, "subPath"), sub)
    if expression:
        if sub:
            text = "subPathExpr and subPath are mutually exclusive"
            yield invalid(child(at, "subPathExpr"), expression, text)
        yield from paths.descending(child(path, "subPathExpr"), expression)


def _propagation_errors(mount: Object, container: Object, path: str) -> Iterator[FieldError]:
    value = mount.get("mountPropagation")
    if value is None:
        return
    if value not in _PROPAGATION:
        yield not_supported(path, value, _PROPAGATION)
    if value == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(path, text)


def _recursive_errors(mount: Object, path: str) -> Iterator[FieldError]:
    value = mount.get("recursiveReadOnly")
    if value is None or value == "Disabled":
        return
    if value not in _RECURSIVE:
        yield not_supported(path, value, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in {None, "None"}:
        yield forbidden(path, "may only be specified when mountPropagation is None or not specified")


def device_errors(container: Object, volumes: Mapping[str, Object], path: str) -> Iterator[FieldError]:
    mounts = {
        mount.get("name") or "": mount.get("mountPath") or "" for mount in container.get("volumeMounts") or ()
    }
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for position, device in enumerate(container["volumeDevices"]):
        at = index(path, position)
        name, where = device.get("name") or "", device.get("devicePath") or ""
        yield from _device_name(name, volumes, seen_names, child(at, "name"))
        at_path = child(at, "devicePath")
        if not where:
            yield required(at_path)
        if where in seen_paths:
            yield invalid(at_path, where, _UNIQUE)
        if ".." in where.split("/"):
            yield invalid(at_path, where, "can not contain backsteps ('..')")
        else:
            seen_paths.add(where)
        if name in mounts:
            yield invalid(child(at, "name"), name, "must not already exist in volumeMounts")
        if where in mounts.values():
            yield invalid(at_path, where, "must not already exist as a path in volumeMounts")


def _device_name(name: str, volumes: Mapping[str, Object], seen: set[str], path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if name in seen:
        yield invalid(path, name, _UNIQUE)
    volume = volumes.get(name)
    if volume is None:
        yield not_found(path, name)
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        yield invalid(path, name, _CLAIMS_ONLY)
    if name:
        seen.add(name)
