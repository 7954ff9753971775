"""The table of what differs between releases and gates in the API server.

Every other module of the API server reads a named value from here and compares no minors itself. A field's
comment says what changes, its rule when. "From memory" marks what no source at hand confirms.

Not decided here: which resources and fields exist (the catalogue), what conversion and the types of a release
are (libraries, which take the minor; those of CEL take a `Release`), and the roles that every cluster has (a
table of their own).
"""

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.features import (
    MINOR,
    VERSION,
    FeatureTable,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    has_flag,
    has_gate,
    made,
    only,
    part,
    preview,
    since,
    unless_off,
    until,
)
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.service_features import ServiceFeatures
from kubeskew.apiserver.watch_cache_features import WatchCacheFeatures
from kubeskew.apiserver.workload_features import WorkloadFeatures

# Kinds whose changes were checked more than once until the release with the number: their strategy and
# validation function called one another (pkg/registry/*/*/strategy.go, ValidateUpdate, 1.31 to 1.36).
_CHECKED_ONCE_IN_35 = {
    "persistentvolumeclaims", "volumeattachments.storage.k8s.io", "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io", "volumeattributesclasses.storage.k8s.io",
}  # fmt: skip
_CHECKED_ONCE_IN_36 = {"networkpolicies.networking.k8s.io", "csinodes.storage.k8s.io"}

# The expressions of policies, webhooks and custom resources depend on this alone.
EXPRESSIONS = made(Release, MINOR, misses_inner_networks=bug("k8s-130450"))

# Upstream's internal types, as errors show them; since 1.34 differences are of lines.
_INTERNAL = made(InternalTypes, MINOR, unified=since(34))

# The end of the endpoint's beta version, once its gate exists, is "on".
_AGGREGATED_BETA = gate("AggregatedDiscoveryEndpoint") & ~(
    since(33) & has_gate("AggregatedDiscoveryRemoveBetaType") & gate("AggregatedDiscoveryRemoveBetaType")
)


