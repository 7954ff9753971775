"""What differs between releases and gates, as one value that plugins are given."""

from dataclasses import dataclass

from apimachinery.gates import FeatureGates
from apimachinery.versions import Version

_FILTER_SECONDS = 10.0  # DynamicResourcesArgs.filterTimeout
_STRUCTURED_SINCE = 31  # DeviceClass, ResourceSlice with devices: resource.k8s.io/v1alpha3


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """Named decisions; nothing else in the scheduler asks for a version or a gate."""

    dynamic_resources: bool
    extended_resources: bool
    filter_timeout_seconds: float | None  # of the search on one node; None is no limit
    extended_resource_index: bool  # 1.35+: one lookup cache of classes; before, a map built per call
    taint_in_reason: bool  # 1.35+ no longer names the taint (from memory)
    reuse_by_init_containers: bool  # 1.35+; 1.34 as in the KEP, one request per container and resource
    claim_metric: bool  # 1.35+: scheduler_resourceclaim_creates_total

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "SchedulerRules":
        dynamic = gates.enabled("DynamicResourceAllocation") and version.minor >= _STRUCTURED_SINCE
        return cls(
            dynamic_resources=dynamic,
            extended_resources=dynamic and gates.enabled("DRAExtendedResource"),
            filter_timeout_seconds=_FILTER_SECONDS if gates.enabled("DRASchedulerFilterTimeout") else None,
            extended_resource_index=version.minor >= 35,
            taint_in_reason=version.minor < 35,
            reuse_by_init_containers=version.minor >= 35,
            claim_metric=version.minor >= 35,
        )
