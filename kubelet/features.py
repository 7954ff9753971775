"""The differences between kubelets of different versions and gates: one table, read at construction."""

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
    preview,
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
    """Names the resources of a pod that may be devices of its claim, so that the node need not have them.

    Cluster-level resources pass as well: extended resources that the node does not name. Implicit names of
    device classes are not among them.
    """

    NOTHING = "nothing"  # DRAExtendedResource is off
    UNNAMED = "unnamed"  # 1.34: whatever the node does not name
    ABSENT = "absent"  # 1.35 (pull request 133784): whatever it has none of
    MAPPED = "mapped"  # 1.36 (pull request 135725): what the pod's status maps to requests of its claim


_FETCHED = 'Successfully pulled image "{image}" in {took} ({took} including waiting)'
_EMPTY_ALLOCATE_RESPONSE = {  # since 1.35 by another library
    0: "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}",
    35: "",
}


class EnvironmentFeatures(FeatureTable):
    """Decides which variables a container's environment has, and what becomes of values that are no UTF-8."""

    cuts_characters: bool = until(33) | bug("k8s-136325")  # behind a `$` that begins no reference
    refuses_binary: bool = bug("k8s-139194")  # a string of gRPC has to be UTF-8
    skips_names: bool = until(29)  # of `envFrom` those that are not like a program's, with an event
    # of the services that the kubelet lists (pull request 127316)
    service_selector: str = choose(since(31), "spec.clusterIP!=None", "")


class DRAFaults(FeatureTable):
    """Decides what the DRA manager of a release gets wrong."""

    # The errors of these operations, in their metric.
    inverts_errors: tuple[str, ...] = choose(
        bug("k8s-135227"),
        by_release({0: ("PrepareResources",), 34: ("PrepareResources", "UnprepareResources")}),
        (),
    )
    # what a driver prepares once more, to what it has prepared before
    adds_prepared: bool = bug("k8s-140274")
    health_by_entry: bool = bug("k8s-134875")  # the name that a pod has for a claim is taken for the claim's


class PodLevelFeatures(FeatureTable):
    """Decides what managers do with pods that ask for resources as a whole.

    `managed`: they give them any. `noted`: the kubelet keeps what a pod was given as a whole.
    `reallocates_cpus` and `reallocates_memory`: a pod that is admitted again after a restart of the kubelet
    is given its resources once more.
    """

    managed: bool = gate("PodLevelResourceManagers") & gate("PodLevelResources")
    noted: bool = gate("InPlacePodLevelResourcesVerticalScaling")
    reallocates_cpus: bool = bug("k8s-141041")
    reallocates_memory: bool = bug("k8s-141077")


class EventTexts(FeatureTable):
    """Messages of the container events, with `{name}`, `{image}`, `{took}` and `{size}`."""

    # Of an image that was there already.
    pulled: str = by_release(
        {
            0: 'Container image "{image}" already present on machine',
            35: 'Container image "{image}" already present on machine and can be accessed by the pod',
        }
    )
    # pkg/kubelet/images/image_manager.go
    fetched: str = by_release({0: _FETCHED, 30: _FETCHED + ". Image size: {size} bytes."})
    created: str = by_release(
        {0: "Created container {name}", 32: "Created container: {name}", 35: "Container created"}
    )
    started: str = by_release({0: "Started container {name}", 35: "Container started"})


class AdmissionFeatures(FeatureTable):
    """Decides which pods a node takes, and what becomes of those that it refuses."""

    delegated_to_dra: DelegatedToDRA = choose(
        gate("DRAExtendedResource"),
        choose(
            bug("k8s-135669"),
            choose(only(35), DelegatedToDRA.ABSENT, DelegatedToDRA.UNNAMED),
            DelegatedToDRA.MAPPED,
        ),
        DelegatedToDRA.NOTHING,
    )
    # pods that it refuses when they are deleted already: their deletion never ends
    forgets_rejected: bool = bug("k8s-118497")
    # a restarted kubelet admits pods that have ended, and fails those without room
    readmits_ended: bool = bug("k8s-126343")
    by_cached_node: bool = bug("k8s-134445")  # affinity is judged by the node as it was, without another look
    # pods are taken and resized though it cannot be written what they were given
    goes_on_unwritten: bool = bug("k8s-141206")
    # the gate of sidecars is off in a release that knows them
    refuses_sidecars: bool = since(28) & ~gate("SidecarContainers")
    # host ports of sidecars count as free, as for the scheduler
    overlooks_sidecar_ports: bool = bug("k8s-132040")
    safe_sysctls: frozenset[str] = by_release(SAFE_SYSCTLS)
    # how errors call those of IPC and network
    sysctl_namespaces: tuple[str, str] = by_release(NAMESPACE_NAMES)


class SidecarProbes(FeatureTable):
    """Decides when a kubelet loses sight of the startup probe of a sidecar."""

    given_up: bool = bug("k8s-133072")  # of one found ended, if its pod is never restarted
    # of one that had started before the kubelet restarted
    forgotten: bool = bug("k8s-137146") & ~gate("ChangeContainerStatusOnKubeletRestart")


