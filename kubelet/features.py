"""The features of the kubelet."""

from enum import Enum
from typing import TypeVar

from kubeskew.apimachinery.features import (
    VERSION,
    FeatureTable,
    bug,
    by_release,
    choose,
    gate,
    made,
    only,
    part,
    since,
    until,
)
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUStateFormats
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryStateFormats
from kubeskew.kubelet.checkpoints.pod_allocations import AllocationForm
from kubeskew.kubelet.sysctls import NAMESPACE_NAMES, SAFE_SYSCTLS

T = TypeVar("T")


class DelegatedToDRA(Enum):
    """The resources of a pod that may be devices of its claim, so that the node need not have them.

    Cluster-level resources pass as well: extended resources that the node does not name. Implicit names of
    device classes are not among them.
    """

    NOTHING = "nothing"  # DRAExtendedResource is off
    UNNAMED = "unnamed"  # 1.34: those that the node's status does not list
    ABSENT = "absent"  # 1.35 (pull request 133784): those of which the node has 0
    MAPPED = "mapped"  # 1.36 (pull request 135725): those that the pod's status maps to requests of its claim


_FETCHED = 'Successfully pulled image "{image}" in {took} ({took} including waiting)'
_EMPTY_ALLOCATE_RESPONSE = {  # 1.35 uses another library
    0: "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}",
    35: "",
}


class EnvironmentFeatures(FeatureTable):
    """The environment variables of containers."""

    cuts_characters: bool = until(33) | bug("k8s-136325")  # to a byte, behind a `$` without a reference
    refuses_binary: bool = bug("k8s-139194")  # containers with a value that is not UTF-8 are not created
    skips_names: bool = until(29)  # keys of `envFrom` that are no C identifiers, with an event
    # The field selector of the services that the kubelet lists (pull request 127316).
    service_selector: str = choose(since(31), "spec.clusterIP!=None", "")


class DRAFaults(FeatureTable):
    """The bugs of metrics, preparation and health in the DRA manager."""

    # The operations whose metric counts failures as successes and successes as failures.
    inverts_errors: tuple[str, ...] = choose(
        bug("k8s-135227"),
        by_release({0: ("PrepareResources",), 34: ("PrepareResources", "UnprepareResources")}),
        (),
    )
    adds_prepared: bool = bug("k8s-140274")  # a claim that is prepared again has its devices twice
    # The health of a device is looked up by the pod's own name for a claim, not by the claim's name.
    health_by_pod_claim_name: bool = bug("k8s-134875")


class PodLevelFeatures(FeatureTable):
    """The resources of whole pods (spec.resources) in the CPU, memory and allocation managers."""

    managed: bool = gate("PodLevelResourceManagers") & gate("PodLevelResources")  # CPUs and memory by pod
    noted: bool = gate("InPlacePodLevelResourcesVerticalScaling")  # checkpoints have the pod's own resources

    # After a restart of the kubelet, a pod that is admitted again gets its resources a second time
    reallocates_cpus: bool = bug("k8s-141041")
    reallocates_memory: bool = bug("k8s-141077")


class EventTexts(FeatureTable):
    """The messages of container events, with `{name}`, `{image}`, `{took}` and `{size}`."""

    # The image was present already.
    pulled: str = by_release(
        {
            0: 'Container image "{image}" already present on machine',
            35: 'Container image "{image}" already present on machine and can be accessed by the pod',
        }
    )
    # With `{kind}` and `{error}`; pkg/kubelet/prober/prober.go.
    probe_errored: str = by_release(
        {
            0: "{kind} probe errored: {error}",
            33: "{kind} probe errored and resulted in unknown state: {error}",
        }
    )
    repeats_pull_error: bool = since(32)  # a container that waits to pull again says why it failed before
    # The image was pulled (pkg/kubelet/images/image_manager.go).
    fetched: str = by_release({0: _FETCHED, 30: _FETCHED + ". Image size: {size} bytes."})
    created: str = by_release(
        {0: "Created container {name}", 32: "Created container: {name}", 35: "Container created"}
    )
    started: str = by_release({0: "Started container {name}", 35: "Container started"})


class DeclaredFeatures(FeatureTable):
    """The features that a node declares in its status (component-helpers/nodedeclaredfeatures)."""

    declares: bool = gate("NodeDeclaredFeatures")
    web_sockets: bool = since(36) & gate("ExtendWebSocketsToKubelet")
    # Pods with exclusive CPUs are resized under the CPU manager's policy static; under none in any case.
    cpu_resize: bool = only(35)
    exclusive_cpu_resize: bool = only(35) & gate("InPlacePodVerticalScalingExclusiveCPUs")
    pod_level_resize: bool = gate("InPlacePodLevelResourcesVerticalScaling")
    init_container_resize: bool = since(36) & gate("InPlacePodVerticalScalingInitContainers")
    restarts_all: bool = gate("RestartAllContainersOnContainerExits")


