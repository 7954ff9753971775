"""The differences between releases and gates, as one value that plugins are given."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.features.affinity_hints import AffinityHintFeatures
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.features.placement import PlacementFeatures
from kubeskew.scheduler.features.preemption import PreemptionFeatures
from kubeskew.scheduler.features.resizing import ResizingFeatures

_STRUCTURED_SINCE = 31  # DeviceClass, ResourceSlice with devices: resource.k8s.io/v1alpha3


@dataclass(frozen=True, slots=True)
class SchedulerFeatures:
    """Named decisions; nothing else in the scheduler depends on a version or a gate."""

    dynamic_resources: bool
    devices: bool  # since 1.31: the scheduler allocates what slices tell of
    classic: ClassicFeatures | None  # until 1.31 drivers allocate
    extended_resources: bool
    dynamic: DynamicResourcesFeatures
    extended_resource_index: bool  # 1.35+: one lookup cache of classes; before, a map built per call
    loses_names: bool  # a class takes a name away that another one owns
    taint_in_reason: bool  # a pod's status names the taint that it does not tolerate
    reuse_by_init_containers: bool  # else as in the KEP, one request per container and resource
    claims_block_deletion: bool  # their pods' in the foreground
    classes_unheard: bool  # no pod is woken when a class comes that backs what it asks for
    claims_plugged_too: bool  # 1.34: also what the node's device plugins have, if the claim requests anything
    device_taint_rules: bool  # DeviceTaintRules taint devices; a gate of its own since 1.35
    forgets_refused_claim: bool  # 1.34: the error of a creation names neither the claim nor its namespace
    claim_metric: str  # metric of created extended-resource claims (1.35+), without `_total`; "" for none
    binding_metrics: bool  # 1.36+: metrics of binding conditions
    queueing_hints: bool  # else every event that a plugin registered for requeues the pods it rejected
    in_flight_metric: bool  # 1.32+ (from memory), with hints: of what is kept for attempts under way
    affinity_hints: AffinityHintFeatures
    async_preemption: bool
    preemption: PreemptionFeatures
    attempts_end_by_name: bool  # a pod made anew during an attempt ends its own, and not that of the old one
    loses_events: bool  # that come during an attempt, if the one before the attempt is needed no more
    attempts_end_late: bool  # a moment after the pod may be tried again; whoever takes it then loses it
    pops_from_backoff: bool  # without active pods, others are tried before their backoff ends
    cordon_ignores_tolerations: bool  # a change of a rejected pod's tolerations does not wake it (with hints)
    node_deletions_unheard: bool  # no pod is woken when a node goes
    nominations_unheard: bool  # no pod is woken when another one is not nominated any more
    # A pod that is added wakes only those with affinity to pods; not those that topology spread rejected.
    spread_sleeps: bool
    sidecar_ports_overlooked: bool  # host ports of sidecars count as free
    keeps_old_rejections: (
        bool  # a pod still counts as rejected by plugins after an attempt that ends otherwise
    )
    resizing: ResizingFeatures
    gated_sleep: bool  # no event but a change of its own wakes a pod that PreEnqueue holds back
    placement: PlacementFeatures
    victims_unsorted: bool  # those that violate a budget come first, and so count as the most important
    forgets_empty_budgets: bool  # whose selector is empty, when it chooses victims
    victims_get_other_status: bool  # the patch of a victim's status has the QoS class of its preemptor
    disruption_condition: bool  # victims get a condition with the reason
    preemptor_in_condition: bool  # it names the preemptor
    preemptor_in_event: bool  # from 1.29 on
    observed_generation: bool  # conditions say which generation of the pod they are about
    match_label_keys: bool  # of topology spread constraints
    min_domains: bool
    node_inclusion_policy: bool
    counts_flushed: bool  # 1.36+: a metric of pods that were bound after waiting too long for an event
    listed_event_labels: bool  # up to 1.31 metrics name events by a list, then by resource and action
    plural_tolerations: bool  # 1.32: UpdatePodTolerations
    cache_sizes: tuple[str, ...]  # the metric's names: until 1.33 it began scheduler_scheduler_
    double_full_stop: bool  # up to 1.28 what PostFilter said got another full stop
    fit_resolvable: bool  # up to 1.33 a node too small for the pod counted as helped by preemption

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "SchedulerFeatures":
        # Other previews have an API that no plugin knows.
        known = version.preview in ("", "kep3063", "kep4381")
        dynamic_resources = gates.enabled("DynamicResourceAllocation") and known
        dynamic = dynamic_resources and version.minor >= _STRUCTURED_SINCE
        extended = gates.enabled("DRAExtendedResource")
        return cls(
            dynamic_resources=dynamic_resources,
            devices=dynamic,
            classic=ClassicFeatures.of(version, gates),
            extended_resources=dynamic and extended,
            dynamic=DynamicResourcesFeatures.of(version, gates),
            extended_resource_index=version.minor >= 35,
            loses_names=gates.bugs.present("k8s-141110"),
            taint_in_reason=gates.bugs.present("k8s-134740"),
            reuse_by_init_containers=not gates.bugs.present("k8s-134882"),
            claims_block_deletion=gates.bugs.present("k8s-134956"),
            classes_unheard=gates.bugs.present("k8s-134991"),
            claims_plugged_too=version.minor < 35,
            device_taint_rules=dynamic
            and gates.enabled("DRADeviceTaints")
            and (version.minor < 35 or gates.enabled("DRADeviceTaintRules")),
            forgets_refused_claim=version.minor < 35,
            claim_metric=_claim_metric(version.minor) if dynamic and extended else "",
            binding_metrics=dynamic and version.minor >= 36 and gates.enabled("DRADeviceBindingConditions"),
            queueing_hints=gates.enabled("SchedulerQueueingHints"),
            in_flight_metric=version.minor >= 32 and gates.enabled("SchedulerQueueingHints"),
            affinity_hints=AffinityHintFeatures.of(gates),
            pops_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            preemption=PreemptionFeatures.of(gates),
            attempts_end_by_name=gates.bugs.present("k8s-138435"),
            loses_events=gates.enabled("SchedulerQueueingHints") and gates.bugs.present("k8s-120413"),
            attempts_end_late=gates.bugs.present("k8s-139186"),
            async_preemption=gates.enabled("SchedulerAsyncPreemption"),
            cordon_ignores_tolerations=gates.bugs.present("k8s-127427"),
            node_deletions_unheard=gates.bugs.present("k8s-127464"),
            nominations_unheard=gates.bugs.present("k8s-129058"),
            spread_sleeps=gates.bugs.present("k8s-122627"),
            sidecar_ports_overlooked=gates.bugs.present("k8s-132040"),
            keeps_old_rejections=gates.bugs.present("k8s-120334"),
            resizing=ResizingFeatures.of(gates),
            gated_sleep=gates.bugs.present("k8s-125527"),
            placement=PlacementFeatures.of(gates),
            victims_unsorted=gates.bugs.present("k8s-128307"),
            forgets_empty_budgets=gates.bugs.present("k8s-141785"),
            victims_get_other_status=gates.bugs.present("k8s-126644"),
            disruption_condition=gates.enabled("PodDisruptionConditions"),
            preemptor_in_condition=version.minor <= 25 or gates.bugs.present("k8s-114914"),
            preemptor_in_event=version.minor >= 29,
            observed_generation=gates.enabled("PodObservedGenerationTracking"),
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
            min_domains=gates.enabled("MinDomainsInPodTopologySpread"),
            node_inclusion_policy=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            counts_flushed=version.minor >= 36,
            listed_event_labels=version.minor <= 31,
            plural_tolerations=version.minor == 32,
            cache_sizes=_cache_sizes(version.minor),
            double_full_stop=version.minor <= 28,
            fit_resolvable=version.minor <= 33,
        )


def _cache_sizes(minor: int) -> tuple[str, ...]:
    """Returns the names of the metric: 1.33 has both (pkg/scheduler/metrics/metrics.go)."""
    names = ("scheduler_scheduler_cache_size", "scheduler_cache_size")
    return names[minor >= 34 :] if minor >= 33 else names[:1]


def _claim_metric(minor: int) -> str:
    """Returns the metric's name (pull requests 134523 and 138542)."""
    if minor >= 37:  # shared with the controller manager
        return "dynamic_resource_allocation_resourceclaim_creates"
    return "scheduler_resourceclaim_creates" if minor >= 35 else ""
