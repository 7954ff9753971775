"""The features of the scheduler.

Classic DRA has a table of its own (`scheduler/plugins/dynamicresources/classic/features.py`), and so has the
search for devices (`scheduler/allocator/features.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubeskew.apimachinery import field
from kubeskew.apimachinery.features import (
    FeatureTable,
    always,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    only,
    part,
    since,
    until,
)
from kubeskew.scheduler.settings import ConfigurationError, parse_duration

FILTER_SECONDS = 10.0  # DynamicResourcesArgs.filterTimeout
BINDING_SECONDS = 600.0  # DynamicResourcesArgs.bindingTimeout

# DeviceClass, ResourceSlice with devices: resource.k8s.io/v1alpha3.
_DEVICES = since(31) & gate("DynamicResourceAllocation")
_EXTENDED_RESOURCES = _DEVICES & gate("DRAExtendedResource")


class AffinityHintFeatures(FeatureTable):
    """The queueing hints of pod affinity, and their bugs; without hints they have no effect."""

    # A changed node helps only if one of its labels that a term names is new or another one.
    by_changed_labels: bool = since(33)

    # The deletion of a pod whose anti-affinity kept the pending pod away is no event for it.
    overlooks_repelling: bool = bug("k8s-135325")
    overlooks_own_labels: bool = bug("k8s-135394")  # changes of the pending pod's labels
    all_anti_terms: bool = bug("k8s-139161")  # an event counts if all anti-affinity terms match, not one
    overlooks_selected_namespaces: bool = bug("k8s-141953")  # those of a term's namespaceSelector
    overlooks_nominated: bool = bug("k8s-135392")  # pods that are nominated to a node, but not assigned


class PlacementFeatures(FeatureTable):
    """The bugs with pods for which PreFilter leaves few nodes, or none."""

    preempts_in_vain: bool = bug("k8s-119778")  # preemption, though PreFilter excludes all nodes for good
    absent_node_fails: bool = bug("k8s-124559")  # PreFilter names a node that does not exist
    panics_without_candidates: bool = bug("k8s-124933")  # no node that PreFilter names exists


class PreemptionFeatures(FeatureTable):
    """The bugs of evicting victims of preemption."""

    evicts_leaving: bool = bug("k8s-133167")  # victims that are terminating already are deleted again

    # Asynchronous preemption (gate SchedulerAsyncPreemption)
    forgets_last_victim: bool = bug("k8s-134730")  # the preemptor may be tried while the last one is evicted
    preemptor_not_activated: bool = bug("k8s-141694")  # if its last victim was gone already


class ResizingFeatures(FeatureTable):
    """The resources that count for pods whose containers were resized, else those of the spec."""

    counts: bool = gate("InPlacePodVerticalScaling")
    actual: bool = since(32)  # status.resources of containers, the spec where they are not reported
    allocated: bool = ~only(32)  # status.allocatedResources of containers
    sidecars: bool = since(33)  # also those of sidecars
    by_condition: bool = since(33)  # a condition shows an infeasible resize, else status.resize
    # A panic at a container that has no requests in the spec, but some in its status.
    needs_requests: bool = bug("k8s-132895")


class DynamicResourcesFeatures(FeatureTable):
    """The plugin DynamicResources, but for its search of devices (scheduler/allocator)."""

    # Arguments
    # Seconds for the search on one node; None is no limit.
    filter_seconds: float | None = choose(gate("DRASchedulerFilterTimeout"), FILTER_SECONDS, None)
    binding_seconds: float = always(BINDING_SECONDS)  # seconds until binding conditions must be true
    timeout_is_error: bool = since(36)  # after the filter timeout a pod is tried again without an event
    knows_filter_timeout: bool = since(34)  # argument filterTimeout
    knows_binding_timeout: bool = since(35)  # argument bindingTimeout

    binding_conditions: bool = gate("DRADeviceBindingConditions") & gate("DRAResourceClaimDeviceStatus")
    binding_error_prefix: bool = since(36)  # "device binding failed" or "device binding timeout"

    # Alternatives of requests (firstAvailable), and scores
    knows_alternatives: bool = since(33)
    prioritized_list: bool = gate("DRAPrioritizedList")
    scores_alternatives: bool = since(35) & gate("DRAPrioritizedList")
    # Scoring matches the allocations of an attempt to all claims, also those allocated before, and fails.
    scores_all_claims: bool = bug("k8s-139016")
    # The devices in use are read in two steps; those of a binding that ends between them are missed.
    reads_devices_twice: bool = bug("k8s-136269")
    groups: bool = gate("DRAWorkloadResourceClaims")  # claims can be reserved for pod groups
    owner_capitalized: bool = since(36)  # errors: "for Pod x (Pod is not owner)"

    # Events that make a pod schedulable
    claim_deletion_requeues: bool = since(32) & ~bug("k8s-140831")  # the deletion of a claim
    slices_requeue: bool = since(31) & fixed("k8s-126807")  # a new or changed ResourceSlice
    allocatable_requeues: bool = since(34)  # a change of a node's allocatable (extended resources)

    # Claims with spec.controller are refused.
    refuses_controllers: bool = only(31) & ~gate("DRAControlPlaneController")

    # Reasons of PostFilter
    idle_reason: str = choose(until(36), "no new claims to deallocate", "")  # no claims were checked
    quiet_without_claims: bool = only(33)  # no such reason for pods without claims
    stuck_reason: str = choose(until(36), "still not schedulable", "")  # no claim can be deallocated

    named_loggers: bool = gate("ContextualLogging")  # log lines of plugins name their extension point

    def with_arguments(self, args: Mapping[str, Any]) -> "DynamicResourcesFeatures":
        """Applies DynamicResourcesArgs; raises ConfigurationError, also for an argument without effect
        because of a gate."""
        known = {"filterTimeout": self.knows_filter_timeout, "bindingTimeout": self.knows_binding_timeout}
        unknown = [name for name in args if name not in ("apiVersion", "kind") and not known.get(name)]
        if unknown:
            listed = ", ".join(f'unknown field "{name}"' for name in unknown)
            raise ConfigurationError(f"strict decoding error: {listed}")
        errors = [*self._refuse_filter(args), *self._refuse_binding(args)]
        if errors:
            texts = [str(error) for error in errors]
            raise ConfigurationError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        searching, binding = args.get("filterTimeout"), args.get("bindingTimeout")
        return replace(
            self,
            filter_seconds=self.filter_seconds if searching is None else _seconds(searching) or None,
            binding_seconds=self.binding_seconds if binding is None else _seconds(binding),
        )

    def _refuse_filter(self, args: Mapping[str, Any]) -> list[field.FieldError]:
        timeout = args.get("filterTimeout")
        if timeout is None:
            return []
        if self.filter_seconds is None:
            return [field.forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")]
        if _seconds(timeout) < 0:
            return [field.invalid("filterTimeout", field.Unquoted(timeout), "must be zero or positive")]
        return []

    def _refuse_binding(self, args: Mapping[str, Any]) -> list[field.FieldError]:
        timeout = args.get("bindingTimeout")
        if timeout is None:
            return []
        if not self.binding_conditions:
            detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            return [field.forbidden("bindingTimeout", detail)]
        if _seconds(timeout) < 1:
            return [field.invalid("bindingTimeout", field.Unquoted(timeout), "must be at least 1 second")]
        return []


def _seconds(text: Any) -> float:
    written = str(text)
    return -parse_duration(written[1:]) if written.startswith("-") else parse_duration(written)


class SchedulerFeatures(FeatureTable):
    """All features of one scheduler, but for the tables that the module docstring names."""

    # Dynamic resource allocation
    dynamic_resources: bool = gate("DynamicResourceAllocation")
    devices: bool = _DEVICES  # the scheduler allocates devices of ResourceSlices
    extended_resources: bool = _EXTENDED_RESOURCES
    dynamic: DynamicResourcesFeatures = part(DynamicResourcesFeatures)

    # Extended resources by DRA
    extended_resource_index: bool = since(35)  # a cache of classes by resource name, else a map per call
    drops_shared_names: bool = bug("k8s-141110")  # a changed class removes a name of another one
    taint_in_reason: bool = bug("k8s-134740")  # TaintToleration: a pod's status names the taint
    # Init containers share devices with later containers; else one request per container and resource.
    reuse_by_init_containers: bool = ~bug("k8s-134882")
    claims_block_deletion: bool = bug("k8s-134956")  # they block a foreground deletion of their pods
    ignores_new_classes: bool = bug("k8s-134991")  # no event for pods: a class that backs their resource
    # If the claim requests any device, resources that device plugins of the node have are requested as well.
    requests_plugin_resources: bool = until(34)
    device_taint_rules: bool = _DEVICES & gate("DRADeviceTaints") & (until(34) | gate("DRADeviceTaintRules"))
    forgets_refused_claim: bool = until(34)  # errors of creating a claim do not name the claim
    # The metric of claims created for extended resources, without `_total`; "" for none.
    claim_metric: str = choose(
        _EXTENDED_RESOURCES,
        by_release(
            {
                0: "",
                35: "scheduler_resourceclaim_creates",  # pull requests 134523 and 138542
                37: "dynamic_resource_allocation_resourceclaim_creates",  # shared with the controller manager
            }
        ),
        "",
    )
    binding_metrics: bool = _DEVICES & since(36) & gate("DRADeviceBindingConditions")  # of binding conditions

    # Queue
    # Hints decide if an event requeues a pod; else every event does for which a rejecting plugin registered.
    queueing_hints: bool = gate("SchedulerQueueingHints")
    # The metric of events kept for attempts under way (pkg/scheduler/metrics/metrics.go, 1.31 and 1.32).
    in_flight_metric: bool = since(32) & gate("SchedulerQueueingHints")
    affinity_hints: AffinityHintFeatures = part(AffinityHintFeatures)
    async_preemption: bool = gate("SchedulerAsyncPreemption")
    preemption: PreemptionFeatures = part(PreemptionFeatures)
    # The events of an attempt are let go before PreBind, after which a rejected pod is tried again anyway.
    attempts_end_early: bool = since(32) & gate("SchedulerQueueingHints")
    # The end of an attempt is recorded for the new pod of the same name, not for the deleted one.
    attempts_end_by_name: bool = bug("k8s-138435")
    # Events during an attempt are lost once the event before the attempt is not needed any more.
    loses_events: bool = gate("SchedulerQueueingHints") & bug("k8s-120413")
    # The end of an attempt is recorded after the pod is back in the queue; a next attempt may be lost by it.
    attempts_end_late: bool = bug("k8s-139186")
    pops_from_backoff: bool = gate("SchedulerPopFromBackoffQ")  # while no pod is active

    # A changed taint requeues what a plugin rejected that registered for new nodes, but not for taints:
    # upstream's way to miss no new node (issue 109437).
    taints_requeue: bool = since(31)

    # Events that do not requeue a pod
    cordon_ignores_tolerations: bool = bug("k8s-127427")  # hints of NodeUnschedulable: changed tolerations
    ignores_node_deletions: bool = bug("k8s-127464")
    ignores_nominations: bool = bug("k8s-129058")  # a pod that is not nominated any more
    wakes_at_binding: bool = until(34)  # a binding ends a nomination, too (deletePodFromSchedulingQueue)
    # A new assigned pod requeues only pods with pod affinity, not those that topology spread rejected.
    spread_misses_new_pods: bool = bug("k8s-122627")

    sidecar_ports_overlooked: bool = bug("k8s-132040")  # host ports of sidecars count as free
    # The plugins that rejected a pod are kept after an attempt that ends otherwise.
    keeps_old_rejections: bool = bug("k8s-120334")
    resizing: ResizingFeatures = part(ResizingFeatures)
    gated_pods_miss_events: bool = bug("k8s-125527")  # events do not requeue pods that PreEnqueue rejected

    # Preemption
    placement: PlacementFeatures = part(PlacementFeatures)
    # Victims that violate a PodDisruptionBudget come first, and so count as the most important ones.
    victims_unsorted: bool = bug("k8s-128307")
    forgets_empty_budgets: bool = bug("k8s-141785")  # PodDisruptionBudgets with an empty selector
    victims_get_other_status: bool = bug("k8s-126644")  # a victim's patch has the preemptor's QoS class
    disruption_condition: bool = gate("PodDisruptionConditions")  # victims get DisruptionTarget
    preemptor_in_condition: bool = until(25) | bug("k8s-114914")  # its message names the preemptor
    preemptor_in_event: bool = since(29)  # the event of a victim names the preemptor
    # … also as its related object; from 1.36 a wrapper stands there, to which there is no reference.
    preemptor_related: bool = until(35)

    observed_generation: bool = gate("PodObservedGenerationTracking")  # in conditions of pods
    error_logger: str = by_release({0: "", 34: "UnhandledError"})  # its name in lines about failed attempts

    # Topology spread constraints
    match_label_keys: bool = gate("MatchLabelKeysInPodTopologySpread")
    min_domains: bool = gate("MinDomainsInPodTopologySpread")
    node_inclusion_policy: bool = gate("NodeInclusionPolicyInPodTopologySpread")

    # NodeResourcesBalancedAllocation scores how a pod changes a node's balance, not the balance with it.
    balance_by_change: bool = since(36)

    # Metrics and texts
    # A claim that only one pod may use is in use (…/volumerestrictions/volume_restrictions.go).
    claim_taken: str = by_release(
        {
            0: "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            34: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod",
        }
    )
    # A volume that is bound to other nodes (pkg/scheduler/framework/plugins/volumebinding/binder.go).
    volume_node_conflict: str = by_release(
        {
            0: "node(s) had volume node affinity conflict",
            33: "node(s) didn't match PersistentVolume's node affinity",
        }
    )
    counts_flushed: bool = since(36)  # pods bound after they were requeued for waiting too long
    listed_event_labels: bool = until(31)  # names of events from a list, else resource and action
    plural_tolerations: bool = only(32)  # event UpdatePodTolerations
    # The names of the metric of the cache's size.
    cache_sizes: tuple[str, ...] = by_release(
        {
            0: ("scheduler_scheduler_cache_size",),
            33: ("scheduler_scheduler_cache_size", "scheduler_cache_size"),
            34: ("scheduler_cache_size",),
        }
    )
    double_full_stop: bool = until(28)  # behind the message of PostFilter
    fit_resolvable: bool = until(33)  # a node that is too small for the pod is a candidate for preemption
