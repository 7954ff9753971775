"""Holds the strategy of replication controllers, the core group's own kind of workload.

Source: pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.workload_strategy import ReplicaStatus, WorkloadStrategy


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    metadata_checked_as_new = 1
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"
    spec_errors = staticmethod(workloads.replication_controller_errors)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """The spec's faults are told twice, as upstream checks it twice."""
        return super().validate_update(new, old, ctx) * 2