class PodFeatures(FeatureTable):
    """Holds the decisions about pods and pod templates: their rules, defaults, warnings and subresources.

    Source of most texts: pkg/apis/core/validation/validation.go and pkg/api/pod/{util,warnings}.go, 1.36.
    """

    internal: InternalTypes = _INTERNAL

    # --- rules of specs; an old pod's use of a feature widens them (registry/shared/pod_options.py)
    relaxed_env: bool = since(32) | gate(
        "RelaxedEnvironmentVariableValidation"
    )  # names may be nearly anything
    driver_required_alone: bool = since(35)  # of a missing CSI driver nothing else is said
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
    sidecar_resize: bool = since(33) | gate("InPlacePodVerticalScaling")
    any_affinity_values: bool = until(32)  # required nodes may have label values that no label can have

    # --- rules and texts that no old pod changes
    unknown_init_panics: bool = bug("k8s-124906")  # tables of pods do, at their statuses
    marks_once_too_often: bool = bug("k8s-116554")  # evictions mark pods in a dry run, and before a 409
    counts_alone: bool = bug("k8s-133097")  # why a budget refuses is told by numbers of pods
    empty_budgets_select_none: bool = bug("k8s-119732")  # of the pods that are to be evicted
    templates_without_image: bool = bug("k8s-135989")  # their image volumes need no reference
    image_mount_paths: bool = until(32)  # mounts of image volumes have no sub paths
    no_restart_of_init: bool = since(36)  # init containers that end may not ask to be restarted by a resize
    huge_page_names: bool = since(33)  # listed among the resources that a whole pod may have
    pod_resources_wording: bool = since(34)  # not on Windows; "may not" instead of "cannot"
    numbers_aliases: bool = since(30)  # errors of host aliases are at their positions, addresses as elsewhere
    names_sidecars: bool = since(28)  # the text of probes and hooks of init containers does
    init_rules_need_policy: bool = since(35)  # restart rules of an init container without a policy
    restart_wording: bool = since(36)  # resize policies: "pod restartPolicy" instead of "restartPolicy"
    short_os_text: bool = since(36)  # the error of an os without a name lacks "cannot be empty" (from memory)
    host_users_wording: bool = since(34)  # texts name `hostUsers` instead of `pod.Spec.HostUsers`
    host_users_devices: bool = since(34)  # pods with users of their own have no block devices
    status_condition_path: bool = since(34)  # errors of conditions are at status, before at metadata
    claim_status_path: bool = bug("k8s-137321")  # errors of the name of a status' claim are at `name`
    status_user_path: bool = since(34)  # errors of a container status' user are at `user`, not the status

    # --- claims of pods
    # Where their sources stand: until 1.30 one level below the claim.
    nested_claim_sources: bool = until(30) & ~preview("kep3063")
    mirrors_may_claim: bool = bug("k8s-132151")  # pods that mirror static ones may name claims
    inline_claim_templates: bool = preview("kep3063")  # instead of the name of a template
    # The names of claims and templates, but in 1.26 (116576).
    claim_sources_checked: bool = ~only(26)
    final_claim_names: bool = until(27)  # claims of templates are named after pod and claim

    # --- defaults and preparation
    lifts_grace: bool = since(27)  # a pod's negative grace period is read as 1
    # Host ports of templates: 1.28 left them alone; the gate brought the default back (from memory).
    template_host_ports: bool = until(27) | gate("DefaultHostNetworkHostPortsInPodTemplates")
    image_volumes: bool = gate("ImageVolume")  # they get a pull policy
    merged_affinity: bool = gate("MatchLabelKeysInPodAffinity")  # its matchLabelKeys become part of selectors
    merged_constraints: bool = gate("MatchLabelKeysInPodTopologySpread") & gate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge"
    )
    app_armor_fields: bool = since(30)  # AppArmor has fields: annotations are copied into them and warned of
    generation: bool = since(33)  # pods count their generation

    # --- warnings
    port_warnings: bool = since(28)  # of ports that containers share
    port_name_warnings: bool = since(33)  # of names of ports that containers share
    selector_warnings: bool = since(28)  # of terms and constraints without a selector
    value_warnings: bool = since(33)  # of labels' values in preferred terms
    grace_warnings: bool = since(27)  # of negative grace periods
    profile_warnings: bool = since(34)  # of AppArmor annotations that are not as the pod's own profile
    # A variable that another hides: 1.26 and 1.27 tell of every repeated name.
    hidden_variables: bool = since(28)
    hidden_from_apply: bool = since(30)  # "which may be dropped when using apply"
    address_warnings: bool = since(33)  # of IP addresses in odd forms
    ceph_warnings: bool = since(28)  # cephfs and rbd are deprecated
    git_disabled: bool = since(33)  # gitRepo volumes are "disabled by default in v1.33+"
    old_removals: bool = until(26)  # volumes and seccomp annotations are to go, not gone
    overlap_warnings: bool = since(32)  # of files that hide each other
    # A projected source without files has those of the one before it.
    sources_repeat: bool = until(33)

    # --- resizes
    resized_by_update: bool = gate("InPlacePodVerticalScaling") & until(31)  # since by the subresource alone
    proposes_resize: bool = gate("InPlacePodVerticalScaling") & until(32)  # in `status.resize`
    # A change of a pod's class has an error of its own.
    update_keeps_qos: bool = since(27) & until(31) & (since(29) | gate("InPlacePodVerticalScaling"))
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
    dates_gating: bool = fixed("k8s-122636")  # the condition of a pod that is held back by gates
    large_users: bool = fixed("k8s-138574")  # containers may have users of 32 bits in their status
    checks_bound_node: bool = fixed("k8s-136776")  # the name of the node that a binding names
    # Budgets may let pods that are not ready go. A release without the gate's name has it for good.
    unhealthy_eviction: bool = unless_off("PDBUnhealthyPodEvictionPolicy")


class VolumeFeatures(FeatureTable):
    """Holds the decisions about claims, persistent volumes and CSI."""

    internal: InternalTypes = _INTERNAL
    claim_shrinks: bool = gate("RecoverVolumeExpansionFailure")  # a failed expansion may be asked for less
    attributes_classes: bool = gate("VolumeAttributesClass")
    tokens_in_secrets: bool = gate("CSIServiceAccountTokenSecrets")  # drivers get them so, or are warned of
    immutable_classes: bool = since(36)  # the text for storage classes that change is that of other kinds
    dates_phases: bool = since(31) | gate("PersistentVolumeLastPhaseTransitionTime")  # of volumes
    several_applied: bool = since(34)  # texts of allocated resources speak of several; more counts
    sources_across_namespaces: bool = gate("CrossNamespaceVolumeDataSource")
    any_data_source: bool = gate("AnyVolumeDataSource")
    removed_warnings: bool = since(28)  # persistent volumes of kinds that went (from memory)
    # The gate was on by default in 1.27, and its name is gone later: then the field has its default.
    selinux_mounts: bool = since(27) | gate("SELinuxMountReadWriteOncePod")
    counts_change: bool = gate("MutableCSINodeAllocatableCount")
    any_affinity_values: bool = until(32)  # as of pods
    driver_required_alone: bool = since(35)  # of a missing CSI driver nothing else is said


