"""Decides once, from a server's version and gates, what differs between releases and gates.

Every other module of the API server reads a named value from here and compares no minors itself (as plugins
of kube-scheduler do with pkg/scheduler/framework/plugins/feature). A field's comment says what changes;
`since`, `until`, `gate` and `of_minor` (feature_fields.py) say when. "From memory" marks what no source at
hand confirms. Groups compare and hash by identity: there is one per set of gates.

Not decided here: which resources and fields exist (the catalogue), what conversion and the types of a release
are (libraries, which take the minor; those of CEL take a `Release`), and the roles that every cluster has (a
table of their own).
"""

from dataclasses import dataclass
from functools import lru_cache

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.feature_fields import (
    build,
    decided,
    gate,
    known_bug,
    preview,
    repaired,
    since,
    unless_off,
    until,
)
from kubeskew.apiserver.watch_cache_features import WatchCacheFeatures
from kubeskew.apiserver.workload_features import WorkloadFeatures


def cel_release(gates: FeatureGates) -> Release:
    """Returns what the expressions of policies, webhooks and custom resources depend on."""
    return Release(gates.version.minor, misses_inner_networks=gates.bugs.present("k8s-130450"))


@dataclass(frozen=True, slots=True, eq=False)
class PodFeatures:
    """Holds the decisions about pods and pod templates: their rules, defaults, warnings and subresources.

    Source of most texts: pkg/apis/core/validation/validation.go and pkg/api/pod/{util,warnings}.go, 1.36.
    """

    # --- rules of specs; an old pod's use of a feature widens them (registry/shared/pod_options.py)
    relaxed_env: bool = since(32, gate="RelaxedEnvironmentVariableValidation")  # names may be nearly anything
    relaxed_dns: bool = gate("RelaxedDNSSearchValidation")  # search paths may have underscores
    zero_sleep: bool = gate("PodLifecycleSleepActionAllowZero")
    pod_resources: bool = gate("PodLevelResources")
    restart_rules: bool = gate("ContainerRestartRules")
    restart_all: bool = gate("RestartAllContainersOnContainerExits")
    env_files: bool = gate("EnvFiles")
    # matchLabelKeys of spread constraints become part of the selector
    merged_spread: bool = gate("MatchLabelKeysInPodTopologySpreadSelectorMerge")
    strict_addresses: bool = gate("StrictIPCIDRValidation")
    comparisons: bool = gate("TaintTolerationComparisonOperators")  # tolerations may compare numbers
    host_network_users: bool = gate("UserNamespacesHostNetworkSupport")  # with user namespaces
    any_selinux_change: bool = gate("SELinuxMount")
    sidecars: bool = gate("SidecarContainers")
    sidecar_resize: bool = since(33, gate="InPlacePodVerticalScaling")
    any_affinity_values: bool = until(32)  # required nodes may have label values that no label can have

    # --- rules and texts that no old pod changes
    unknown_init_panics: bool = known_bug("k8s-124906")  # tables of pods do, at their statuses
    marks_once_too_often: bool = known_bug("k8s-116554")  # evictions mark pods in a dry run, and before a 409
    empty_budgets_select_none: bool = known_bug("k8s-119732")  # of the pods that are to be evicted
    templates_without_image: bool = known_bug("k8s-135989")  # their image volumes need no reference
    image_mount_paths: bool = until(32)  # mounts of image volumes have no sub paths
    no_restart_of_init: bool = since(36)  # init containers that end may not ask to be restarted by a resize
    pod_resources_wording: bool = since(34)  # not on Windows; "may not" instead of "cannot"
    restart_wording: bool = since(34)  # resize policies: "pod restartPolicy" instead of "restartPolicy"
    short_os_text: bool = since(36)  # the error of an os without a name lacks "cannot be empty" (from memory)
    host_users_wording: bool = since(34)  # texts name `hostUsers` instead of `pod.Spec.HostUsers`
    host_users_devices: bool = since(34)  # pods with users of their own have no block devices
    status_condition_path: bool = since(34)  # errors of conditions are at status, before at metadata
    status_user_path: bool = since(34)  # errors of a container status' user are at `user`, not the status

    # --- claims of pods
    # Where their sources stand: until 1.30 one level below the claim.
    nested_claim_sources: bool = decided(
        lambda gates: gates.version.minor <= 30 and gates.version.preview != "kep3063"
    )
    mirrors_may_claim: bool = known_bug("k8s-132151")  # pods that mirror static ones may name claims
    inline_claim_templates: bool = preview("kep3063")  # instead of the name of a template
    # The names of claims and templates, but in 1.26 (116576).
    claim_sources_checked: bool = decided(lambda gates: gates.version.minor != 26)
    final_claim_names: bool = until(27)  # claims of templates are named after pod and claim

    # --- defaults and preparation
    # Host ports of templates: 1.28 left them alone; the gate brought the default back (from memory).
    template_host_ports: bool = until(27, gate="DefaultHostNetworkHostPortsInPodTemplates")
    image_volumes: bool = gate("ImageVolume")  # they get a pull policy
    merged_affinity: bool = gate("MatchLabelKeysInPodAffinity")  # its matchLabelKeys become part of selectors
    merged_constraints: bool = gate(
        "MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge"
    )
    app_armor_fields: bool = since(30)  # AppArmor has fields: annotations are copied into them and warned of
    generation: bool = since(33)  # pods count their generation

    # Stateful sets check their claim templates, and their pod template as a whole.
    stateful_set_templates: bool = since(33)

    # --- warnings
    port_warnings: bool = since(27)  # of ports that containers share
    address_warnings: bool = since(33)  # of IP addresses in odd forms
    ceph_warnings: bool = since(28)  # cephfs and rbd are deprecated
    ceph_gone: bool = since(31)  # and since then "non-functional in v1.31+"
    git_disabled: bool = since(33)  # gitRepo volumes are "disabled by default in v1.33+"
    token_overlap_warnings: bool = since(30)  # of projected files in the place of a token (from memory)
    overlap_warnings: bool = since(34)  # of all paths, not those of tokens alone (from memory)

    # --- resizes
    resized_by_update: bool = gate(
        "InPlacePodVerticalScaling", last=31
    )  # since then by the subresource alone
    proposes_resize: bool = gate("InPlacePodVerticalScaling", last=32)  # in `status.resize`
    # A change of a pod's class has an error of its own.
    update_keeps_qos: bool = decided(
        lambda gates: (
            29 <= gates.version.minor <= 31
            or (gates.version.minor in (27, 28) and gates.enabled("InPlacePodVerticalScaling"))
        )
    )
    pod_resize: bool = gate("InPlacePodLevelResourcesVerticalScaling")  # the pod's own resources may change
    init_resize: bool = gate("InPlacePodVerticalScalingInitContainers")  # those of all init containers may
    memory_shrinks: bool = since(34)  # a memory limit may shrink without a restart
    pod_resize_wording: bool = since(35)  # with the gate off, a text that names it, after the other errors
    clears_nomination: bool = gate("ClearingNominatedNodeNameAfterBinding")
    split_log_streams: bool = gate("PodLogsQuerySplitStreams")
    remote_commands_by_websocket: bool = gate("TranslateStreamCloseWebsocketRequests")
    port_forward_by_websocket: bool = gate("PortForwardWebsockets")
    authorizes_websockets: bool = gate("AuthorizePodWebsocketUpgradeCreatePermission")  # as "create", too
    disruption_condition: bool = gate("PodDisruptionConditions")  # evicted pods get DisruptionTarget
    observed_generation: bool = gate("PodObservedGenerationTracking")  # in conditions the server writes
    dates_gating: bool = repaired("k8s-122636")  # the condition of a pod that is held back by gates
    large_users: bool = repaired("k8s-138574")  # containers may have users of 32 bits in their status
    checks_bound_node: bool = repaired("k8s-136776")  # the name of the node that a binding names
    # Budgets may let pods that are not ready go. A release without the gate's name has it for good.
    unhealthy_eviction: bool = decided(
        lambda gates: (
            not gates.knows("PDBUnhealthyPodEvictionPolicy") or gates.enabled("PDBUnhealthyPodEvictionPolicy")
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class ServiceFeatures:
    """Holds the decisions about services and endpoints. The rules of 1.36 are the reference."""

    wipes_cidr_status: bool = gate("ServiceCIDRStatusFieldWiping")  # who writes the rest keeps it
    cidr_status_keeps_metadata: bool = since(32)
    cidr_status_resets_fields: bool = since(36)
    strict_addresses: bool = gate("StrictIPCIDRValidation")
    distributions: tuple[str, ...] = decided(  # what `trafficDistribution` may say
        lambda gates: (
            ("PreferClose", "PreferSameZone", "PreferSameNode")
            if gates.enabled("PreferSameTrafficDistribution")
            else ("PreferClose",)
        )
    )
    # Services of other types may have a balancer's status.
    any_balancer_status: bool = gate("AllowServiceLBStatusOnNonLB")
    # On by default since 1.30; removed from the tables once locked, so a newer minor means on.
    ip_modes: bool = since(32, gate="LoadBalancerIPMode")
    several_ranges: bool = gate("MultiCIDRServiceAllocator")  # ServiceCIDR objects instead of a flag
    relaxed_names: bool = gate("RelaxedServiceNameValidation")  # may begin with a digit, also in ingresses
    endpoint_warnings: bool = since(33)  # odd addresses and types are warned of (slices: from memory)
    status_warnings: bool = since(34)  # addresses of balancers are, too
    field_labels: bool = since(31)  # services can be selected by address and type (127316)
    headless_warnings: bool = since(34)  # of fields that mean nothing to headless services (132214)
    warns_without_affinity: bool = known_bug("k8s-134054")  # of sessionAffinity, also where it is None
    prefer_close_deprecated: bool = since(35)
    external_ips_deprecated: bool = since(36)


@dataclass(frozen=True, slots=True, eq=False)
class VolumeFeatures:
    """Holds the decisions about claims, persistent volumes and CSI."""

    claim_shrinks: bool = gate("RecoverVolumeExpansionFailure")  # a failed expansion may be asked for less
    attributes_classes: bool = gate("VolumeAttributesClass")
    several_applied: bool = since(34)  # texts of allocated resources speak of several; more counts
    sources_across_namespaces: bool = gate("CrossNamespaceVolumeDataSource")
    any_data_source: bool = gate("AnyVolumeDataSource")
    removed_warnings: bool = since(28)  # persistent volumes of kinds that went (from memory)
    # The gate was on by default in 1.27, and its name is gone later: then the field has its default.
    selinux_mounts: bool = since(27, gate="SELinuxMountReadWriteOncePod")
    counts_change: bool = gate("MutableCSINodeAllocatableCount")
    any_affinity_values: bool = until(32)  # as of pods


@dataclass(frozen=True, slots=True, eq=False)
class AccountFeatures:
    """Holds the decisions about service accounts and their tokens."""

    token_uid: bool = since(34)  # requests for tokens name the uid of the account
    checks_token_uid: bool = gate("TokenRequestServiceAccountUIDValidation")
    token_ids: bool = gate("ServiceAccountTokenJTI")
    node_binding: bool = gate("ServiceAccountTokenNodeBinding")
    pod_node_info: bool = gate("ServiceAccountTokenPodNodeInfo")
    checks_node_binding: bool = gate("ServiceAccountTokenNodeBindingValidation")
    invalid_label: bool = since(28)  # legacy tokens whose secret is labelled are refused (from memory)
    certificate_ids: bool = since(32)  # users of certificates have a credential id
    request_header_uid: bool = gate("RemoteRequestHeaderUID")  # extension servers get its header
    node_selectors: bool = gate("AuthorizeNodeWithSelectors")
    claims_by_relation: bool = since(28)  # nodes get the resource claims of their pods only (116254)
    credential_provider_tokens: bool = gate("KubeletServiceAccountTokenForCredentialProviders")
    enforcing_deprecated: bool = since(32)  # annotation kubernetes.io/enforce-mountable-secrets


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionFeatures:
    """Holds the decisions about admission and the objects that configure it."""

    policy_actions: bool = since(27)  # before, every binding denies
    # Parameters are chosen by selectors, and it is said what is done without any.
    parameter_selectors: bool = since(28)
    validating_policies: bool = unless_off("ValidatingAdmissionPolicy", minor=26)
    mutating_policies: bool = unless_off("MutatingAdmissionPolicy", minor=32)
    mutates: bool = gate("MutatingAdmissionPolicy")
    omits_empty_items: bool = known_bug("k8s-126146")  # lists of validating policies, and of their bindings
    exempts_reviews: bool = gate("ExcludeAdmissionWebhookVirtualResources")  # from webhooks
    topology_labels: bool = gate("PodTopologyLabelsAdmission")  # pods get those of their node
    mirrors_may_claim: bool = known_bug("k8s-132151")  # nodes may create pods that name resource claims
    mirrors_refer_to_nothing: bool = since(
        34
    )  # nodes' pods: looks at volumes of all kinds, in words of its own
    checks_node_audiences: bool = gate("ServiceAccountNodeAudienceRestriction")
    # A volume whose driver cannot be found out refuses nodes tokens, whatever they are allowed.
    unknown_volumes_refuse: bool = known_bug("k8s-140607")
    checks_kubelet_requests: bool = decided(
        lambda gates: not gates.enabled("AllowInsecureKubeletCertificateSigningRequests")
    )
    pod_security_release: int = decided(lambda gates: gates.version.minor)  # of the standards


@dataclass(frozen=True, slots=True, eq=False)
class RequestFeatures:
    """Holds the decisions about requests for any resource."""

    retries_names: bool = gate("RetryGenerateName")
    # A 404 comes before the uid's 409 (from memory; surely in 1.36).
    absence_before_uid: bool = since(34)
    # Answers name the objects that cannot be read, and deletions may ignore that.
    unsafe_deletion: bool = decided(
        lambda gates: (
            gates.knows("AllowUnsafeMalformedObjectDeletion")
            and gates.enabled("AllowUnsafeMalformedObjectDeletion")
        )
    )
    readable_is_conflict: bool = since(37)  # to delete a readable object so
    unsafe_dry_runs: bool = since(37)  # of such deletions (134037)
    tells_first_unreadable: bool = since(37)  # failed lists tell the first error
    watches_within_namespace: bool = known_bug("k8s-125145")  # of its path, though namespaces are in none
    custom_field_selectors: bool = gate("CustomResourceFieldSelectors")
    ends_in_the_past: bool = known_bug("k8s-122646")  # a deletion may, once its grace is shortened
    unreadable_options_are_bad: bool = repaired("k8s-133358")  # 400 instead of 500: the client's fault
    constrained_impersonation: bool = gate("ConstrainedImpersonation")
    fairness: bool = unless_off("APIPriorityAndFairness")
    connect_verb: bool = since(27)  # of exec, logs and proxies in metrics (111988)
    # Versions of the aggregated discovery document, best first; may be empty.
    aggregated_discovery: tuple[str, ...] = decided(lambda gates: _aggregated_versions(gates))
    exempt_levels: bool = since(28)  # exempt priority levels have shares
    keeps_given_deletion: bool = known_bug("k8s-138908")  # of objects that an update or apply creates
    refuses_duplicates: bool = known_bug("k8s-121575")  # no apply to objects whose lists repeat a key
    whole_patches: bool = repaired("k8s-120327")  # JSON patches may replace and test the object as a whole
    new_after_cleanup: bool = known_bug("k8s-137604")  # objects, once all of a deleted definition are gone
    conversion_wants_metadata: bool = known_bug("k8s-117301")  # of a custom resource, by name only
    applies_while_terminating: bool = known_bug("k8s-132467")  # objects of a definition that is being deleted
    ended_migrations_run_not: bool = until(35)  # of storage versions, as their conditions say


def _aggregated_versions(gates: FeatureGates) -> tuple[str, ...]:
    minor = gates.version.minor
    offered = ["v2"] if minor >= 30 else []
    endpoint = gates.enabled("AggregatedDiscoveryEndpoint")  # its end, once removed, is "on"
    removed = gates.spec("AggregatedDiscoveryRemoveBetaType") is not None and minor >= 33
    if endpoint and not (removed and gates.enabled("AggregatedDiscoveryRemoveBetaType")):
        offered.append("v2beta1")
    return tuple(offered)


@dataclass(frozen=True, slots=True, eq=False)
class HookFeatures:
    """Holds the decisions about the names of post-start hooks; sources in hooks.py."""

    system_namespaces: bool = since(28)
    local_availability: bool = since(31)  # local and remote APIServices are looked after apart
    storage_readiness: bool = gate("WatchCacheInitializationPostStartHook")
    service_ranges: bool = gate("MultiCIDRServiceAllocator")


@dataclass(frozen=True, slots=True, eq=False)
class SchemaFeatures:
    """Holds the decisions about the structural schemas of custom resources."""

    status_owns_metadata: bool = since(36)  # who writes a definition's status; before, the change alone
    # The types of embedded resources are those of the release.
    version: Version = decided(lambda gates: gates.version)
    expressions: Release = decided(cel_release)  # of Kubernetes' CEL libraries
    ratcheting: bool = gate("CRDValidationRatcheting")
    keeps_optional_old_self: bool = known_bug("k8s-122343")  # of rules, with that gate off
    name_formats: bool = since(34)  # k8s-short-name, k8s-long-name
    numeric_formats: bool = since(36)  # older releases ignore int32, int64, float and double
    format_warnings: bool = since(34)
    warns_of_numbers: bool = known_bug("k8s-133901")  # of int32, int64, float and double, too
    # A failed rule shows the value, if it is a scalar, instead of its type (from memory).
    shows_scalars: bool = since(35)


def _shown_version(version: Version) -> str:
    """Returns what documents say of the version: since 1.31 that which is emulated, a minor."""
    emulating = version.minor >= 31
    return f"1.{version.minor}" if emulating else version.git_version


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFeatures:
    """Holds the decisions about OpenAPI documents."""

    version: Version = decided(lambda gates: gates.version)
    shown_version: str = decided(lambda gates: _shown_version(gates.version))  # in documents
    enums: bool = gate("OpenAPIEnums")  # fields list their values
    cbor: bool = gate("CBORServingAndStorage")  # media types of kube-apiserver's own resources
    element_defaults: bool = until(35)  # of v3: what lists and maps hold has Go's zero value as default
    kinds_of_document: bool = since(36)  # DeleteOptions and WatchEvent name no other group's kinds in v3
    # v2 keeps parameters that many operations have in one place (kube-openapi pkg/builder/parameters.go).
    shared_parameters: bool = since(28)
    initial_events: bool = since(27)  # parameter sendInitialEvents
    store_read_errors: bool = since(32)  # parameter ignoreStoreReadErrorWithClusterBreakingPotential
    log_streams: bool = since(32)  # parameter stream of logs
    shard_selectors: bool = since(36)  # parameter shardSelector


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Holds every decision of one server, by concern."""

    expressions: Release  # of Kubernetes' CEL libraries
    strict_addresses: bool  # gate StrictIPCIDRValidation: addresses and ranges in canonical form only
    pods: PodFeatures
    services: ServiceFeatures
    volumes: VolumeFeatures
    workloads: WorkloadFeatures
    devices: DRAFeatures
    accounts: AccountFeatures
    admission: AdmissionFeatures
    requests: RequestFeatures
    reads: WatchCacheFeatures
    schemas: SchemaFeatures
    documents: DocumentFeatures
    hooks: HookFeatures


def gate_conflict(gates: FeatureGates) -> str:
    """Returns why a server does not start with these gates, which its flag took; empty if it does."""
    if gates.enabled("DRAControlPlaneController") and not gates.enabled("DynamicResourceAllocation"):
        return "DRAControlPlaneController feature requires DynamicResourceAllocation feature to be enabled"
    return ""


@lru_cache(maxsize=256)
def features_of(gates: FeatureGates) -> Features:
    """Returns the decisions for a server with these gates, which know their version."""
    return Features(
        expressions=cel_release(gates),
        strict_addresses=gates.enabled("StrictIPCIDRValidation"),
        pods=build(PodFeatures, gates),
        services=build(ServiceFeatures, gates),
        volumes=build(VolumeFeatures, gates),
        workloads=build(WorkloadFeatures, gates),
        devices=build(DRAFeatures, gates),
        accounts=build(AccountFeatures, gates),
        admission=build(AdmissionFeatures, gates),
        requests=build(RequestFeatures, gates),
        reads=build(WatchCacheFeatures, gates),
        schemas=build(SchemaFeatures, gates),
        documents=build(DocumentFeatures, gates),
        hooks=build(HookFeatures, gates),
    )
