"""The table of what differs between releases and gates in the scheduler.

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
    """Named decisions about events that a release overlooks; without queueing hints they change nothing."""

    overlooks_repelling: bool = bug("k8s-135325")  # the end of a pod that wanted the waiting one elsewhere
    overlooks_own_labels: bool = bug("k8s-135394")  # a change of the waiting pod's labels
    all_anti_terms: bool = bug("k8s-139161")  # a pod counts as avoided only if all terms are about it
    # of a namespace selector of the waiting pod's terms
    overlooks_selected_namespaces: bool = bug("k8s-141953")
    overlooks_nominated: bool = bug("k8s-135392")  # pods without a node that are nominated to one


class PlacementFeatures(FeatureTable):
    """Named decisions about pods for which PreFilter leaves few nodes, or none."""

    preempts_in_vain: bool = bug("k8s-119778")  # after PreFilter, too, has said that no node can help
    absent_node_fails: bool = bug("k8s-124559")  # an attempt, if PreFilter names a node that is not there
    panics_without_candidates: bool = bug("k8s-124933")  # once no node that PreFilter names is there


class PreemptionFeatures(FeatureTable):
    """Named decisions about evicting victims; with the gate SchedulerAsyncPreemption in the background."""

    evicts_leaving: bool = bug("k8s-133167")  # also victims that are being deleted already
    # in the background: while it is evicted its preemptor may be tried again
    forgets_last_victim: bool = bug("k8s-134730")
    # in the background: nobody wakes it if its last victim was gone already
    leaves_preemptor: bool = bug("k8s-141694")


class ResizingFeatures(FeatureTable):
    """Named decisions on containers whose node reports their resources; without `counts` the spec counts."""

    counts: bool = gate("InPlacePodVerticalScaling")
    actual: bool = since(32)  # what a container has counts, and where that is not reported the spec does
    allocated: bool = ~only(32)  # what a container was allocated counts
    sidecars: bool = since(33)  # those count so, too
    by_condition: bool = since(33)  # a condition says that a resize is infeasible; before, status.resize does
    # where others count beside amounts that are not there, that is a panic
    needs_requests: bool = bug("k8s-132895")


class DynamicResourcesFeatures(FeatureTable):
    """Named decisions of one scheduler."""

    # seconds for the search on one node; None is no limit
    filter_seconds: float | None = choose(gate("DRASchedulerFilterTimeout"), FILTER_SECONDS, None)
    binding_seconds: float = always(BINDING_SECONDS)  # seconds until binding conditions must be true
    # 1.36+: a search cut short is retried after its backoff, without an event
    timeout_is_error: bool = since(36)
    knows_filter_timeout: bool = since(34)
    knows_binding_timeout: bool = since(35)  # the argument; 1.34 waited as long as the default says
    binding_conditions: bool = gate("DRADeviceBindingConditions") & gate("DRAResourceClaimDeviceStatus")
    # 1.36+: failures begin "device binding failed" or "device binding timeout"
    binding_error_prefix: bool = since(36)
    knows_alternatives: bool = since(33)
    prioritized_list: bool = gate("DRAPrioritizedList")
    scores_alternatives: bool = since(35) & gate("DRAPrioritizedList")  # 1.35+
    # takes what a claim was given before for one of those that this attempt allocates
    scores_by_place: bool = bug("k8s-139016")
    # gathers the devices in use in two looks, between which a binding may end
    looks_twice: bool = bug("k8s-136269")
    # claims can be reserved for groups of pods (DRAWorkloadResourceClaims)
    groups: bool = gate("DRAWorkloadResourceClaims")
    owner_capitalized: bool = since(36)  # 1.36+: "for Pod x (Pod is not owner)"
    # the deletion of a claim is an event that pods wait for
    deletion_helps: bool = since(32) & ~bug("k8s-140831")
    slices_help: bool = since(31) & fixed("k8s-126807")  # pods wait for slices that are new or changed
    # 1.34+: node events include what can be allocated (extended resources)
    allocatable_helps: bool = since(34)
    # 1.31, without the gate that has drivers allocate claims
    refuses_controllers: bool = only(31) & ~gate("DRAControlPlaneController")
    # in PostFilter, without checking claims
    idle_reason: str = choose(until(36), "no new claims to deallocate", "")
    quiet_without_claims: bool = only(33)  # 1.33: unless the pod has none at all
    # in PostFilter, if no claim can be freed
    stuck_reason: str = choose(until(36), "still not schedulable", "")
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
    """Named decisions; nothing else in the scheduler depends on a version or a gate."""

    dynamic_resources: bool = gate("DynamicResourceAllocation")
    # since 1.31: the scheduler allocates what slices tell of
    devices: bool = _DEVICES
    extended_resources: bool = _EXTENDED_RESOURCES
    dynamic: DynamicResourcesFeatures = part(DynamicResourcesFeatures)
    # 1.35+: one lookup cache of classes; before, a map built per call
    extended_resource_index: bool = since(35)
    loses_names: bool = bug("k8s-141110")  # a class takes a name away that another one owns
    taint_in_reason: bool = bug("k8s-134740")  # a pod's status names the taint that it does not tolerate
    # else as in the KEP, one request per container and resource
    reuse_by_init_containers: bool = ~bug("k8s-134882")
    claims_block_deletion: bool = bug("k8s-134956")  # their pods' in the foreground
    # no pod is woken when a class comes that backs what it asks for
    ignores_new_classes: bool = bug("k8s-134991")
    # 1.34: also what the node's device plugins have, if the claim requests anything
    claims_plugged_too: bool = until(34)
    # DeviceTaintRules taint devices; a gate of its own since 1.35
    device_taint_rules: bool = _DEVICES & gate("DRADeviceTaints") & (until(34) | gate("DRADeviceTaintRules"))
    # 1.34: the error of a creation names neither the claim nor its namespace
    forgets_refused_claim: bool = until(34)
    # metric of created extended-resource claims (1.35+), without `_total`; "" for none
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
    # 1.36+: metrics of binding conditions
    binding_metrics: bool = _DEVICES & since(36) & gate("DRADeviceBindingConditions")
    # else every event that a plugin registered for requeues the pods it rejected
    queueing_hints: bool = gate("SchedulerQueueingHints")
    # 1.32+ (from memory), with hints: of what is kept for attempts under way
    in_flight_metric: bool = since(32) & gate("SchedulerQueueingHints")
    affinity_hints: AffinityHintFeatures = part(AffinityHintFeatures)
    async_preemption: bool = gate("SchedulerAsyncPreemption")
    preemption: PreemptionFeatures = part(PreemptionFeatures)
    # a pod made anew during an attempt ends its own, and not that of the old one
    attempts_end_by_name: bool = bug("k8s-138435")
    # that come during an attempt, if the one before the attempt is needed no more
    loses_events: bool = gate("SchedulerQueueingHints") & bug("k8s-120413")
    # a moment after the pod may be tried again; whoever takes it then loses it
    attempts_end_late: bool = bug("k8s-139186")
    # without active pods, others are tried before their backoff ends
    pops_from_backoff: bool = gate("SchedulerPopFromBackoffQ")
    # a change of a rejected pod's tolerations does not wake it (with hints)
    cordon_ignores_tolerations: bool = bug("k8s-127427")
    ignores_node_deletions: bool = bug("k8s-127464")  # no pod is woken when a node goes
    # no pod is woken when another one is not nominated any more
    ignores_nominations: bool = bug("k8s-129058")
    # The end of a nomination is an event also where the pod is bound (deletePodFromSchedulingQueue).
    wakes_at_binding: bool = until(34)
    # A pod that is added wakes only those with affinity to pods; not those that topology spread rejected.
    spread_sleeps: bool = bug("k8s-122627")
    sidecar_ports_overlooked: bool = bug("k8s-132040")  # host ports of sidecars count as free
    # A pod still counts as rejected by plugins after an attempt that ends otherwise.
    keeps_old_rejections: bool = bug("k8s-120334")
    resizing: ResizingFeatures = part(ResizingFeatures)
    # no event but a change of its own wakes a pod that PreEnqueue holds back
    gated_sleep: bool = bug("k8s-125527")
    placement: PlacementFeatures = part(PlacementFeatures)
    # those that violate a budget come first, and so count as the most important
    victims_unsorted: bool = bug("k8s-128307")
    forgets_empty_budgets: bool = bug("k8s-141785")  # whose selector is empty, when it chooses victims
    # the patch of a victim's status has the QoS class of its preemptor
    victims_get_other_status: bool = bug("k8s-126644")
    disruption_condition: bool = gate("PodDisruptionConditions")  # victims get a condition with the reason
    preemptor_in_condition: bool = until(25) | bug("k8s-114914")  # it names the preemptor
    preemptor_in_event: bool = since(29)  # from 1.29 on
    # conditions say which generation of the pod they are about
    observed_generation: bool = gate("PodObservedGenerationTracking")
    match_label_keys: bool = gate("MatchLabelKeysInPodTopologySpread")  # of topology spread constraints
    min_domains: bool = gate("MinDomainsInPodTopologySpread")
    node_inclusion_policy: bool = gate("NodeInclusionPolicyInPodTopologySpread")
    # 1.36+: a metric of pods that were bound after waiting too long for an event
    counts_flushed: bool = since(36)
    # up to 1.31 metrics name events by a list, then by resource and action
    listed_event_labels: bool = until(31)
    plural_tolerations: bool = only(32)  # 1.32: UpdatePodTolerations
    # the metric's names: until 1.33 it began scheduler_scheduler_
    cache_sizes: tuple[str, ...] = by_release(
        {
            0: ("scheduler_scheduler_cache_size",),
            33: ("scheduler_scheduler_cache_size", "scheduler_cache_size"),
            34: ("scheduler_cache_size",),
        }
    )
    double_full_stop: bool = until(28)  # up to 1.28 what PostFilter said got another full stop
    # up to 1.33 a node too small for the pod counted as helped by preemption
    fit_resolvable: bool = until(33)
