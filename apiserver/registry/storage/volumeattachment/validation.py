"""Checks VolumeAttachments.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    invalid,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared.volumes import persistent_volumes
from kubeskew.apiserver.registry.storage.driver_names import driver_name_errors

_MAX_PARAMETER_BYTES = 256 * 1024

_MAX_ERROR_BYTES = 1024

_EITHER_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def attachment_errors(obj: Object) -> Iterator[FieldError]:
    """Checks a VolumeAttachment."""
    spec = obj.get("spec") or {}
    if not spec.get("attacher"):
        yield required("spec.attacher")
    source, at = spec.get("source") or {}, "spec.source"
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        yield required(at, _EITHER_SOURCE)
    elif inline is not None and volume is not None:
        yield forbidden(at, _EITHER_SOURCE)
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        yield required(child(at, "persistentVolumeName"), text)
    elif inline is not None:
        yield from persistent_volumes.inline_errors(inline, child(at, "inlineVolumeSpec"))
    node = spec.get("nodeName") or ""
    yield from (invalid("spec.nodeName", node, text) for text in names.dns1123_subdomain(node))
    yield from _attachment_status(obj.get("status") or {})


def _attachment_status(status: Object) -> Iterator[FieldError]:
    metadata = status.get("attachmentMetadata") or {}
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
        > _MAX_PARAMETER_BYTES
    ):
        yield too_long("status.attachmentMetadata", _MAX_PARAMETER_BYTES)
    for name in ("attachError", "detachError"):
        error, at = status.get(name) or {}, child("status", name)
        if len((error.get("message") or "").encode()) > _MAX_ERROR_BYTES:
            yield too_long(child(at, "message"), _MAX_PARAMETER_BYTES)  # upstream names the wrong limit
        code = error.get("errorCode")
        if code is not None and code < 0:
            yield invalid(child(at, "errorCode"), code, names.range_text(0, (1 << 31) - 1))


def new_attachment_errors(obj: Object) -> Iterator[FieldError]:
    """Yields the errors of a new attachment by the additional rules of v1."""
    spec = obj.get("spec") or {}
    yield from driver_name_errors(spec.get("attacher") or "", "spec.attacher")
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        at = "spec.source.persistentVolumeName"
        yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))


def attachment_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec == (old.get("spec") or {}):
        return
    source = spec.get("source") or {}
    shown = {
        "Attacher": spec.get("attacher") or "",
        "Source": {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        },
        "NodeName": spec.get("nodeName") or "",
    }
    yield invalid("spec", shown, IMMUTABLE)