class AdmissionFeatures(FeatureTable):
    """The admission of pods on a node."""

    delegated_to_dra: DelegatedToDRA = choose(
        gate("DRAExtendedResource"),
        choose(
            bug("k8s-135669"),
            choose(only(35), DelegatedToDRA.ABSENT, DelegatedToDRA.UNNAMED),
            DelegatedToDRA.MAPPED,
        ),
        DelegatedToDRA.NOTHING,
    )
    # A pod that is terminating when it is rejected is never deleted.
    forgets_rejected: bool = bug("k8s-118497")
    # A restarted kubelet admits ended pods again, and marks them failed if there is no room.
    readmits_ended: bool = bug("k8s-126343")
    affinity_by_cached_node: bool = bug("k8s-134445")  # node affinity: by the informer's node, without a GET
    # Pods are admitted and resized although the checkpoint of their allocation cannot be written.
    admits_without_checkpoint: bool = bug("k8s-141206")
    refuses_sidecars: bool = since(28) & ~gate("SidecarContainers")
    # Nodes whose status does not report the feature refuse pods with supplementalGroupsPolicy Strict.
    requires_groups_policy: bool = since(33)
    # Pods are refused that need a feature which the node does not declare.
    lacks_restarts_of_all: bool = gate("NodeDeclaredFeatures") & ~gate("RestartAllContainersOnContainerExits")
    refuses_pod_level_resources: bool = since(34) & ~gate("PodLevelResources")
    overlooks_sidecar_ports: bool = bug("k8s-132040")  # host ports of sidecars count as free
    safe_sysctls: frozenset[str] = by_release(SAFE_SYSCTLS)
    # The names of the IPC and network namespaces in errors.
    sysctl_namespaces: tuple[str, str] = by_release(NAMESPACE_NAMES)


class ConfigurationFeatures(FeatureTable):
    """The fields and defaults of KubeletConfiguration."""

    higher_limits: bool = since(27)  # of requests and events a second
    names_runtime_endpoint: bool = since(27)
    limits_age_of_images: bool = since(29)
    follows_logs: bool = since(30)  # the directory of pods' logs, and the workers that rotate them
    fails_on_cgroup_v1: bool | None = by_release({0: None, 31: False, 35: True})
    configures_back_off: bool = since(32)
    limits_back_off: bool = gate("KubeletCrashLoopBackOffMax")
    merges_eviction_settings: bool = since(33)
    verifies_pulled_images: bool = gate("KubeletEnsureSecretPulledImages")
    reserves_memory: bool = since(36)


class VolumeFeatures(FeatureTable):
    """Volumes as directories, and what containers get of them, in runtimes that run processes."""

    images: bool = gate("ImageVolume")
    image_subpaths: bool = since(33)  # subPath of mounts of image volumes; before, it does nothing
    image_mounts_first: bool = only(31)  # mounts of image volumes are not looked at further
    recursive_read_only: bool = gate("RecursiveReadOnlyMounts")
    # Links at the top of volumes with tokens belong to the pod's user, too.
    owns_links: bool = since(36)
    hostname_override: bool = gate("HostnameOverride")
    trust_bundle_version: str = choose(
        gate("ClusterTrustBundleProjection"), by_release({0: "v1alpha1", 33: "v1beta1", 37: "v1"}), ""
    )
    # The API of requests for pods' certificates; they prove the possession of the key in two forms.
    pod_certificate_version: str = choose(
        gate("PodCertificateRequest"), by_release({0: "v1alpha1", 35: "v1beta1", 37: "v1"}), ""
    )
    pod_certificate_stubs: bool = since(36)
    orphaned_subpaths_alike: bool = until(35)  # errors about them are worded as those about volumes


class ContainerFeatures(FeatureTable):
    """The security contexts and resources that containers are started with."""

    checks_user_range: bool = since(34)  # runAsNonRoot refuses an image's user that is no valid one
    knows_groups_policy: bool = since(31)  # supplementalGroupsPolicy; its gate decides about statuses alone
    stop_signals: bool = gate("ContainerStopSignals")
    pod_level_limits: bool = gate("PodLevelResources")
    # Sidecars are killed no sooner than the regular containers when memory is short.
    protects_sidecars: bool = since(32) & gate("SidecarContainers")
    oom_score_by_allocation: bool = until(31) & gate("InPlacePodVerticalScaling")
    unlimited_exclusive_cpus: bool = gate("DisableCPUQuotaWithExclusiveCPUs")


