"""Decides how ReplicaSets are written.

Source: pkg/registry/apps/replicaset/strategy.go, 1.36.
"""

from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.workload_strategy import (
    CHECKED_TWICE,
    ReplicaStatus,
    SelectingStrategy,
)


class ReplicaSetStrategy(SelectingStrategy):
    status = ReplicaStatus
    update_checks = CHECKED_TWICE
    spec_errors = staticmethod(workloads.replica_set_errors)
    scale = ScalePaths()
