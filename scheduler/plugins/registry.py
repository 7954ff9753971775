"""Lists all in-tree plugins, and the default profile with its order and weights.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1/default_plugins.go, 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.extended_resource_cache import ExtendedResources
from kubeskew.scheduler.framework.interfaces import Plugin
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.default_binder import DefaultBinder
from kubeskew.scheduler.plugins.default_preemption import DefaultPreemption
from kubeskew.scheduler.plugins.image_locality import ImageLocality
from kubeskew.scheduler.plugins.interpodaffinity import InterPodAffinity
from kubeskew.scheduler.plugins.node_affinity import NodeAffinity
from kubeskew.scheduler.plugins.node_name import NodeName
from kubeskew.scheduler.plugins.node_ports import NodePorts
from kubeskew.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kubeskew.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from kubeskew.scheduler.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from kubeskew.scheduler.plugins.noderesources.fit import NodeResourcesFit
from kubeskew.scheduler.plugins.podtopologyspread import PodTopologySpread
from kubeskew.scheduler.plugins.priority_sort import PrioritySort
from kubeskew.scheduler.plugins.scheduling_gates import SchedulingGates
from kubeskew.scheduler.plugins.taint_toleration import TaintToleration
from kubeskew.scheduler.plugins.volume_binding import VolumeBinding
from kubeskew.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubeskew.scheduler.plugins.volume_zone import VolumeZone
from kubeskew.scheduler.settings import PluginRef

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PluginContext:
    handle: Handle
    extended: ExtendedResources | None
    totals: DeviceTotals | None
    dynamic_resources: Callable[[Arguments], Plugin]  # needs more of the scheduler than the others

    @property
    def features(self) -> SchedulerFeatures:
        return self.handle.features


REGISTRY: Mapping[str, Callable[[PluginContext, Arguments], Plugin]] = {
    "SchedulingGates": lambda _, __: SchedulingGates(),
    "PrioritySort": lambda _, __: PrioritySort(),
    "NodeUnschedulable": lambda context, __: NodeUnschedulable(
        ignores_tolerations=context.features.cordon_ignores_tolerations
    ),
    "NodeName": lambda _, __: NodeName(),
    "TaintToleration": lambda ctx, _: TaintToleration(ctx.features),
    "NodeAffinity": lambda _, args: NodeAffinity(args.get("addedAffinity")),
    "NodePorts": lambda ctx, _: NodePorts(overlooks_sidecars=ctx.features.sidecar_ports_overlooked),
    "NodeResourcesFit": lambda ctx, args: NodeResourcesFit(
        ctx.extended,
        args,
        totals=ctx.totals,
        always_resolvable=ctx.features.fit_resolvable,
        waits_for_classes=not ctx.features.ignores_new_classes,
    ),
    "VolumeRestrictions": lambda ctx, _: VolumeRestrictions(ctx.handle),
    "NodeVolumeLimits": lambda ctx, _: NodeVolumeLimits(ctx.handle),
    "VolumeBinding": lambda ctx, args: VolumeBinding(ctx.handle, args),
    "VolumeZone": lambda ctx, _: VolumeZone(ctx.handle),
    "PodTopologySpread": lambda ctx, args: PodTopologySpread(ctx.handle, args),
    "InterPodAffinity": lambda ctx, args: InterPodAffinity(ctx.handle, args),
    "DynamicResources": lambda ctx, args: ctx.dynamic_resources(args),
    "DefaultPreemption": lambda ctx, args: DefaultPreemption(ctx.handle, **_minima(args)),
    "NodeResourcesBalancedAllocation": lambda ctx, args: NodeResourcesBalancedAllocation(
        args, ctx.totals, by_change=ctx.features.balance_by_change
    ),
    "ImageLocality": lambda ctx, _: ImageLocality(ctx.handle),
    "DefaultBinder": lambda ctx, _: DefaultBinder(ctx.handle.client),
}

_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
}


def _minima(args: Arguments) -> dict[str, int]:
    names = {"minCandidateNodesPercentage": "min_percent", "minCandidateNodesAbsolute": "min_absolute"}
    return {parameter: args[name] for name, parameter in names.items() if name in args}


def default_plugins(features: SchedulerFeatures) -> Sequence[PluginRef]:
    """Order is that in which plugins run unless a configuration changes it.

    DynamicResources stands before preemption: rather deallocate an idle claim than evict a pod.
    """
    left_out = set() if features.dynamic_resources else {"DynamicResources"}
    return [PluginRef(name, _WEIGHTS.get(name, 1)) for name in REGISTRY if name not in left_out]
