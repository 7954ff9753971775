"""Decides how Workloads are written.

Source: pkg/registry/scheduling/workload/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.scheduling.workload import validation as workload_validation


class WorkloadStrategy(HandwrittenBuiltIn, WithGeneration):
    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.dns1123_subdomain(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_validation.workload_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_validation.workload_update_errors(new, old))