class AccountFeatures(FeatureTable):
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


class AdmissionFeatures(FeatureTable):
    """Holds the decisions about admission and the objects that configure it."""

    policy_actions: bool = since(27)  # before, every binding denies
    parameter_selectors: bool = since(28)  # of policies; and what is done without any parameters
    validating_policies: bool = since(26) & unless_off("ValidatingAdmissionPolicy")
    mutating_policies: bool = since(32) & unless_off("MutatingAdmissionPolicy")
    mutates: bool = gate("MutatingAdmissionPolicy")
    longer_texts: bool = until(33)  # errors of policies name the field once more
    misspells_matching: bool = until(31)  # the path of a binding's matchResources
    # VolumeAttributesClasses begin with a finalizer.
    protects_attributes_classes: bool = since(33) & gate("VolumeAttributesClass")
    protects_pod_groups: bool = since(36) & gate("GenericWorkload")  # so do PodGroups
    omits_empty_items: bool = bug("k8s-126146")  # lists of validating policies, and of their bindings
    exempts_reviews: bool = gate("ExcludeAdmissionWebhookVirtualResources")  # from webhooks
    topology_labels: bool = gate("PodTopologyLabelsAdmission")  # pods get those of their node
    mirrors_may_claim: bool = bug("k8s-132151")  # nodes may create pods that name resource claims
    nodes_may_set_owners: bool = bug("k8s-133471")  # of their own objects, in an update
    mirrors_refer_to_nothing: bool = since(
        34
    )  # nodes' pods: looks at volumes of all kinds, in words of its own
    checks_node_audiences: bool = gate("ServiceAccountNodeAudienceRestriction")
    unknown_volumes_refuse: bool = bug("k8s-140607")  # nodes a token, whatever they are allowed
    checks_kubelet_requests: bool = ~gate("AllowInsecureKubeletCertificateSigningRequests")
    pod_security_release: int = MINOR  # of the standards


class RequestFeatures(FeatureTable):
    """Holds the decisions about requests for any resource."""

    # Kinds whose changes are checked once, by the names of their resources.
    checked_once: frozenset[str] = by_release(
        {
            0: frozenset(),
            35: frozenset(_CHECKED_ONCE_IN_35),
            36: frozenset(_CHECKED_ONCE_IN_35 | _CHECKED_ONCE_IN_36),
        }
    )
    retries_names: bool = gate("RetryGenerateName")
    # A 404 comes before the uid's 409 (from memory; surely in 1.36).
    absence_before_uid: bool = since(34)
    # Answers name the objects that cannot be read, and deletions may ignore that.
    unsafe_deletion: bool = has_flag("AllowUnsafeMalformedObjectDeletion") & gate(
        "AllowUnsafeMalformedObjectDeletion"
    )
    readable_is_conflict: bool = since(37)  # to delete a readable object so
    unsafe_dry_runs: bool = since(37)  # of such deletions (134037)
    names_first_unreadable: bool = since(37)  # failed lists tell the first error
    watches_within_namespace: bool = bug("k8s-125145")  # of its path, though namespaces are in none
    custom_field_selectors: bool = gate("CustomResourceFieldSelectors")
    ends_in_the_past: bool = bug("k8s-122646")  # a deletion may, once its grace is shortened
    unreadable_options_are_bad: bool = fixed("k8s-133358")  # 400 instead of 500: the client's fault
    constrained_impersonation: bool = gate("ConstrainedImpersonation")
    nobody_is_bad: bool = since(35)  # 400 instead of 500 for impersonation headers without a user
    components_are_found: bool = since(33)  # a component status that there is not: 404 instead of 500
    workspaces: bool = since(
        30
    )  # sources are built as Go workspaces, as errors that name places in them show
    alpha_resources: bool = until(31)  # APIServices of resource.k8s.io, which has alpha versions only
    fairness: bool = unless_off("APIPriorityAndFairness")
    connect_verb: bool = since(27)  # of exec, logs and proxies in metrics (111988)
    # Versions of the aggregated discovery document, best first; may be empty.
    aggregated_discovery: tuple[str, ...] = choose(
        _AGGREGATED_BETA,
        by_release({0: ("v2beta1",), 30: ("v2", "v2beta1")}),
        by_release({0: (), 30: ("v2",)}),
    )
    condition_texts: bool = until(33)  # errors of conditions say that what is missing must be set
    names_level_type: bool = until(33)  # the text of exempt priority levels begins with "type"
    level_types_required: bool = since(36)  # an empty type of a level or its response is none
    handlers_required: bool = since(36)  # an empty handler of a runtime class is none
    lease_locks_only: bool = since(34)  # flow schemas of leader election have no Endpoints and ConfigMaps
    exempt_levels: bool = since(28)  # exempt priority levels have shares
    keeps_given_deletion: bool = bug("k8s-138908")  # of objects that an update or apply creates
    refuses_duplicates: bool = bug("k8s-121575")  # no apply to objects whose lists repeat a key
    whole_patches: bool = fixed("k8s-120327")  # JSON patches may replace and test the object as a whole
    new_after_cleanup: bool = bug("k8s-137604")  # objects, once all of a deleted definition are gone
    conversion_wants_metadata: bool = bug("k8s-117301")  # of a custom resource, by name only
    applies_while_terminating: bool = bug("k8s-132467")  # objects of a definition that is being deleted
    ended_migrations_run_not: bool = until(35)  # of storage versions, as their conditions say


