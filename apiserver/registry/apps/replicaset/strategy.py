"""Decides how ReplicaSets are written.

Source: pkg/registry/apps/replicaset/strategy.go, 1.36.
"""

from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.workload_strategy import RecheckedStrategy, ReplicaStatus


class ReplicaSetStrategy(RecheckedStrategy):
    status = ReplicaStatus
    metadata_checked_as_new = 1
    spec_errors = staticmethod(workloads.replica_set_errors)
    scale = ScalePaths()
