"""Rules of workloads and of groups of pods (scheduling.k8s.io).

Source: k8s.io/kubernetes/pkg/apis/scheduling/validation/validation.go, 1.36 (alpha).
"""

from collections.abc import Iterator

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required, too_many
from kubeskew.apimachinery.validation import names
from kubeskew.apimachinery.validation.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.validation.ingresses import segment_errors

_MAX_TEMPLATES = 8
_TEMPLATES = "spec.podGroupTemplates"
_POLICIES = ("basic", "gang")


def workload_errors(spec: Object) -> Iterator[FieldError]:
    yield from _controller(spec.get("controllerRef"))
    yield from _count(spec)
    templates = spec.get("podGroupTemplates") or []
    if len(templates) > _MAX_TEMPLATES:
        return
    seen: set[str] = set()
    for position, template in enumerate(templates):
        at, name = index(_TEMPLATES, position), template.get("name") or ""
        yield from _label(template, "name", at)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
        yield from _policy(template.get("schedulingPolicy") or {}, child(at, "schedulingPolicy"))


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


def _label(obj: Object, field: str, path: str) -> Iterator[FieldError]:
    at, value = child(path, field), obj.get(field) or ""
    if not value:
        yield required(at)
    else:
        yield from (invalid(at, value, text) for text in names.dns1123_label(value))


def _policy(policy: Object, path: str) -> Iterator[FieldError]:
    given = [name for name in _POLICIES if policy.get(name) is not None]
    if not given:
        yield invalid(path, "", "must specify one of: `basic`, `gang`")
    elif len(given) > 1:
        text = "exactly one of `basic`, `gang` is required, but multiple fields are set"
        yield invalid(path, "{`basic`, `gang`}", text)
    elif given == ["gang"]:
        least, at = policy["gang"].get("minCount") or 0, child(child(path, "gang"), "minCount")
        if not least:
            yield required(at)
        elif least < 0:
            yield invalid(at, least, "must be greater than zero")


def workload_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (one.get("spec") or {} for one in (new, old))
    if before.get("controllerRef") is None:
        yield from _controller(after.get("controllerRef"))
    elif after.get("controllerRef") != before["controllerRef"]:
        yield invalid("spec.controllerRef", after.get("controllerRef"), IMMUTABLE)
    if after.get("podGroupTemplates") != before.get("podGroupTemplates"):
        yield invalid(_TEMPLATES, after.get("podGroupTemplates"), IMMUTABLE)
    yield from _count(after)


def group_errors(spec: Object) -> Iterator[FieldError]:
    """A PodGroup."""
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload")
    if reference is not None:
        for name in ("workloadName", "podGroupTemplateName"):
            yield from _label(reference, name, "spec.podGroupTemplateRef.workload")
    yield from _policy(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy")


def group_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (one.get("spec") or {} for one in (new, old))
    for name in ("podGroupTemplateRef", "schedulingPolicy"):
        if after.get(name) != before.get(name):
            yield invalid(child("spec", name), after.get(name), IMMUTABLE)