class HookFeatures(FeatureTable):
    """Holds the decisions about the names of post-start hooks; sources in health_checks.py."""

    system_namespaces: bool = since(28)
    local_availability: bool = since(31)  # local and remote APIServices are looked after apart
    storage_readiness: bool = gate("WatchCacheInitializationPostStartHook")
    service_ranges: bool = gate("MultiCIDRServiceAllocator")


class SchemaFeatures(FeatureTable):
    """Holds the decisions about the structural schemas of custom resources."""

    status_owns_metadata: bool = since(36)  # who writes a definition's status; before, the change alone
    # The types of embedded resources are those of the release.
    version: Version = VERSION
    expressions: Release = EXPRESSIONS  # of Kubernetes' CEL libraries
    ratcheting: bool = gate("CRDValidationRatcheting")
    keeps_optional_old_self: bool = bug("k8s-122343")  # of rules, with that gate off
    name_formats: bool = since(34)  # k8s-short-name, k8s-long-name
    numeric_formats: bool = since(36)  # older releases ignore int32, int64, float and double
    format_warnings: bool = since(34)
    warns_of_numbers: bool = bug("k8s-133901")  # of int32, int64, float and double, too
    # A failed rule shows the value, if it is a scalar, instead of its type.
    shows_scalars: bool = since(35)


def _shown_version(version: Version, *, emulated: bool) -> str:
    """Documents name the emulated minor since there is such a thing, before that the release."""
    return f"1.{version.minor}" if emulated else version.git_version


class DocumentFeatures(FeatureTable):
    """Holds the decisions about OpenAPI documents."""

    version: Version = VERSION
    emulates: bool = since(33)  # `/version` says what is emulated
    shown_version: str = made(_shown_version, VERSION, emulated=since(31))  # in documents
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


class Features(FeatureTable):
    """Holds every decision of one server, by concern."""

    expressions: Release = EXPRESSIONS
    internal: InternalTypes = _INTERNAL
    strict_addresses: bool = gate("StrictIPCIDRValidation")  # addresses and ranges in canonical form only
    pods: PodFeatures = part(PodFeatures)
    services: ServiceFeatures = part(ServiceFeatures)
    volumes: VolumeFeatures = part(VolumeFeatures)
    workloads: WorkloadFeatures = part(WorkloadFeatures)
    devices: DRAFeatures = part(DRAFeatures)
    accounts: AccountFeatures = part(AccountFeatures)
    admission: AdmissionFeatures = part(AdmissionFeatures)
    requests: RequestFeatures = part(RequestFeatures)
    reads: WatchCacheFeatures = part(WatchCacheFeatures)
    schemas: SchemaFeatures = part(SchemaFeatures)
    documents: DocumentFeatures = part(DocumentFeatures)
    hooks: HookFeatures = part(HookFeatures)


_DRIVERS_ALONE = gate("DRAControlPlaneController") & ~gate("DynamicResourceAllocation")


def gate_conflict(gates: FeatureGates) -> str:
    """Names the gates that keep a server from starting though its flag took them; empty if none do."""
    if _DRIVERS_ALONE.value(gates):
        return "DRAControlPlaneController feature requires DynamicResourceAllocation feature to be enabled"
    return ""
