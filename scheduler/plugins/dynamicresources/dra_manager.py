"""Keeps claims, classes and slices for the DynamicResources plugin, by informers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kubeskew.apimachinery.claim_users import pod_group_of
from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import Ref, pod_groups_ref, taint_rules_ref
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocated_state import AllocatedState
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.features import DynamicResourcesFeatures, SchedulerFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.extended_resource_cache import (
    ArbitratedExtendedResources,
    ExtendedResources,
    IndexedExtendedResources,
    ListedExtendedResources,
)
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.binding import DeviceWait
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import ClaimWriter, VersionConverter
from kubeskew.scheduler.plugins.dynamicresources.decisions import ClaimDecisions, DeviceChooser, RejectionLog
from kubeskew.scheduler.plugins.dynamicresources.devices_in_use import TwoLooks
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import DriverAllocation, DriverControllers
from kubeskew.scheduler.plugins.dynamicresources.extended_resources import ExtendedResourceClaims
from kubeskew.scheduler.plugins.dynamicresources.plugin import ClaimServices, DynamicResources
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import ClaimUsers, PodClaims
from kubeskew.scheduler.plugins.dynamicresources.simulation import ClaimSimulation
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import DeviceClasses, TaintedSlices, TaintRules
from kubeskew.scheduler.queue import SchedulingQueue

_CLASS_ADDED = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD)
_CLASS_UPDATED = ClusterEvent(EventResource.DEVICE_CLASS, Action.UPDATE)
_SLICE_ADDED = ClusterEvent(EventResource.RESOURCE_SLICE, Action.ADD)
_SLICE_UPDATED = ClusterEvent(EventResource.RESOURCE_SLICE, Action.UPDATE)


class DynamicState:
    """The state of claims, classes and slices, and the plugins made from it. All is in the v1 shape."""

    def __init__(
        self,
        environment: Environment,
        features: SchedulerFeatures,
        drivers: DriverControllers | None = None,
    ) -> None:
        """`drivers` allocate claims, too, in a release that has both."""
        self._environment = environment
        self._features = features
        self._edge = VersionConverter(environment.version)
        self._allocator_features = AllocatorFeatures.of(environment.gates)
        self.claims = ClaimTracker(shares=self._allocator_features.gates.consumable_capacity)
        self.classes = DeviceClasses()
        self.slices = SliceIndex(self._allocator_features)
        self.extended = _extended_resources(features)
        self.totals = self._device_totals()
        self._drivers = drivers
        self._taints = TaintedSlices(
            self.slices,
            TaintRules(
                self.classes.get,
                self._allocator_features.cel,
                taints_all_unselected=self._allocator_features.taints_all_unselected,
            ),
        )

    def _device_totals(self) -> DeviceTotals | None:
        """NodeResources plugins use the counts for their scores, from 1.35 on."""
        if self.extended is None or not self._features.extended_resource_index:
            return None
        features = self._allocator_features
        return DeviceTotals(
            self.extended.class_for,
            self.slices,
            self.claims.allocated,
            features.cel,
            forgets_shares=features.totals_forget_shares,
        )

    def plugin(self, handle: Handle, profile: str, args: Mapping[str, Any]) -> DynamicResources:
        """Raises ConfigurationError for invalid arguments."""
        features = self._features.dynamic.with_arguments(args)
        services = self._claim_services(handle)
        decide = partial(self._decisions, features, services, handle, profile)

        def simulate() -> ClaimSimulation:
            slices = self.slices.copy()
            return ClaimSimulation(decide(self.claims.copy(), slices), slices, services.users)

        return DynamicResources(
            features,
            services,
            decide(self.claims, self.slices),
            simulate,
            self._driver_allocation(handle),
            handle,
        )

    def _decisions(
        self,
        features: DynamicResourcesFeatures,
        services: ClaimServices,
        handle: Handle,
        profile: str,
        claims: ClaimTracker,
        slices: SliceIndex,
    ) -> ClaimDecisions:
        """Claims and slices are those of the informers, or copies for a simulation."""

        def allocator(allocated: AllocatedState) -> Allocator:
            return Allocator(self._allocator_features, self.classes, slices, allocated, handle.entropy.uid)

        def gather() -> Allocator:
            return allocator(TwoLooks(claims, handle.entropy).devices())

        extended_claims = None
        if self.extended is not None:
            extended_claims = ExtendedResourceClaims(self._features, claims, self.extended, handle.entropy)
        return ClaimDecisions(
            claims,
            PodClaims(features, claims, self.classes, services.users),
            allocator(claims.allocated),
            gather if features.reads_devices_twice and claims is self.claims else None,
            DeviceChooser(features, claims.allocated.devices, handle.clock),
            extended_claims,
            DeviceWait(features, claims, handle, profile),
            RejectionLog(named=features.named_loggers),
        )

    def _driver_allocation(self, handle: Handle) -> DriverAllocation | None:
        if self._drivers is None:
            return None
        return self._drivers.allocation(handle, self.claims, self.classes.get, self._edge)

    def _claim_services(self, handle: Handle) -> ClaimServices:
        features = self._features.dynamic
        get_group = (
            handle.informer(pod_groups_ref(self._environment.version)).get if features.groups else None
        )
        return ClaimServices(
            self.claims,
            self.classes,
            ClaimUsers(get_group, capitalized=features.owner_capitalized),
            ClaimWriter(handle.client, self._edge, handle.clock, stamps=features.binding_conditions),
            partial(_pods_of_group, handle.cache),
        )

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None:
        self._queue = queue
        self.claims.listener = queue.move_all_to_active_or_backoff_queue
        refs = self._edge.refs
        claims, classes, slices = refs.claims, refs.device_classes, refs.slices
        factory.informer(claims).add_handler(
            lambda obj: self.claims.set_claim(self._in(claims, obj)),
            lambda _, obj: self.claims.set_claim(self._in(claims, obj)),
            lambda obj: self.claims.remove_claim(self._in(claims, obj)),
        )
        factory.informer(classes).add_handler(
            lambda obj: self._class_changed(self._in(classes, obj)),
            lambda _, obj: self._class_changed(self._in(classes, obj)),
            lambda obj: self._class_removed(self._in(classes, obj)),
        )
        factory.informer(slices).add_handler(
            lambda obj: self._slice_changed(None, self._in(slices, obj)),
            lambda old, obj: self._slice_changed(old, self._in(slices, obj)),
            lambda obj: self._taints.remove_slice(self._in(slices, obj)),
        )
        if self._drivers is not None:
            self._drivers.connect(factory, queue)
        if self._features.device_taint_rules:
            factory.informer(taint_rules_ref(self._environment.version)).add_handler(
                self._taint_rule_changed,
                lambda _, obj: self._taint_rule_changed(obj),
                lambda obj: self._report(self._taints.remove_rule(obj)),
            )

    def _in(self, ref: Ref, obj: Object) -> Object:
        return self._edge.incoming(ref, obj)

    def _class_changed(self, new: Object) -> None:
        old = self.classes.get(new["metadata"]["name"])
        self.classes.set_class(new)
        self._report(self._taints.refresh())
        if self.extended is not None:
            self.extended.set_class(old, new)
        self._queue.move_all_to_active_or_backoff_queue(
            _CLASS_ADDED if old is None else _CLASS_UPDATED, old, new
        )

    def _class_removed(self, old: Object) -> None:
        self.classes.remove_class(old)
        self._report(self._taints.refresh())
        if self.extended is not None:
            self.extended.remove_class(old)

    def _slice_changed(self, old: Object | None, new: Object) -> None:
        self._taints.set_slice(new)
        self._queue.move_all_to_active_or_backoff_queue(
            _SLICE_ADDED if old is None else _SLICE_UPDATED, old, new
        )

    def _taint_rule_changed(self, rule: Object) -> None:
        self._report(self._taints.set_rule(rule))

    def _report(self, changed: Sequence[tuple[Object, Object]]) -> None:
        for old, new in changed:
            self._queue.move_all_to_active_or_backoff_queue(_SLICE_UPDATED, old, new)


def _extended_resources(features: SchedulerFeatures) -> ExtendedResources | None:
    if not features.extended_resources:
        return None
    if not features.extended_resource_index:
        return ListedExtendedResources()
    return IndexedExtendedResources() if features.drops_shared_names else ArbitratedExtendedResources()


def _pods_of_group(cache: Cache, namespace: str, group: str) -> int:
    return sum(
        pod.namespace == namespace and pod_group_of(pod.pod) == group
        for node in cache.nodes()
        for pod in node.pods.values()
    )
