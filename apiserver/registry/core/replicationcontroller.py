"""ReplicationController: defaults, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.strategy import Checks, StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.workloads import CHECKED_TWICE, ReplicaStatus, WorkloadStrategy
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, containers, labels


def default_replication_controller(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill(spec, selector=dict(labels))
        fill(struct(obj, "metadata"), labels=dict(labels))
    fill_null(spec, replicas=1)
    if spec.get("template") is not None:
        template(spec, ctx)


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    loses_defaults = True  # its labels, by a PUT of its status without them
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"
    spec_errors = staticmethod(workloads.replication_controller_errors)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.controllers_twice else self.update_checks


def replication_controller_cells(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": labels(subject.at("spec", "selector")),
    }
