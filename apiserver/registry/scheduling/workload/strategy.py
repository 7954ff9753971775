"""Decides how Workloads are written.

Source: pkg/registry/scheduling/workload/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.scheduling.workload import validation as workload_validation


class WorkloadStrategy(HandwrittenBuiltIn):
    """A workload, which has its groups itself in 1.35 and templates of them later."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.dns1123_subdomain(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        if ctx.features.workloads.groups_of_workloads:
            return list(workload_validation.group_workload_errors(spec))
        return list(workload_validation.workload_errors(spec))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if ctx.features.workloads.groups_of_workloads:
            return list(workload_validation.group_workload_update_errors(new, old))
        return list(workload_validation.workload_update_errors(new, old))
