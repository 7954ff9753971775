"""Pods and persistent volumes share these rules of volumes, of old ones, and of paths in them.

Source: pkg/apis/core/validation/validation.go (validateISCSIVolumeSource and its neighbours), 1.36.
"""

import re
from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, key, not_supported, required, too_long
from kubeskew.apimachinery.objects import Object

MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
Rule = Callable[[Object, str], Iterator[FieldError]]

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_INITIATORS = {
    "iqn": r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$",
    "eui": r"^eui.[A-Za-z0-9]{16}$",
    "naa": r"^naa.[A-Za-z0-9]{32}$",
}
_MAX_BYTE = 255
_MAX_DRIVER = 63
_MAX_TENANT = 64
_HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_PORT = r"(\[[^\]]*\]|[^:\[\]]*):[^:]*"
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def without_backsteps(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending_path(path: str, value: str) -> list[FieldError]:
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + without_backsteps(path, value)


def local_path(path: str, value: str) -> list[FieldError]:
    return unreserved_path(path, value) if value else [required(path)]


def unreserved_path(path: str, value: str) -> list[FieldError]:
    errors = descending_path(path, value)
    if value.startswith("..") and not value.startswith("../") and ".." not in value.split("/"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def file_mode(path: str, value: int | None) -> list[FieldError]:
    return [] if value is None or 0 <= value <= 0o777 else [invalid(path, value, MODE_TEXT)]


def needed(source: Object, path: str, *fields: str) -> Iterator[FieldError]:
    yield from (required(child(path, name)) for name in fields if not source.get(name))


def in_byte(source: Object, field: str, path: str, least: int = 0) -> Iterator[FieldError]:
    """Numbers are from 0 to 255; the text of the error names `least` as the smallest."""
    number = source.get(field) or 0
    if not 0 <= number <= _MAX_BYTE:
        yield invalid(child(path, field), number, names.range_text(least, _MAX_BYTE))


def host_path(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    if not where:
        yield required(child(path, "path"))
        return
    yield from without_backsteps(child(path, "path"), where)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield not_supported(child(path, "type"), kind, _HOST_PATH_TYPES)


def git_repo(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "repository")
    yield from descending_path(child(path, "directory"), source.get("directory") or "")


def disk(field: str) -> Rule:
    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, field)
        yield from in_byte(source, "partition", path, 1)

    return rule


def only(*fields: str) -> Rule:
    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, *fields)

    return rule


def iscsi(source: Object, path: str, *, long: bool = True) -> Iterator[FieldError]:
    """`long`: the source is a pod's, whose error says more of a wrong beginning."""
    yield from needed(source, path, "targetPortal")
    name, initiator = source.get("iqn") or "", source.get("initiatorName")
    if not name:
        yield required(child(path, "iqn"))
    else:
        yield from _initiator(name, child(path, "iqn"), long=long)
    yield from in_byte(source, "lun", path)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(child(path, "secretRef"))
    if initiator is not None:
        yield from _initiator(initiator, child(path, "initiatorname"), long=long)


def _initiator(name: str, path: str, *, long: bool) -> Iterator[FieldError]:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        ending = " starting with iqn, eui, or naa" if long else ""
        yield invalid(path, name, f"must be valid format{ending}")
    elif not re.search(pattern, name):
        yield invalid(path, name, "must be valid format")


def fibre_channel(source: Object, path: str) -> Iterator[FieldError]:
    targets, wide = source.get("targetWWNs") or [], source.get("wwids") or []
    at, lun = child(path, "targetWWNs"), source.get("lun")
    if not targets and not wide:
        yield required(at, "must specify either targetWWNs or wwids, but not both")
    if targets and wide:
        yield invalid(at, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets and lun is None:
        yield required(child(path, "lun"), "lun is required if targetWWNs is specified")
    elif targets:
        yield from in_byte(source, "lun", path)


def nfs(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    yield from needed(source, path, "server", "path")
    if not where.startswith("/"):
        yield invalid(child(path, "path"), where, "must be an absolute path")


def quobyte(source: Object, path: str) -> Iterator[FieldError]:
    registry = source.get("registry") or ""
    if not registry:
        yield required(child(path, "registry"), _HOST_PORTS)
    elif len(source.get("tenant") or "") > _MAX_TENANT:
        text = "must be a UUID and may not exceed a length of 64 characters"
        yield required(child(path, "tenant"), text)
    else:
        wrong = (pair for pair in registry.split(",") if not re.fullmatch(_HOST_PORT, pair))
        yield from (invalid(child(path, "registry"), registry, _HOST_PORTS) for _ in wrong)
    yield from needed(source, path, "volume")


def flocker(source: Object, path: str) -> Iterator[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(child(path, "datasetName"), name, "must not contain '/'")


def secret_reference(source: Object, path: str, *fields: str) -> Iterator[FieldError]:
    if source.get("secretRef") is not None:
        yield from needed(source["secretRef"], child(path, "secretRef"), *fields)


def cinder(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "volumeID")
    yield from secret_reference(source, path, "name")


def flex(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "driver")
    for name in sorted(source.get("options") or {}):
        domain = f".{name.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(key(child(path, "options"), name), name, text)


def azure_disk(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "diskName", "diskURI")
    kind, address = source.get("kind"), source.get("diskURI") or ""
    for field, allowed in (("cachingMode", _CACHING), ("kind", _DISK_KINDS)):
        value = source.get(field)
        if value is not None and value not in allowed:
            yield not_supported(child(path, field), value, allowed)
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        yield not_supported(child(path, "diskURI"), address, (_MANAGED_DISK,))
    if kind is not None and kind != "Managed" and not address.startswith("https://"):
        yield not_supported(child(path, "diskURI"), address, (_BLOB_DISK,))


def storage_os(source: Object, path: str) -> Iterator[FieldError]:
    name, namespace = source.get("volumeName") or "", source.get("volumeNamespace") or ""
    at = child(path, "volumeName")
    if not name:
        yield required(at)
    else:
        yield from (invalid(at, name, text) for text in names.dns1123_label(name))
    if namespace:
        at = child(path, "volumeNamespace")
        yield from (invalid(at, namespace, text) for text in names.dns1123_label(namespace))
    yield from secret_reference(source, path, "name")


def csi_driver_name(name: str, path: str, *, required_alone: bool = True) -> Iterator[FieldError]:
    """`required_alone`: of a missing name nothing else is said (since 1.35)."""
    if not name:
        yield required(path)
        if required_alone:
            return
    if len(name) > _MAX_DRIVER:
        yield too_long(path, _MAX_DRIVER)
    yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name.lower()))
