"""Decides how Deployments are written.

Source: pkg/registry/apps/deployment/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.generic.builtin import LabelsKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.workloads import status as workload_status
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation
from kubeskew.apiserver.registry.shared.workloads.strategy import SelectingStrategy


class DeploymentStatus(LabelsKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.deployment_errors(new.get("status") or {}, old.get("status") or {}))


class DeploymentStrategy(SelectingStrategy):
    """Deployments: annotations count like the spec, because replica sets get copies of them."""

    status = DeploymentStatus
    spec_errors = staticmethod(workload_validation.deployment_errors)
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