class SidecarProbes(FeatureTable):
    """The bugs of startup probes of sidecars."""

    skips_ended: bool = bug("k8s-133072")  # restartPolicy Never: a sidecar that ended is not probed again
    # A sidecar that started before a restart of the kubelet counts as not started.
    lost_at_restart: bool = bug("k8s-137146") & ~gate("ChangeContainerStatusOnKubeletRestart")


class KubeletFeatures(FeatureTable):
    """All features of one kubelet; formats, gRPC versions and texts of DRA are in kubelet/dra/features.py."""

    version: Version = VERSION
    events: EventTexts = part(EventTexts)
    environment: EnvironmentFeatures = part(EnvironmentFeatures)
    volumes: VolumeFeatures = part(VolumeFeatures)
    container: ContainerFeatures = part(ContainerFeatures)

    # Pods and their status
    follows_container_events: bool = gate("EventedPLEG")  # of a runtime that speaks CRI
    knows_sleep_hooks: bool = since(29)
    runs_sleep_hooks: bool = gate("PodLifecycleSleepAction")  # else they succeed at once
    sidecars: bool = gate("SidecarContainers")  # init containers with restartPolicy Always
    container_restart_rules: bool = gate("ContainerRestartRules")
    # Rules of a container may have all of its pod's containers restart.
    restarts_all: bool = gate("ContainerRestartRules") & gate("RestartAllContainersOnContainerExits")
    orders_termination: bool = since(29) & gate("SidecarContainers")  # sidecars end after all others
    restarts_changed_sidecars: bool = since(32)
    # The condition of pods whose sandbox is ready; up to 1.27 under its first name.
    ready_to_start_condition: str = choose(
        gate("PodReadyToStartContainersCondition"),
        "PodReadyToStartContainers",
        choose(gate("PodHasNetworkCondition"), "PodHasNetwork", ""),
    )
    host_ips: bool = gate("PodHostIPs")
    rejected_pods_keep_qos_class: bool = since(32)
    observed_generation: bool = gate("PodObservedGenerationTracking")
    actual_resources: bool = gate("InPlacePodVerticalScaling")  # containerStatuses[].resources
    # containerStatuses[].allocatedResources.
    allocated_resources: bool = gate("InPlacePodVerticalScaling") & (
        ~only(32) | gate("InPlacePodVerticalScalingAllocatedStatus")
    )
    resizes: bool = gate("InPlacePodVerticalScaling")
    resize_conditions: bool = since(33)  # PodResizePending and PodResizeInProgress, else status.resize
    volume_mount_statuses: bool = gate("RecursiveReadOnlyMounts")
    supplemental_groups_policy: bool = gate("SupplementalGroupsPolicy")  # in the node's status
    runtime_handlers: bool = since(30) & (gate("RecursiveReadOnlyMounts") | gate("UserNamespacesSupport"))
    handlers_say_user_namespaces: bool = since(31)
    declared: DeclaredFeatures = part(DeclaredFeatures)
    kube_proxy_version: bool = ~gate("DisableNodeKubeProxyVersion")  # in the node's status
    # The first and the longest backoff of crashing containers. With KubeletCrashLoopBackOffMax the longest is
    # the configuration's, 5 minutes by default.
    backoff_seconds: tuple[float, float] = choose(
        gate("ReduceDefaultCrashLoopBackOffDecay"),
        choose(gate("KubeletCrashLoopBackOffMax"), (1.0, 300.0), (1.0, 60.0)),
        (10.0, 300.0),
    )

    # Dynamic resource allocation
    # Plugins register, and a manager has the pods' claims and their checkpoint.
    dynamic_resources: bool = gate("DynamicResourceAllocation")
    extended_resources: bool = gate("DRAExtendedResource")
    admission: AdmissionFeatures = part(AdmissionFeatures)
    sidecar_probes: SidecarProbes = part(SidecarProbes)
    workload_resource_claims: bool = gate("DRAWorkloadResourceClaims")  # claims of pod groups
    optional_node_operations: bool = gate("DRAOptionalNodeOperations")
    reports_failed_preparation: bool = ~bug("k8s-118578")  # by an event
    # Claims that a driver need not prepare, in its answers and in the checkpoint.
    dra_lists_skipped: bool = since(37)
    # The health of devices of claims in pods' statuses.
    dra_reports_health: bool = gate("ResourceHealthStatus") & since(34)
    dra_validates_first: bool = since(34)  # all claims of a pod are checked before any is cached
    dra_faults: DRAFaults = part(DRAFaults)
    # A claim is written to the checkpoint after drivers have prepared it, not before.
    dra_notes_late: bool = bug("k8s-116411")
    dra_ignores_claim_uid: bool = bug("k8s-131513")  # a new claim counts as the cached one of its name
    # After a claim that another pod has prepared already, a pod's other claims are skipped.
    dra_stops_at_prepared: bool = bug("k8s-135901")
    # Unpreparing reads claims from the pod's status, not from the cache.
    dra_unprepares_by_status: bool = bug("k8s-139772")
    # Deleting a pod unprepares a claim that it has not prepared, though another pod uses it.
    dra_unprepares_for_non_users: bool = bug("k8s-140212")
    # Containers get the devices of implicit names, deviceclass.resource.kubernetes.io/…; before that they are
    # prepared all the same (GetResources in pkg/kubelet/cm/dra/manager.go, 1.34 and 1.35).
    dra_injects_implicit: bool = since(35)
    dra_shares_unpreparing: bool = bug("k8s-140527")  # a claim may get a user while it is unprepared

    # Device plugins
    device_plugin_cdi: bool = since(31) | gate("DevicePluginCDIDevices")  # answers may have CDI devices
    # Devices of an Allocate call under way count as free.
    forgets_pending_devices: bool = bug("k8s-137534")
    device_plugins_apart: bool = since(37)  # a second plugin for a resource outlives the first
    # Plugins get no call for resources that the pod's status maps to its claim.
    mapped_resources_are_claims: bool = gate("DRAExtendedResource") & since(35)
    empty_allocate_response: str = by_release(_EMPTY_ALLOCATE_RESPONSE)  # as Go prints it
    resource_health: bool = gate("ResourceHealthStatus")  # in pods' statuses
    # Changed health updates the first pod with a device of that name, also of another resource.
    health_by_device_name: bool = bug("k8s-140323")

    # PodResources API
    pod_resources_get: bool = gate("KubeletPodResourcesGet")
    pod_resources_dynamic_resources: bool = gate("KubeletPodResourcesDynamicResources")
    # List has active pods only.
    pod_resources_list_active_pods: bool = gate("KubeletPodResourcesListUseActivePods")
    pod_resources_of_sidecars: bool = gate("SidecarContainers") & since(30)
    pod_resources_of_shares: bool = since(35)  # ids of shares of devices
    pod_resources_limited: bool = since(27)  # calls per second
    resource_health_message: bool = gate("ResourceHealthStatusMessage")

    # Server
    configuration: ConfigurationFeatures = part(ConfigurationFeatures)
    # Authorization of subresources for pods, configz and healthz.
    fine_grained_authz: bool = gate("KubeletFineGrainedAuthz")
    refuses_by_subresources: bool = since(32)  # errors name all subresources that would permit the request
    swap_metrics: bool = since(28)
    stable_resource_metrics: bool = since(29)  # metrics of /metrics/resource

    # Checkpoints
    cpu_state: CPUStateFormats = by_release(
        {
            0: CPUStateFormats(2, (1, 2)),
            36: choose(
                gate("PodLevelResourceManagers"),
                CPUStateFormats(3, (3, 2, 1), pods=True),
                CPUStateFormats(2, (2, 1)),
            ),
            37: made(CPUStateFormats, 4, (4, 3, 2), "default CPU set", pods=gate("PodLevelResourceManagers")),
        }
    )
    # None without a memory manager.
    memory_state: MemoryStateFormats | None = by_release(
        {
            0: choose(gate("MemoryManager"), MemoryStateFormats(1, (1,)), None),
            32: MemoryStateFormats(1, (1,)),
            36: choose(
                gate("PodLevelResourceManagers"),
                MemoryStateFormats(2, (2, 1), pods=True),
                MemoryStateFormats(1, (1,)),
            ),
            37: made(MemoryStateFormats, 3, (3, 2, 1), pods=gate("PodLevelResourceManagers")),
        }
    )
    pod_level: PodLevelFeatures = part(PodLevelFeatures)
    # The form of the files of in-place resizing; None for no files.
    allocation_form: AllocationForm | None = choose(
        gate("InPlacePodVerticalScaling"),
        by_release(
            {
                0: AllocationForm.STRUCTS,
                32: AllocationForm.TEXT,
                33: AllocationForm.POD_ENTRIES,
                35: AllocationForm.POD_LEVEL,
            }
        ),
        None,
    )
    # An allocation without an amount of CPU or memory is stored with 0.
    restores_missing_as_zero: bool = bug("k8s-117589")

    # Seconds between the disconnection of a driver and the deletion of its ResourceSlices.
    wiping_delay_seconds: float = choose(since(33), 30.0, 0.0)
