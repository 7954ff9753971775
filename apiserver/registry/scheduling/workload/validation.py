"""Checks Workloads.

Source: pkg/apis/scheduling/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required, too_many
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.scheduling.policies import label_errors, policy_errors
from kubeskew.apiserver.registry.shared.references import segment_errors

_MAX_TEMPLATES = 8

_TEMPLATES = "spec.podGroupTemplates"


def workload_errors(spec: Object) -> Iterator[FieldError]:
    yield from _controller(spec.get("controllerRef"))
    yield from _count(spec)
    templates = spec.get("podGroupTemplates") or []
    if len(templates) > _MAX_TEMPLATES:
        return
    seen: set[str] = set()
    for position, template in enumerate(templates):
        at, name = index(_TEMPLATES, position), template.get("name") or ""
        yield from label_errors(template, "name", at)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
        yield from policy_errors(template.get("schedulingPolicy") or {}, child(at, "schedulingPolicy"))


def _controller(reference: Object | None) -> Iterator[FieldError]:
    if reference is None:
        return
    path, group = "spec.controllerRef", reference.get("apiGroup") or ""
    if group:
        at = child(path, "apiGroup")
        yield from (invalid(at, group, text) for text in names.dns1123_subdomain(group))
    yield from segment_errors(reference, path, "kind", "name")


def _count(spec: Object) -> Iterator[FieldError]:
    count = len(spec.get("podGroupTemplates") or [])
    if not count:
        yield required(_TEMPLATES, "must have at least one item")
    elif count > _MAX_TEMPLATES:
        yield too_many(_TEMPLATES, count, _MAX_TEMPLATES)


def workload_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (workload.get("spec") or {} for workload in (new, old))
    if before.get("controllerRef") is None:
        yield from _controller(after.get("controllerRef"))
    elif after.get("controllerRef") != before["controllerRef"]:
        yield invalid("spec.controllerRef", after.get("controllerRef"), IMMUTABLE)
    if after.get("podGroupTemplates") != before.get("podGroupTemplates"):
        yield invalid(_TEMPLATES, after.get("podGroupTemplates"), IMMUTABLE)
    yield from _count(after)
