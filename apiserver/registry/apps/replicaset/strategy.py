"""Decides how ReplicaSets are written.

Source: pkg/registry/apps/replicaset/strategy.go, 1.36.
"""

from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.generic.check_order import Checks
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation
from kubeskew.apiserver.registry.shared.workloads.strategy import (
    CHECKED_TWICE,
    ReplicaStatus,
    SelectingStrategy,
)


class ReplicaSetStrategy(SelectingStrategy):
    status = ReplicaStatus
    spec_errors = staticmethod(workload_validation.replica_set_errors)
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.replica_sets_twice else self.update_checks
