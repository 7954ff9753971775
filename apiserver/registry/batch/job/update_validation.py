"""Validates changes of a job. Source: pkg/apis/batch/validation (ValidateJobSpecUpdate), 1.36."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from kubeskew.apimachinery.field import FieldError, InternalValue, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.workloads.validation import immutable

_SORTS = {"podFailurePolicy": "*batch.PodFailurePolicy", "successPolicy": "*batch.SuccessPolicy"}
_PLACING = ("nodeSelector", "tolerations", "schedulingGates")


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Holds the changes that are allowed: `placing`: the pods may be placed elsewhere; `resources`: other
    amounts.
    """

    elastic: bool
    placing: bool
    resources: bool


def change_errors(spec: Object, old: Object, allowed: JobChanges) -> Iterator[FieldError]:
    yield from _completions(spec, old, allowed)
    after, before = (selectors.shown(spec_.get("selector")) for spec_ in (spec, old))
    yield from immutable(after, before, "spec.selector")
    template, former = spec.get("template") or {}, deepcopy(old.get("template") or {})
    if allowed.placing:
        _let_place(template, former)
    if allowed.resources:  # then upstream looks at the pods' spec alone
        template, former, sort = template.get("spec") or {}, former.get("spec") or {}, "core.PodSpec"
        _let_size(template, former)
        at = "spec.template.spec"
    else:
        at, sort = "spec.template", "core.PodTemplateSpec"
    if template != former:
        yield invalid(at, InternalValue(template, sort), IMMUTABLE)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if spec.get(field) != old.get(field):
            internal = _SORTS.get(field)
            shown = InternalValue(spec.get(field), internal) if internal else spec.get(field)
            yield invalid(f"spec.{field}", shown, IMMUTABLE)


def _completions(spec: Object, old: Object, allowed: JobChanges) -> Iterator[FieldError]:
    after, before, at = spec.get("completions"), old.get("completions"), "spec.completions"
    if after == before:
        return
    if not allowed.elastic or spec.get("completionMode") != "Indexed" or before is None or after is None:
        yield invalid(at, after, IMMUTABLE)
    elif after != spec.get("parallelism"):
        yield invalid(at, after, "can only be modified in tandem with spec.parallelism")


def _let_place(template: Object, before: Object) -> None:
    """Copies the fields that decide where pods run, so that they do not count as a change."""
    inside, was = template.get("spec") or {}, before.setdefault("spec", {})
    for field in _PLACING:
        _take(inside, was, field)
    affinity, old_affinity = inside.get("affinity"), was.get("affinity")
    if affinity is None and old_affinity is not None:
        old_affinity.pop("nodeAffinity", None)
        if not old_affinity:
            was.pop("affinity")
    elif affinity is not None:
        _take(affinity, was.setdefault("affinity", {}), "nodeAffinity")
    metadata = template.get("metadata") or {}
    for field in ("annotations", "labels"):
        _take(metadata, before.setdefault("metadata", {}), field)
    if "metadata" not in template and not before["metadata"]:
        del before["metadata"]


def _let_size(inside: Object, was: Object) -> None:
    for field in ("containers", "initContainers"):
        after, before = inside.get(field) or [], was.get(field) or []
        if len(after) == len(before):
            for container, old in zip(after, before, strict=True):
                if container.get("name") == old.get("name"):
                    _take(container, old, "resources")


def _take(new: Object, old: Object, field: str) -> None:
    old.pop(field, None)
    if field in new:
        old[field] = new[field]
