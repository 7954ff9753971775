"""ReplicaSet: defaults, strategy and cells of tables.

Sources: pkg/apis/apps/v1/defaults.go, pkg/registry/apps/replicaset/strategy.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.strategy import Checks, StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.workloads import CHECKED_TWICE, ReplicaStatus, SelectingStrategy
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, template_cells


def default_replica_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, replicas=1)
    template(spec, ctx)


class ReplicaSetStrategy(SelectingStrategy):
    status = ReplicaStatus
    spec_errors = staticmethod(workloads.replica_set_errors)
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.replica_sets_twice else self.update_checks


def replica_set_cells(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **template_cells(subject),
    }
