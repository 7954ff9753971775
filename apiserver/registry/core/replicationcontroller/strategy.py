"""Holds the strategy of replication controllers, the core group's own kind of workload.

Source: pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.workload_strategy import (
    CHECKED_TWICE,
    ReplicaStatus,
    WorkloadStrategy,
)


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    update_checks = CHECKED_TWICE
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"
    spec_errors = staticmethod(workloads.replication_controller_errors)
