"""Holds the strategy of replication controllers, the core group's own kind of workload.

Source: pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.generic.check_order import Checks
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation
from kubeskew.apiserver.registry.shared.workloads.strategy import (
    CHECKED_TWICE,
    ReplicaStatus,
    WorkloadStrategy,
)


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"
    spec_errors = staticmethod(workload_validation.replication_controller_errors)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.controllers_twice else self.update_checks
