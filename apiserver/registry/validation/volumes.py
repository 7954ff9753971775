"""Rules of the volumes of a pod.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes), 1.36. Some paths lack an index there.
"""

from collections.abc import Callable, Iterator

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from apimachinery.quantity import Quantity
from apimachinery.validation import names
from apiserver.registry.validation import paths

Rule = Callable[[Object, str], Iterator[FieldError]]

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_DOWNWARD_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_DOWNWARD_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def volume_errors(volumes: list[Object], path: str) -> tuple[list[FieldError], dict[str, Object]]:
    """What is wrong with the volumes, and the volumes by name (those with a usable name)."""
    errors: list[FieldError] = []
    known: dict[str, Object] = {}
    for position, volume in enumerate(volumes):
        at = index(path, position)
        name = volume.get("name") or ""
        own = list(_source(volume, at))
        if not name:
            own.append(required(child(at, "name")))
        else:
            own += [invalid(child(at, "name"), name, text) for text in names.dns1123_label(name)]
        if name in known:
            own.append(duplicate(child(at, "name"), name))
        if not own:
            known[name] = volume
        errors += own
    return errors, known


def _source(volume: Object, path: str) -> Iterator[FieldError]:
    used = [name for name in _SOURCES if volume.get(name) is not None]
    used += [name for name in volume if name not in _SOURCES and name != "name" and volume[name] is not None]
    if not used:
        yield required(path, "must specify a volume type")
        return
    first, *others = used
    rule = _SOURCES.get(first)
    if rule is not None:
        yield from rule(volume[first], child(path, first))
    for other in others:
        yield forbidden(child(path, other), "may not specify more than 1 volume type")


def _empty_dir(source: Object, path: str) -> Iterator[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit) < Quantity.parse("0"):
        yield forbidden(child(path, "sizeLimit"), "SizeLimit field must be a valid resource quantity")


def _host_path(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    if not where:
        yield required(child(path, "path"))
        return
    yield from paths.without_backsteps(child(path, "path"), where)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield not_supported(child(path, "type"), kind, _HOST_PATH_TYPES)


def _items(source: Object, path: str) -> Iterator[FieldError]:
    for position, item in enumerate(source.get("items") or []):
        at = index(child(path, "items"), position)
        if not item.get("key"):
            yield required(child(at, "key"))
        yield from paths.local_file(child(at, "path"), item.get("path") or "")
        yield from paths.mode(child(at, "mode"), item.get("mode"))


def _secret(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("secretName"):
        yield required(child(path, "secretName"))
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
    yield from _items(source, path)


def _config_map(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield required(child(path, "name"))
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
    yield from _items(source, path)


def _claim(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("claimName"):
        yield required(child(path, "claimName"))


def _nfs(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    if not source.get("server"):
        yield required(child(path, "server"))
    if not where:
        yield required(child(path, "path"))
    if not where.startswith("/"):
        yield invalid(child(path, "path"), where, "must be an absolute path")


def _downward_file(item: Object, path: str) -> Iterator[FieldError]:
    yield from paths.local_file(child(path, "path"), item.get("path") or "")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_reference(field, child(path, "fieldRef"), _DOWNWARD_FIELDS)
        if resource is not None:
            yield invalid(
                path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
    elif resource is not None:
        yield from resource_reference(resource, child(path, "resourceFieldRef"), local=False)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from paths.mode(child(path, "mode"), item.get("mode"))


def _downward(source: Object, path: str) -> Iterator[FieldError]:
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
    for item in source.get("items") or []:
        yield from _downward_file(item, path)


def field_reference(source: Object, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """A `fieldRef`: one of the allowed paths, or one key of the labels or annotations."""
    where = source.get("fieldPath") or ""
    if not source.get("apiVersion"):
        yield required(child(path, "apiVersion"))
        return
    if not where:
        yield required(child(path, "fieldPath"))
        return
    plain, subscript, rest = where.partition("['")
    if subscript and rest.endswith("']"):
        if plain not in {"metadata.annotations", "metadata.labels"}:
            yield invalid(path, plain, "does not support subscript")
        return
    if where not in allowed:
        yield not_supported(child(path, "fieldPath"), where, sorted(allowed))


def resource_reference(source: Object, path: str, *, local: bool) -> Iterator[FieldError]:
    """A `resourceFieldRef`; outside of its container (`local` false) it must name one."""
    if not local and not source.get("containerName"):
        yield required(child(path, "containerName"))
        return
    name = source.get("resource") or ""
    if not name:
        yield required(child(path, "resource"))
    elif name not in _DOWNWARD_RESOURCES and not name.startswith(
        ("requests.hugepages-", "limits.hugepages-")
    ):
        yield not_supported(child(path, "resource"), name, _DOWNWARD_RESOURCES)


def _projected(source: Object, path: str) -> Iterator[FieldError]:
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
    for position, part in enumerate(source.get("sources") or []):
        at = index(child(path, "sources"), position)
        used = [name for name in part if part[name] is not None]
        if not used:
            yield required(at, "must specify a volume source")
        for name in used[:1]:
            rule = _PROJECTIONS.get(name)
            if rule is not None:
                yield from rule(part[name], child(at, name))
        for name in used[1:]:
            yield forbidden(child(at, name), "may not specify more than 1 volume type per source")


def _named_items(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield required(child(path, "name"))
    yield from _items(source, path)


def _downward_items(source: Object, path: str) -> Iterator[FieldError]:
    for item in source.get("items") or []:
        yield from _downward_file(item, path)


def _token(source: Object, path: str) -> Iterator[FieldError]:
    seconds = source.get("expirationSeconds") or 0
    if seconds < 600:
        yield invalid(
            child(path, "expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        yield invalid(
            child(path, "expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"
        )
    yield from paths.local_file(child(path, "path"), source.get("path") or "")


def _image(source: Object, path: str) -> Iterator[FieldError]:
    policy = source.get("pullPolicy") or ""
    if policy and policy not in _PULL_POLICIES:
        yield not_supported(child(path, "pullPolicy"), policy, _PULL_POLICIES)


def _csi(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("driver"):
        yield required(child(path, "driver"))


_PROJECTIONS: dict[str, Rule] = {
    "secret": _named_items,
    "configMap": _named_items,
    "downwardAPI": _downward_items,
    "serviceAccountToken": _token,
}
_SOURCES: dict[str, Rule] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "nfs": _nfs,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "image": _image,
}
