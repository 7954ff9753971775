"""The features of the API server: a table of what differs between releases, gates and known bugs.

The other modules of the API server read named values from here and compare no minors. A field's comment says
what the feature is, its rule for which releases and gates it holds. "From memory" marks what no source at
hand confirms.

Not part of the table: which resources and fields exist (the catalogue), what conversion and the types of a
release are (libraries, which take the minor; those of CEL take a `Release`), and the roles that every cluster
has (a table of their own).
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
from kubeskew.apiserver.declarative_features import DeclarativeFeatures
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.service_features import ServiceFeatures
from kubeskew.apiserver.watch_cache_features import WatchCacheFeatures
from kubeskew.apiserver.workload_features import WorkloadFeatures

# Resources whose updates were validated more than once before the release with the number: their strategy and
# validation function called one another (pkg/registry/*/*/strategy.go, ValidateUpdate, 1.31 to 1.36).
_CHECKED_ONCE_IN_35 = {
    "persistentvolumeclaims", "volumeattachments.storage.k8s.io", "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io", "volumeattributesclasses.storage.k8s.io",
}  # fmt: skip
_CHECKED_ONCE_IN_36 = {"networkpolicies.networking.k8s.io", "csinodes.storage.k8s.io"}

# The expressions of policies, webhooks and custom resources depend on this alone.
EXPRESSIONS = made(Release, MINOR, misses_inner_networks=bug("k8s-130450"))

# Upstream's internal types, as errors show them; with `unified`, differences are of lines.
_INTERNAL = made(InternalTypes, VERSION, unified=since(34))

# The beta version of aggregated discovery ends where the gate for its removal exists and is on.
_AGGREGATED_BETA = gate("AggregatedDiscoveryEndpoint") & ~(
    since(33) & has_gate("AggregatedDiscoveryRemoveBetaType") & gate("AggregatedDiscoveryRemoveBetaType")
)


class PodFeatures(FeatureTable):
    """The rules, defaults, warnings and subresources of pods and pod templates.

    Source of most texts: pkg/apis/core/validation/validation.go and pkg/api/pod/{util,warnings}.go, 1.36.
    """

    internal: InternalTypes = _INTERNAL

    # Rules of specs; an old pod's use of a feature widens them (registry/shared/pod_options.py)
    # Names of environment variables may have nearly any character.
    relaxed_env: bool = since(32) | gate("RelaxedEnvironmentVariableValidation")
    driver_required_alone: bool = since(35)  # a CSI volume without a driver has no second error for its name
    relaxed_dns: bool = gate("RelaxedDNSSearchValidation")  # search paths may have underscores
    names_zero_sleep: bool = since(32)  # errors name the gate for sleeps of no time
    zero_sleep: bool = gate("PodLifecycleSleepActionAllowZero")  # the sleep of a hook may have 0 seconds
    pod_resources: bool = gate("PodLevelResources")  # spec.resources
    restart_rules: bool = gate("ContainerRestartRules")  # containers have restart policies and rules
    restart_all: bool = gate("RestartAllContainersOnContainerExits")  # action RestartAllContainers of rules
    env_files: bool = gate("EnvFiles")  # variables from a file of a volume
    # Keys of matchLabelKeys are checked as parts of a spread constraint's selector.
    merged_spread: bool = gate("MatchLabelKeysInPodTopologySpreadSelectorMerge")
    strict_addresses: bool = gate("StrictIPCIDRValidation")  # addresses and ranges in canonical form only
    comparisons: bool = gate("TaintTolerationComparisonOperators")  # tolerations may compare numbers
    parts_keep_metadata: bool = until(
        32
    )  # writes of ephemeral containers and resizes change none, managers too
    drops_disabled_status: bool = until(30) | since(33)  # a status loses the fields of gates that are off
    names_comparisons: bool = since(35)  # errors say that Lt and Gt are supported, too
    # User namespaces (hostUsers: false) in the network of the host.
    host_network_users: bool = gate("UserNamespacesHostNetworkSupport")
    any_selinux_change: bool = gate("SELinuxMount")  # all values of seLinuxChangePolicy
    sidecars: bool = gate("SidecarContainers")  # init containers with restartPolicy Always
    sidecar_resize: bool = since(33) | gate("InPlacePodVerticalScaling")  # resizePolicy of init containers
    any_affinity_values: bool = until(32)  # required node affinity may have values that no label can have

    # Rules and texts that are the same for all old pods
    # Tables of pods panic if a status is of an init container that the spec lacks.
    shows_architecture: bool = since(36)  # of a node, behind its kernel's version in tables
    unknown_init_panics: bool = bug("k8s-124906")
    # Evictions write the condition DisruptionTarget in a dry run, and before a conflict (409).
    marks_in_dry_run: bool = bug("k8s-116554")
    # A refused eviction gives numbers of pods as the cause, even if the budget's sync failed.
    refusals_by_counts: bool = bug("k8s-133097")
    empty_budgets_select_none: bool = bug("k8s-119732")  # evictions: budgets with an empty selector
    templates_without_image: bool = bug("k8s-135989")  # image volumes of templates need no reference
    image_mount_paths: bool = until(32)  # mounts of image volumes may not have sub paths
    no_restart_of_init: bool = since(36)  # init containers, but sidecars, have no resize policy with restart
    huge_page_names: bool = since(33)  # errors list them among the resources that a whole pod may have
    pod_resources_wording: bool = since(34)  # not on Windows; "may not" instead of "cannot"
    numbers_aliases: bool = since(30)  # errors of hostAliases have indexes, those of addresses the usual text
    names_sidecars: bool = since(28)  # errors of probes and hooks: "without restartPolicy=Always"
    init_rules_need_policy: bool = since(35)  # init containers with restart rules must have a restart policy
    restart_wording: bool = since(36)  # resize policies: "pod restartPolicy" instead of "restartPolicy"
    short_os_text: bool = since(34)  # the error of an os without a name lacks "cannot be empty"
    host_users_wording: bool = since(34)  # texts name `hostUsers` instead of `pod.Spec.HostUsers`
    host_users_devices: bool = since(34)  # with hostUsers: false, volumeDevices are forbidden
    status_condition_path: bool = since(34)  # errors of conditions are at status, else at metadata
    claim_status_path: bool = bug("k8s-137321")  # errors of resourceClaimStatuses: `name`, not the claim's
    status_user_path: bool = since(34)  # errors of a container's user in the status are at `user`

    # Claims of pods
    nested_claim_sources: bool = until(30) & ~preview("kep3063")  # spec.resourceClaims[].source
    mirrors_may_claim: bool = bug("k8s-132151")  # mirror pods of static pods may name resource claims
    inline_claim_templates: bool = preview("kep3063")  # spec.resourceClaims[].template, instead of a name
    claim_sources_checked: bool = ~only(26)  # names of claims and templates are validated (116576)
    final_claim_names: bool = until(27)  # "POD-CLAIM", the name of a template's claim, is validated

    # Defaults and preparation
    corrects_negative_grace: bool = since(27)  # a negative terminationGracePeriodSeconds becomes 1
    # Host ports of templates with hostNetwork have the container port as default.
    template_host_ports: bool = until(27) | gate("DefaultHostNetworkHostPortsInPodTemplates")
    image_volumes: bool = gate("ImageVolume")  # they get a default pull policy
    # matchLabelKeys and mismatchLabelKeys of affinity terms become part of their selectors.
    merged_affinity: bool = gate("MatchLabelKeysInPodAffinity")
    # matchLabelKeys of spread constraints become part of their selectors.
    merged_constraints: bool = gate("MatchLabelKeysInPodTopologySpread") & gate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge"
    )
    app_armor_fields: bool = since(30)  # AppArmor annotations are copied into fields, with a warning
    generation: bool = since(33)  # metadata.generation is counted

    # Warnings
    port_warnings: bool = since(28)  # of ports that containers share
    port_name_warnings: bool = since(33)  # of names of ports that containers share
    selector_warnings: bool = since(28)  # of affinity terms and spread constraints without a selector
    value_warnings: bool = since(33)  # of values in preferred node affinity that no label can have
    grace_warnings: bool = since(27)  # of negative grace periods
    # Containers without a profile whose AppArmor annotation differs from the pod's profile.
    profile_warnings: bool = since(34)
    hidden_variables: bool = since(28)  # variables that a later one hides; else all with repeated names
    hidden_from_apply: bool = since(30)  # "which may be dropped when using apply"
    address_warnings: bool = since(33)  # of IP addresses that are not in canonical form
    ceph_warnings: bool = since(28)  # cephfs and rbd are deprecated
    git_disabled: bool = since(33)  # gitRepo volumes are "disabled by default in v1.33+"
    old_removals: bool = until(26)  # volumes and seccomp annotations: removal is planned, not done
    overlap_warnings: bool = since(32)  # of files of a volume that hide each other
    sources_repeat: bool = until(33)  # overlaps: a projected source without files has those of the one before

    # Resizes
    resized_by_update: bool = gate("InPlacePodVerticalScaling") & until(31)  # without the subresource
    proposes_resize: bool = gate("InPlacePodVerticalScaling") & until(32)  # status.resize is set to Proposed
    # A change of a pod's QoS class has an error of its own.
    update_keeps_qos: bool = since(27) & until(31) & (since(29) | gate("InPlacePodVerticalScaling"))
    pod_resize: bool = gate("InPlacePodLevelResourcesVerticalScaling")  # spec.resources may change
    init_resize: bool = gate("InPlacePodVerticalScalingInitContainers")  # also of those that are no sidecars
    memory_shrinks: bool = since(34)  # a memory limit may shrink without a restart
    # A refused resize of spec.resources: the text names the gate, and comes after the other errors.
    pod_resize_wording: bool = since(35)

    # Other subresources and the status
    clears_nomination: bool = gate("ClearingNominatedNodeNameAfterBinding")  # a binding does
    split_log_streams: bool = gate("PodLogsQuerySplitStreams")  # parameter stream of logs
    remote_commands_by_websocket: bool = gate("TranslateStreamCloseWebsocketRequests")  # exec and attach
    port_forward_by_websocket: bool = gate("PortForwardWebsockets")
    authorizes_websockets: bool = gate("AuthorizePodWebsocketUpgradeCreatePermission")  # as "create", too
    disruption_condition: bool = gate("PodDisruptionConditions")  # evicted pods get DisruptionTarget
    # The condition PodScheduled of a pod with scheduling gates has a lastTransitionTime.
    dates_gating: bool = fixed("k8s-122636")
    large_users: bool = fixed("k8s-138574")  # user ids of containers in the status may need 32 bits
    checks_bound_node: bool = fixed("k8s-136776")  # a binding's node name is validated
    unhealthy_eviction: bool = unless_off("PDBUnhealthyPodEvictionPolicy")  # unhealthyPodEvictionPolicy


class VolumeFeatures(FeatureTable):
    """The rules of persistent volumes, their claims and classes, and of CSI objects."""

    internal: InternalTypes = _INTERNAL
    claim_shrinks: bool = gate("RecoverVolumeExpansionFailure")  # after a failed expansion, to a smaller size
    attributes_classes: bool = gate("VolumeAttributesClass")
    # CSI drivers with tokenRequests are warned if serviceAccountTokenInSecrets is not set.
    tokens_in_secrets: bool = gate("CSIServiceAccountTokenSecrets")
    immutable_classes: bool = since(36)  # changed storage classes: the usual text of immutable fields
    dates_phases: bool = since(31) | gate("PersistentVolumeLastPhaseTransitionTime")  # of volumes
    plural_status_path: bool = since(34)  # errors at status.allocatedResourceStatuses, not at ...Status
    sources_across_namespaces: bool = gate("CrossNamespaceVolumeDataSource")  # dataSourceRef.namespace
    any_data_source: bool = gate("AnyVolumeDataSource")  # dataSource and dataSourceRef complete each other
    beta_class_warnings: bool = since(28)  # of claims and volumes with the annotation of a storage class
    removed_warnings: bool = since(28)  # of persistent volumes with a removed plugin
    recycle_warnings: bool = since(30)  # of persistent volumes that are recycled
    mount_option_warnings: bool = since(31)  # of persistent volumes with the annotation of mount options
    selinux_mounts: bool = since(27) | gate("SELinuxMountReadWriteOncePod")  # default of seLinuxMount
    counts_change: bool = gate("MutableCSINodeAllocatableCount")  # a CSINode's allocatable may be updated
    any_affinity_values: bool = until(32)  # required node affinity may have values that no label can have
    driver_required_alone: bool = since(35)  # a CSI driver without a name has no second error for it
    limit_scaling: bool = since(36) & gate("VolumeLimitScaling")  # preventPodSchedulingIfMissing
    attachments_checked_whole: bool = since(36)  # by all rules at once, and a changed one as a new one


class AccountFeatures(FeatureTable):
    """Service accounts, their tokens, and what users and nodes may read."""

    token_uid: bool = since(34)  # token requests may name the uid of the account
    checks_token_uid: bool = gate("TokenRequestServiceAccountUIDValidation")
    token_ids: bool = gate("ServiceAccountTokenJTI")
    node_binding: bool = gate("ServiceAccountTokenNodeBinding")  # tokens may be bound to nodes
    pod_node_info: bool = gate("ServiceAccountTokenPodNodeInfo")  # tokens of pods name their node
    checks_node_binding: bool = gate("ServiceAccountTokenNodeBindingValidation")
    invalid_label: bool = since(29)  # legacy tokens whose secret is labelled invalid fail
    certificate_ids: bool = since(32)  # users of certificates have a credential id
    request_header_uid: bool = gate("RemoteRequestHeaderUID")  # X-Remote-Uid to and from extension servers
    node_selectors: bool = gate("AuthorizeNodeWithSelectors")
    claims_by_relation: bool = since(28)  # nodes get the resource claims of their pods only (116254)
    # Nodes read the service accounts of their pods: for credential providers of images, and certificates.
    nodes_ask_for_accounts: bool = since(33)
    nodes_read_accounts: bool = gate("KubeletServiceAccountTokenForCredentialProviders") | (
        since(34) & gate("PodCertificateRequest")
    )
    enforcing_deprecated: bool = since(32)  # annotation kubernetes.io/enforce-mountable-secrets
    # Who writes a binding to a role that there is not reads in the error that the binding was not found.
    missing_roles_as_request: bool = since(32)


class AdmissionFeatures(FeatureTable):
    """Admission plugins, and the policies that configure admission."""

    # Policies
    policy_actions: bool = since(27)  # bindings have validationActions; without them all deny
    parameter_selectors: bool = since(28)  # paramRef has a selector and parameterNotFoundAction
    validating_policies: bool = since(26) & unless_off("ValidatingAdmissionPolicy")
    mutating_policies: bool = since(32) & unless_off("MutatingAdmissionPolicy")  # the plugin runs
    mutates: bool = gate("MutatingAdmissionPolicy")  # its policies are evaluated
    longer_texts: bool = until(33)  # errors of policies repeat the name of the field
    misspells_matching: bool = until(31)  # errors of bindings are at `spec.matchResouces`

    # Finalizers that admission adds
    protects_attributes_classes: bool = since(33) & gate("VolumeAttributesClass")  # VolumeAttributesClasses
    protects_pod_groups: bool = since(36) & gate("GenericWorkload")  # PodGroups

    omits_empty_items: bool = bug("k8s-126146")  # empty lists of validating policies and their bindings
    exempts_reviews: bool = gate("ExcludeAdmissionWebhookVirtualResources")  # no webhooks for review objects
    topology_labels: bool = gate("PodTopologyLabelsAdmission")  # pods get those of their node

    # NodeRestriction
    mirrors_may_claim: bool = bug("k8s-132151")  # nodes may create mirror pods that name resource claims
    nodes_may_set_owners: bool = bug("k8s-133471")  # of their own Node object, in an update
    # Mirror pods may not refer to any API object, by volumes of all kinds; errors have a text of their own.
    checks_all_mirror_references: bool = since(34)
    checks_node_audiences: bool = gate("ServiceAccountNodeAudienceRestriction")  # of tokens that they request
    authorizes_audiences: bool = since(33)  # other audiences than those of volumes may be permitted
    # Nodes get no token while a CSI volume of the pod cannot be resolved, even if RBAC permits the audience.
    unknown_volumes_refuse_tokens: bool = bug("k8s-140607")
    # Nodes may request certificates of kubelets for themselves alone.
    checks_kubelet_requests: bool = ~gate("AllowInsecureKubeletCertificateSigningRequests")

    pod_security_release: int = MINOR  # the latest version of the Pod Security Standards


class KindFeatures(FeatureTable):
    """The rules of kinds without a table of their own."""

    condition_texts: bool = until(33)  # errors of missing fields of conditions: "must be set"
    unknown_component_is_404: bool = since(33)  # an unknown ComponentStatus: 404 instead of 500
    tolerations_path: str = by_release({0: "tolerations.tolerations", 35: "tolerations"})  # of RuntimeClasses
    handlers_required: bool = since(36)  # an empty handler of a RuntimeClass is a missing value
    # A StorageVersionMigration with Succeeded or Failed may not have the condition Running.
    ended_migrations_not_running: bool = until(35)
    alpha_resources: bool = until(31)  # priority of APIServices of resource.k8s.io: that of an alpha group

    # Priority levels and flow schemas
    names_level_type: bool = until(33)  # the text of exempt priority levels begins with "type"
    # An empty type of a priority level or its response is a missing value, not an unsupported one.
    level_types_required: bool = since(36)
    lease_locks_only: bool = since(34)  # default flow schemas of leader election: no Endpoints and ConfigMaps
    exempt_levels: bool = since(28)  # exempt priority levels have shares


class RequestFeatures(FeatureTable):
    """Requests for any resource."""

    # The refusal of an update that would create has the authorizers' reason alone.
    refuses_creation_without_words: bool = until(31)
    # Creating and updating
    # Resources whose updates are validated once, not several times.
    checked_once: frozenset[str] = by_release(
        {
            0: frozenset(),
            35: frozenset(_CHECKED_ONCE_IN_35),
            36: frozenset(_CHECKED_ONCE_IN_35 | _CHECKED_ONCE_IN_36),
        }
    )
    label_key_texts: bool = since(35)  # errors of qualified names call them label keys, and count bytes
    retries_names: bool = gate("RetryGenerateName")  # a generated name that is taken is generated again

    # Deleting
    # A missing object is a 404 even if the request names a uid, not a 409.
    absence_before_uid: bool = since(34)
    # Errors name the objects that cannot be read, and deletions may ignore that
    # (ignoreStoreReadErrorWithClusterBreakingPotential).
    unsafe_deletion: bool = has_flag("AllowUnsafeMalformedObjectDeletion") & gate(
        "AllowUnsafeMalformedObjectDeletion"
    )
    readable_is_conflict: bool = since(37)  # such a deletion of a readable object is a 409, not a 422
    unsafe_dry_runs: bool = since(37)  # such deletions may be a dry run (134037)
    names_first_unreadable: bool = since(37)  # the text of a failed list has the first object's error

    # Watching and selecting
    # A watch at /api/v1/watch/namespaces/NAME looks for Namespaces inside of that namespace, and finds none.
    watches_within_namespace: bool = bug("k8s-125145")
    weighs_selectors: bool = gate("AuthorizeWithSelectors")  # reviews may name selectors
    custom_field_selectors: bool = gate("CustomResourceFieldSelectors")

    # Deletion options, users and errors
    # A deletionTimestamp may move into the past when a deletion's grace period is shortened.
    ends_in_the_past: bool = bug("k8s-122646")
    unreadable_options_are_bad: bool = fixed("k8s-133358")  # DeleteOptions: 400 instead of 500
    constrained_impersonation: bool = gate("ConstrainedImpersonation")
    old_lengths: bool = until(31)  # texts of what is too long: "must have at most"
    missing_user_is_400: bool = since(35)  # impersonation headers without a user: 400 instead of 500
    # Errors that name places in the source have the paths of a build as Go workspace.
    go_workspace_paths: bool = since(30)

    # Discovery, fairness and metrics
    fairness: bool = unless_off("APIPriorityAndFairness")
    connect_verb: bool = since(27)  # metrics: verb CONNECT of exec, logs and proxies (111988)
    # Versions of the aggregated discovery document, best first; may be empty.
    aggregated_discovery: tuple[str, ...] = choose(
        _AGGREGATED_BETA,
        by_release({0: ("v2beta1",), 30: ("v2", "v2beta1")}),
        by_release({0: (), 30: ("v2",)}),
    )

    # Patches, apply and custom resources
    # An object that an update or apply creates keeps the deletionTimestamp that was sent.
    keeps_given_deletion: bool = bug("k8s-138908")
    refuses_duplicates: bool = bug("k8s-121575")  # server-side apply to objects whose lists repeat a key
    whole_patches: bool = fixed("k8s-120327")  # JSON patches may replace and test the object as a whole
    # Custom objects may be created after a deleted definition's objects are gone.
    new_after_cleanup: bool = bug("k8s-137604")
    # A conversion between versions of a custom resource by name only fails without metadata.
    conversion_wants_metadata: bool = bug("k8s-117301")
    applies_while_terminating: bool = bug("k8s-132467")  # creates objects of a definition that is deleted


class HookFeatures(FeatureTable):
    """The names of post-start hooks in health checks; sources in health_checks.py."""

    # The initializer of admission.
    admission: str = by_release(
        {0: "start-kube-apiserver-admission-initializer", 30: "start-apiserver-admission-initializer"}
    )
    groups_first: bool = since(28)  # hooks of API groups precede that of the service `kubernetes`
    control_plane_first: bool = since(31)  # and follow those of leases and tokens
    system_namespaces: bool = since(27)  # start-system-namespaces-controller
    address_repair: bool = since(28)  # start-service-ip-repair-controllers
    old_identities: bool = only(27) | only(28)  # leases that 1.26 made are collected
    local_availability: bool = since(31)  # local and remote APIServices have hooks of their own
    discovery: bool = since(30) | gate("AggregatedDiscoveryEndpoint")  # apiservice-discovery-controller
    discovery_early: bool = since(30)
    coordinated_election: bool = gate("CoordinatedLeaderElection")
    peer_endpoints: bool = gate("UnknownVersionInteroperabilityProxy")
    loopback_check: bool = since(36)  # loopback-serving-certificate, for health and liveness
    storage_readiness: bool = gate("WatchCacheInitializationPostStartHook")
    # start-kubernetes-service-cidr-controller
    service_ranges: bool = since(29) & gate("MultiCIDRServiceAllocator")


class SchemaFeatures(FeatureTable):
    """The definitions and structural schemas of custom resources."""

    status_owns_metadata: bool = since(36)  # a manager of a definition's status may own metadata
    version: Version = VERSION  # decides the types of embedded resources
    expressions: Release = EXPRESSIONS  # decides Kubernetes' CEL libraries
    ratcheting: bool = gate("CRDValidationRatcheting")
    keeps_optional_old_self: bool = bug("k8s-122343")  # optionalOldSelf of rules, with that gate off
    name_formats: bool = since(34)  # k8s-short-name, k8s-long-name
    numeric_formats: bool = since(36)  # int32, int64, float and double are checked
    format_warnings: bool = since(34)  # of formats that are not recognized
    warns_of_numbers: bool = bug("k8s-133901")  # such warnings also of int32, int64, float and double
    counts_items: bool = until(33)  # "must have at most 1 items"
    explains_required: bool = until(33)  # embedded resources: apiVersion and kind "must not be empty"
    schemas_required: bool = until(33)  # the error of a version without a schema says so
    names_rule_fields: bool = until(33)  # errors of rules: "message must", "fieldPath must"
    shows_scalars: bool = since(35)  # errors of rules show a scalar value instead of its type


def _shown_version(version: Version, *, emulated: bool) -> str:
    """Documents name the emulated minor since there is such a thing, before that the release."""
    return f"1.{version.minor}" if emulated else version.git_version


class DocumentFeatures(FeatureTable):
    """The OpenAPI documents and `/version`."""

    version: Version = VERSION
    emulates: bool = since(33)  # `/version` has the emulated version
    shown_version: str = made(_shown_version, VERSION, emulated=since(31))  # in documents
    enums: bool = gate("OpenAPIEnums")  # fields list their values
    cbor: bool = gate("CBORServingAndStorage")  # media types of kube-apiserver's own resources
    element_defaults: bool = until(35)  # v3: items of lists and maps have Go's zero value as default
    kinds_of_document: bool = since(36)  # v3: DeleteOptions and WatchEvent name their group's kinds alone
    # v2 keeps parameters that many operations have in one place (kube-openapi pkg/builder/parameters.go).
    shared_parameters: bool = since(28)
    initial_events: bool = since(27)  # parameter sendInitialEvents
    store_read_errors: bool = since(32)  # parameter ignoreStoreReadErrorWithClusterBreakingPotential
    log_streams: bool = since(32)  # parameter stream of logs
    shard_selectors: bool = since(36)  # parameter shardSelector


class Features(FeatureTable):
    """All features of one API server, by subject."""

    expressions: Release = EXPRESSIONS  # of policies, webhooks and custom resources
    internal: InternalTypes = _INTERNAL
    strict_addresses: bool = gate("StrictIPCIDRValidation")  # addresses and ranges in canonical form only
    pods: PodFeatures = part(PodFeatures)
    services: ServiceFeatures = part(ServiceFeatures)
    volumes: VolumeFeatures = part(VolumeFeatures)
    workloads: WorkloadFeatures = part(WorkloadFeatures)
    devices: DRAFeatures = part(DRAFeatures)
    accounts: AccountFeatures = part(AccountFeatures)
    admission: AdmissionFeatures = part(AdmissionFeatures)
    kinds: KindFeatures = part(KindFeatures)
    requests: RequestFeatures = part(RequestFeatures)
    declarative: DeclarativeFeatures = part(DeclarativeFeatures)
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
