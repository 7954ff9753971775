"""VolumeAttachment: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/storage/v1/defaults.go, pkg/apis/storage/validation/validation.go,
pkg/registry/storage/volumeattachment/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    InternalValue,
    child,
    forbidden,
    invalid,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import VolumeFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext
from kubeskew.apiserver.registry.generic.builtin import (
    HandwrittenValidation,
    MetadataKeptStatus,
    ReturnsDeletedObject,
)
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.amounts import round_amounts
from kubeskew.apiserver.registry.shared.podtemplate.defaults import volume_source
from kubeskew.apiserver.registry.shared.volumes import persistent_volumes
from kubeskew.apiserver.registry.storage.csinode import driver_name_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_MAX_PARAMETER_BYTES = 256 * 1024

_MAX_ERROR_BYTES = 1024

_EITHER_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def default_volume_attachment(obj: Object, _: DefaultingContext) -> None:
    volume = ((obj.get("spec") or {}).get("source") or {}).get("inlineVolumeSpec")
    if volume is not None:
        volume_source(volume)
        round_amounts(volume, "capacity")


def attachment_errors(obj: Object, features: VolumeFeatures) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if features.attachments_checked_whole:
        yield from driver_name_errors(spec.get("attacher") or "", "spec.attacher", features)
    elif not spec.get("attacher"):
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
    if features.attachments_checked_whole:
        yield from _volume_name(spec)


def _volume_name(spec: Object) -> Iterator[FieldError]:
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        at = "spec.source.persistentVolumeName"
        yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))


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


def new_attachment_errors(obj: Object, features: VolumeFeatures) -> Iterator[FieldError]:
    """New attachments of v1 had these rules in addition (ValidateVolumeAttachmentV1)."""
    if not features.attachments_checked_whole:
        spec = obj.get("spec") or {}
        yield from driver_name_errors(spec.get("attacher") or "", "spec.attacher", features)
        yield from _volume_name(spec)


def attachment_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec == (old.get("spec") or {}):
        return
    yield invalid("spec", InternalValue(spec, "storage.VolumeAttachmentSpec"), IMMUTABLE)


class _AttachmentRules(HandwrittenValidation):
    """Changes are checked as new objects twice, whoever makes them."""

    update_checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(attachment_errors(new, ctx.features.volumes))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(attachment_update_errors(new, old))


class AttachmentStatus(_AttachmentRules, MetadataKeptStatus):
    """Attachers write the status; it owns neither metadata nor spec."""


class AttachmentStrategy(_AttachmentRules, ReturnsDeletedObject):
    status: ClassVar[type[Strategy]] = AttachmentStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *attachment_errors(obj, ctx.features.volumes),
            *new_attachment_errors(obj, ctx.features.volumes),
        ]


def volume_attachment_cells(subject: Subject) -> Cells:
    return {
        "Attacher": subject.text("spec", "attacher"),
        "PV": subject.text("spec", "source", "persistentVolumeName"),
        "Node": subject.text("spec", "nodeName"),
        "Attached": bool(subject.at("status", "attached")),
    }
