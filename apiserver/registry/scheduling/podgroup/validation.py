"""Checks PodGroups.

Source: pkg/apis/scheduling/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.scheduling.policies import label_errors, policy_errors


def group_errors(spec: Object) -> Iterator[FieldError]:
    """Checks a PodGroup."""
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload")
    if reference is not None:
        for name in ("workloadName", "podGroupTemplateName"):
            yield from label_errors(reference, name, "spec.podGroupTemplateRef.workload")
    yield from policy_errors(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy")


def group_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (group.get("spec") or {} for group in (new, old))
    for name in ("podGroupTemplateRef", "schedulingPolicy"):
        if after.get(name) != before.get(name):
            yield invalid(child("spec", name), after.get(name), IMMUTABLE)
