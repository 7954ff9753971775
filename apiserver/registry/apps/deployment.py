"""Deployment: defaults, strategy and cells of tables.

Sources: pkg/apis/apps/v1/defaults.go, pkg/registry/apps/deployment/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import LabelsKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.workloads import HISTORY, SelectingStrategy, default_rolling_update
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, containers, ready_replicas

PROGRESS_SECONDS = 600


def default_deployment(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY, progressDeadlineSeconds=PROGRESS_SECONDS)
    default_rolling_update(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    template(spec, ctx)


class DeploymentStatus(LabelsKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workloads.deployment_status_errors(new.get("status") or {}, old.get("status") or {}))


class DeploymentStrategy(SelectingStrategy):
    """Annotations count like the spec, because replica sets get copies of them."""

    status = DeploymentStatus
    spec_errors = staticmethod(workloads.deployment_errors)
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def deployment_cells(subject: Subject) -> Cells:
    try:
        text = str(LabelSelector.from_object(subject.at("spec", "selector")))
    except SelectorError:
        text = "<invalid>"
    return {
        "Ready": ready_replicas(subject),
        "Up-to-date": subject.number("status", "updatedReplicas"),
        "Available": subject.number("status", "availableReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": text,
    }