class KubeletFeatures(FeatureTable):
    """The kubelet's version-dependent decisions."""

    version: Version = VERSION
    events: EventTexts = part(EventTexts)
    environment: EnvironmentFeatures = part(EnvironmentFeatures)
    sidecars: bool = gate("SidecarContainers")  # init containers with restartPolicy Always
    container_restart_rules: bool = gate("ContainerRestartRules")
    ready_to_start_condition: bool = gate("PodReadyToStartContainersCondition")
    host_ips: bool = gate("PodHostIPs")
    observed_generation: bool = gate("PodObservedGenerationTracking")
    actual_resources: bool = gate("InPlacePodVerticalScaling")
    # A gate of its own decided in 1.32, and none since.
    allocated_resources: bool = gate("InPlacePodVerticalScaling") & (
        ~only(32) | gate("InPlacePodVerticalScalingAllocatedStatus")
    )
    resizes: bool = gate("InPlacePodVerticalScaling")
    resize_conditions: bool = since(33)  # tell what becomes of a resize; before 1.33 status.resize does
    volume_mount_statuses: bool = gate("RecursiveReadOnlyMounts")
    kube_proxy_version: bool = ~gate("DisableNodeKubeProxyVersion")
    # first, longest
    backoff_seconds: tuple[float, float] = choose(
        gate("ReduceDefaultCrashLoopBackOffDecay"), (1.0, 60.0), (10.0, 300.0)
    )
    dynamic_resources: bool = gate("DynamicResourceAllocation")
    extended_resources: bool = gate("DRAExtendedResource")
    admission: AdmissionFeatures = part(AdmissionFeatures)
    sidecar_probes: SidecarProbes = part(SidecarProbes)
    workload_resource_claims: bool = gate("DRAWorkloadResourceClaims")
    optional_node_operations: bool = gate("DRAOptionalNodeOperations")
    reports_failed_preparation: bool = ~bug("k8s-118578")  # by an event
    # KEP-3063 as drafted: plugins are told the UID of a claim alone
    drafted_claims: bool = preview("kep3063")
    dra_registers_plugins: bool = gate("DynamicResourceAllocation")
    dra_lists_skipped: bool = since(37)  # claims that a driver need not prepare, in answers and checkpoint
    # in pods' statuses, of devices of claims
    dra_reports_health: bool = gate("ResourceHealthStatus") & since(34)
    # drivers do, through the API; before, their own controllers allocate
    dra_publishes_slices: bool = gate("DynamicResourceAllocation") & since(31)
    # 1.30 and 1.29+kep4381: drivers tell the kubelet, which publishes slices
    dra_asks_for_resources: bool = gate("DynamicResourceAllocation") & (only(30) | preview("kep4381"))
    # KEP-4381 as drafted: what drivers tell has counters and metadata
    semantic_parameters: bool = preview("kep4381")
    dra_validates_first: bool = since(34)  # checks all claims of a pod before it remembers any
    dra_faults: DRAFaults = part(DRAFaults)
    # a claim comes into the checkpoint when drivers have prepared it, not before
    dra_notes_late: bool = bug("k8s-116411") | preview("kep4381")
    dra_trusts_names: bool = bug("k8s-131513")  # takes a new claim for the one of its name that it holds
    # at a pod's first claim that another has prepared, it leaves out all others
    dra_stops_at_prepared: bool = bug("k8s-135901")
    # what the pod's status names, not what the kubelet holds for it
    dra_unprepares_by_status: bool = bug("k8s-139772")
    dra_unprepares_for_strangers: bool = bug("k8s-140212")  # a claim that the pod never got to use
    dra_shares_unpreparing: bool = bug("k8s-140527")  # a claim that is being unprepared gets a new user
    # device plugins may answer with CDI devices
    device_plugin_cdi: bool = since(31) | gate("DevicePluginCDIDevices")
    # those for which a plugin is being asked may be given again
    forgets_pending_devices: bool = bug("k8s-137534")
    device_plugins_apart: bool = since(37)  # distinguishes two plugins for one resource
    # plugins are not asked for what the pod's status maps to its claim
    mapped_resources_are_claims: bool = gate("DRAExtendedResource") & since(35)
    empty_allocate_response: str = by_release(_EMPTY_ALLOCATE_RESPONSE)  # how Go prints it
    resource_health: bool = gate("ResourceHealthStatus")  # reported in pods' statuses
    # whoever has a device of that name is told, of whatever resource
    health_by_name: bool = bug("k8s-140323")
    pod_resources_get: bool = gate("KubeletPodResourcesGet")
    pod_resources_dynamic_resources: bool = gate("KubeletPodResourcesDynamicResources")
    # counts active pods only
    pod_resources_list_active_pods: bool = gate("KubeletPodResourcesListUseActivePods")
    pod_resources_of_sidecars: bool = gate("SidecarContainers") & since(30)
    pod_resources_of_shares: bool = since(35)
    pod_resources_limited: bool = since(27)  # in calls per second
    resource_health_message: bool = gate("ResourceHealthStatusMessage")
    # the server has separate subresources for pods, configz, healthz
    fine_grained_authz: bool = gate("KubeletFineGrainedAuthz")
    refuses_by_subresources: bool = since(32)  # and names all that would have allowed it
    swap_metrics: bool = since(29)
    stable_resource_metrics: bool = since(29)  # metrics of /metrics/resource
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
    # None without a memory manager
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
    # of the files of in-place resizing; None keeps none
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
    # an allocation without an amount of CPU or memory is stored with 0
    restores_missing_as_zero: bool = bug("k8s-117589")
    # seconds from a driver's leaving to the deletion of its slices
    wiping_delay_seconds: float = choose(since(33), 30.0, 0.0)

    @property
    def keeps_claims(self) -> bool:
        """Returns whether the kubelet has a manager of claims, and so their checkpoint."""
        classic = self.drafted_claims or not self.dra_publishes_slices
        return self.dynamic_resources or (self.dra_registers_plugins and classic)
