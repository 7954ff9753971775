"""Replication controllers: the core group's own kind of workload.

Source: pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from apimachinery.errors import GroupResource
from apiserver.registry.strategies.apps import ReplicaStatus, WorkloadStrategy
from apiserver.registry.strategy import ScalePaths, Strategy
from apiserver.registry.validation import workloads


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"
    spec_errors = staticmethod(workloads.replication_controller_errors)


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "replicationcontrollers"): ReplicationControllerStrategy,
}
