"""Replication controllers: the core group's own kind of workload.

Source: pkg/registry/core/replicationcontroller/strategy.go, 1.36.
"""

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError
from apiserver.registry.strategies.apps import ReplicaStatus, WorkloadStrategy, template_options
from apiserver.registry.strategy import ScalePaths, Strategy, StrategyContext
from apiserver.registry.validation import workloads


class ReplicationControllerStrategy(WorkloadStrategy):
    status = ReplicaStatus
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return workloads.replication_controller_errors(obj["spec"], template_options(ctx))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "replicationcontrollers"): ReplicationControllerStrategy,
}
