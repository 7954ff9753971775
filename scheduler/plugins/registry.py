"""All in-tree plugins, and the default profile: which run, in which order, with which weight."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apimachinery.client.rest import APIClient
from scheduler.extended_resources import ExtendedResources
from scheduler.framework.interfaces import Plugin
from scheduler.framework.profile import Profile
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.rules import SchedulerRules


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What plugins are made of."""

    client: APIClient
    rules: SchedulerRules
    extended: ExtendedResources | None
    dynamic_resources: Callable[[], Plugin]  # needs more of the scheduler than the others


REGISTRY: Mapping[str, Callable[[PluginContext], Plugin]] = {
    "SchedulingGates": lambda _: SchedulingGates(),
    "PrioritySort": lambda _: PrioritySort(),
    "NodeUnschedulable": lambda _: NodeUnschedulable(),
    "NodeName": lambda _: NodeName(),
    "TaintToleration": lambda ctx: TaintToleration(ctx.rules),
    "NodeAffinity": lambda _: NodeAffinity(),
    "NodePorts": lambda _: NodePorts(),
    "NodeResourcesFit": lambda ctx: NodeResourcesFit(ctx.extended),
    # Before preemption: rather deallocate an idle claim than evict a pod.
    "DynamicResources": lambda ctx: ctx.dynamic_resources(),
    "DefaultPreemption": lambda _: DefaultPreemption(),
    "NodeResourcesBalancedAllocation": lambda _: NodeResourcesBalancedAllocation(),
    "DefaultBinder": lambda ctx: DefaultBinder(ctx.client),
}

WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}


def default_profile(context: PluginContext) -> Profile:
    """The profile of `default-scheduler`; raises ProfileError."""
    left_out = set() if context.rules.dynamic_resources else {"DynamicResources"}
    plugins = [make(context) for name, make in REGISTRY.items() if name not in left_out]
    return Profile(plugins, WEIGHTS)
