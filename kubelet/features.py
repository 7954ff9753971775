"""The differences between kubelets of different versions and gates: one table, read at construction."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUStateFormats
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryStateFormats
from kubeskew.kubelet.checkpoints.pod_allocations import AllocationForm
from kubeskew.kubelet.sysctls import namespace_names, safe_sysctls

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


_CREATED = {0: "Created container {name}", 32: "Created container: {name}", 35: "Container created"}
_STARTED = {0: "Started container {name}", 35: "Container started"}
_PULLED = {
    0: 'Container image "{image}" already present on machine',
    35: 'Container image "{image}" already present on machine and can be accessed by the pod',
}
_FETCHED = {  # pkg/kubelet/images/image_manager.go
    0: 'Successfully pulled image "{image}" in {took} ({took} including waiting)',
    30: 'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {size} bytes.',
}

_EMPTY_ALLOCATE_RESPONSE = {  # since 1.35 by another library
    0: "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}",
    35: "",
}


def _since(table: dict[int, T], minor: int) -> T:
    """Returns the entry of the newest minor that is not newer than `minor`."""
    return table[max(first for first in table if first <= minor)]


class EnvironmentFeatures(NamedTuple):
    """Decides which variables a container's environment has, and what becomes of values that are no UTF-8."""

    cuts_characters: bool = False  # behind a `$` that begins no reference
    refuses_binary: bool = False  # a string of gRPC has to be UTF-8
    skips_names: bool = False  # of `envFrom` those that are not like a program's, with an event
    service_selector: str = ""  # of the services that the kubelet lists (pull request 127316)

    @classmethod
    def of(cls, gates: FeatureGates) -> "EnvironmentFeatures":
        bugs = gates.bugs
        return cls(
            cuts_characters=gates.version.minor <= 33 or bugs.present("k8s-136325"),
            refuses_binary=bugs.present("k8s-139194"),
            skips_names=gates.version.minor <= 29,  # KEP-4369 took that away, whatever its gate says
            service_selector="spec.clusterIP!=None" if gates.version.minor >= 31 else "",
        )


class DRAFaults(NamedTuple):
    """Decides what the DRA manager of a release gets wrong."""

    inverts_errors: tuple[str, ...] = ()  # of these operations, in their metric; up to 1.33 of one
    adds_prepared: bool = False  # what a driver prepares once more, to what it has prepared before
    health_by_entry: bool = False  # the name that a pod has for a claim is taken for the claim's

    @classmethod
    def of(cls, gates: FeatureGates) -> "DRAFaults":
        bugs = gates.bugs
        operations = ("PrepareResources", "UnprepareResources")[: 1 if gates.version.minor <= 33 else 2]
        return cls(
            inverts_errors=operations if bugs.present("k8s-135227") else (),
            adds_prepared=bugs.present("k8s-140274"),
            health_by_entry=bugs.present("k8s-134875"),
        )


class PodLevelFeatures(NamedTuple):
    """Decides what managers do with pods that ask for resources as a whole.

    `managed`: they give them any. `noted`: the kubelet keeps what a pod was given as a whole.
    `reallocates_cpus` and `reallocates_memory`: a pod that is admitted again after a restart of the kubelet
    is given its resources once more.
    """

    managed: bool = False
    noted: bool = False
    reallocates_cpus: bool = False
    reallocates_memory: bool = False

    @classmethod
    def of(cls, gates: FeatureGates) -> "PodLevelFeatures":
        """Returns the decisions for a kubelet with these gates."""
        return cls(
            managed=gates.enabled("PodLevelResourceManagers") and gates.enabled("PodLevelResources"),
            noted=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
            reallocates_cpus=gates.bugs.present("k8s-141041"),
            reallocates_memory=gates.bugs.present("k8s-141077"),
        )


@dataclass(frozen=True, slots=True)
class EventTexts:
    """Messages of the container events, with `{name}`, `{image}`, `{took}` and `{size}`."""

    pulled: str  # the image was there already
    fetched: str
    created: str
    started: str


class AdmissionFeatures(NamedTuple):
    """Decides which pods a node takes, and what becomes of those that it refuses."""

    delegated_to_dra: DelegatedToDRA
    forgets_rejected: bool  # pods that it refuses when they are deleted already: their deletion never ends
    readmits_ended: bool  # a restarted kubelet admits pods that have ended, and fails those without room
    by_cached_node: bool  # affinity is judged by the node as it was, without another look
    goes_on_unwritten: bool  # pods are taken and resized though it cannot be written what they were given
    refuses_sidecars: bool  # the gate of sidecars is off in a release that knows them
    overlooks_sidecar_ports: bool  # host ports of sidecars count as free, as for the scheduler
    safe_sysctls: frozenset[str]
    sysctl_namespaces: tuple[str, str]  # how errors call those of IPC and network

    @classmethod
    def of(cls, minor: int, gates: FeatureGates) -> "AdmissionFeatures":
        """Returns the decisions for a kubelet with these gates."""
        bugs, extended = gates.bugs, gates.enabled("DRAExtendedResource")
        return cls(
            delegated_to_dra=_delegated_to_dra(minor, gates) if extended else DelegatedToDRA.NOTHING,
            forgets_rejected=bugs.present("k8s-118497"),
            readmits_ended=bugs.present("k8s-126343"),
            by_cached_node=bugs.present("k8s-134445"),
            goes_on_unwritten=bugs.present("k8s-141206"),
            refuses_sidecars=minor >= 28 and not gates.enabled("SidecarContainers"),
            overlooks_sidecar_ports=bugs.present("k8s-132040"),
            safe_sysctls=safe_sysctls(minor),
            sysctl_namespaces=namespace_names(minor),
        )


class SidecarProbes(NamedTuple):
    """Decides when a kubelet loses sight of the startup probe of a sidecar."""

    given_up: bool = False  # of one found ended, if its pod is never restarted
    forgotten: bool = False  # of one that had started before the kubelet restarted

    @classmethod
    def of(cls, gates: FeatureGates) -> "SidecarProbes":
        """Returns the decisions for a kubelet with these gates."""
        kept = gates.enabled("ChangeContainerStatusOnKubeletRestart")
        return cls(gates.bugs.present("k8s-133072"), gates.bugs.present("k8s-137146") and not kept)


@dataclass(frozen=True, slots=True)
class KubeletFeatures:
    """The kubelet's version-dependent decisions."""

    version: Version
    events: EventTexts
    environment: EnvironmentFeatures
    sidecars: bool  # init containers with restartPolicy Always
    container_restart_rules: bool
    ready_to_start_condition: bool
    host_ips: bool
    observed_generation: bool
    actual_resources: bool
    allocated_resources: bool
    resizes: bool
    resize_conditions: bool  # tell what becomes of a resize; before 1.33 status.resize does
    volume_mount_statuses: bool
    kube_proxy_version: bool
    backoff_seconds: tuple[float, float]  # first, longest
    dynamic_resources: bool
    extended_resources: bool
    admission: AdmissionFeatures
    sidecar_probes: SidecarProbes
    workload_resource_claims: bool
    optional_node_operations: bool
    tells_failed_preparation: bool  # by an event
    drafted_claims: bool  # KEP-3063 as drafted: plugins are told the UID of a claim alone
    dra_registers_plugins: bool
    dra_lists_skipped: bool  # claims that a driver need not prepare, in answers and checkpoint
    dra_reports_health: bool  # in pods' statuses, of devices of claims
    dra_publishes_slices: bool  # drivers do, through the API; before, their own controllers allocate
    dra_asks_for_resources: bool  # 1.30 and 1.29+kep4381: drivers tell the kubelet, which publishes slices
    semantic_parameters: bool  # KEP-4381 as drafted: what drivers tell has counters and metadata
    dra_validates_first: bool  # checks all claims of a pod before it remembers any
    dra_faults: DRAFaults
    dra_notes_late: bool  # a claim comes into the checkpoint when drivers have prepared it, not before
    dra_trusts_names: bool  # takes a new claim for the one of its name that it holds
    dra_stops_at_prepared: bool  # at a pod's first claim that another has prepared, it leaves out all others
    dra_unprepares_by_status: bool  # what the pod's status names, not what the kubelet holds for it
    dra_unprepares_for_strangers: bool  # a claim that the pod never got to use
    dra_shares_unpreparing: bool  # a claim that is being unprepared gets a new user
    device_plugin_cdi: bool  # device plugins may answer with CDI devices
    forgets_pending_devices: bool  # those for which a plugin is being asked may be given again
    device_plugins_apart: bool  # distinguishes two plugins for one resource
    mapped_resources_are_claims: bool  # plugins are not asked for what the pod's status maps to its claim
    empty_allocate_response: str  # how Go prints it
    resource_health: bool  # reported in pods' statuses
    health_by_name: bool  # whoever has a device of that name is told, of whatever resource
    pod_resources_get: bool
    pod_resources_dynamic_resources: bool
    pod_resources_list_active_pods: bool  # counts active pods only
    pod_resources_of_sidecars: bool
    pod_resources_of_shares: bool
    pod_resources_limited: bool  # in calls per second
    resource_health_message: bool
    fine_grained_authz: bool  # the server has separate subresources for pods, configz, healthz
    refuses_by_subresources: bool  # and names all that would have allowed it
    swap_metrics: bool
    stable_resource_metrics: bool  # metrics of /metrics/resource
    cpu_state: CPUStateFormats
    memory_state: MemoryStateFormats | None  # None without a memory manager
    pod_level: PodLevelFeatures
    allocation_form: AllocationForm | None  # of the files of in-place resizing; None keeps none
    restores_missing_as_zero: bool  # an allocation without an amount of CPU or memory is stored with 0
    wiping_delay_seconds: float  # seconds from a driver's leaving to the deletion of its slices

    @property
    def keeps_claims(self) -> bool:
        """Returns whether the kubelet has a manager of claims, and so their checkpoint."""
        classic = self.drafted_claims or not self.dra_publishes_slices
        return self.dynamic_resources or (self.dra_registers_plugins and classic)


def features_of(version: Version, gates: FeatureGates) -> KubeletFeatures:
    """Returns the row of the table for `version` with `gates`."""
    minor, gate = version.minor, gates.enabled
    drafted = version.preview == "kep3063"
    semantic = version.preview == "kep4381"
    extended = gate("DRAExtendedResource")
    return KubeletFeatures(
        version=version,
        events=EventTexts(*(_since(texts, minor) for texts in (_PULLED, _FETCHED, _CREATED, _STARTED))),
        environment=EnvironmentFeatures.of(gates),
        sidecars=gate("SidecarContainers"),
        container_restart_rules=gate("ContainerRestartRules"),
        ready_to_start_condition=gate("PodReadyToStartContainersCondition"),
        host_ips=gate("PodHostIPs"),
        observed_generation=gate("PodObservedGenerationTracking"),
        actual_resources=gate("InPlacePodVerticalScaling"),
        # a gate of its own decided in 1.32, and none since
        allocated_resources=gate("InPlacePodVerticalScaling")
        and (minor != 32 or gate("InPlacePodVerticalScalingAllocatedStatus")),
        resizes=gate("InPlacePodVerticalScaling"),
        resize_conditions=minor >= 33,
        volume_mount_statuses=gate("RecursiveReadOnlyMounts"),
        kube_proxy_version=not gate("DisableNodeKubeProxyVersion"),
        backoff_seconds=(1.0, 60.0) if gate("ReduceDefaultCrashLoopBackOffDecay") else (10.0, 300.0),
        dynamic_resources=gate("DynamicResourceAllocation"),
        extended_resources=extended,
        admission=AdmissionFeatures.of(minor, gates),
        sidecar_probes=SidecarProbes.of(gates),
        workload_resource_claims=gate("DRAWorkloadResourceClaims"),
        optional_node_operations=gate("DRAOptionalNodeOperations"),
        tells_failed_preparation=not gates.bugs.present("k8s-118578"),
        drafted_claims=drafted,
        dra_registers_plugins=gate("DynamicResourceAllocation"),
        dra_lists_skipped=minor >= 37,
        dra_reports_health=gate("ResourceHealthStatus") and minor >= 34,
        dra_publishes_slices=gate("DynamicResourceAllocation") and minor >= 31,
        dra_asks_for_resources=gate("DynamicResourceAllocation") and (minor == 30 or semantic),
        semantic_parameters=semantic,
        dra_validates_first=minor >= 34,
        dra_faults=DRAFaults.of(gates),
        dra_notes_late=gates.bugs.present("k8s-116411") or semantic,
        dra_trusts_names=gates.bugs.present("k8s-131513"),
        dra_stops_at_prepared=gates.bugs.present("k8s-135901"),
        dra_unprepares_by_status=gates.bugs.present("k8s-139772"),
        dra_unprepares_for_strangers=gates.bugs.present("k8s-140212"),
        dra_shares_unpreparing=gates.bugs.present("k8s-140527"),
        device_plugin_cdi=minor >= 31 or gate("DevicePluginCDIDevices"),
        forgets_pending_devices=gates.bugs.present("k8s-137534"),
        device_plugins_apart=minor >= 37,  # pull request 135437
        mapped_resources_are_claims=extended and minor >= 35,
        empty_allocate_response=_since(_EMPTY_ALLOCATE_RESPONSE, minor),
        resource_health=gate("ResourceHealthStatus"),
        health_by_name=gates.bugs.present("k8s-140323"),
        pod_resources_get=gate("KubeletPodResourcesGet"),
        pod_resources_dynamic_resources=gate("KubeletPodResourcesDynamicResources"),
        pod_resources_list_active_pods=gate("KubeletPodResourcesListUseActivePods"),
        pod_resources_of_sidecars=gate("SidecarContainers") and minor >= 30,
        pod_resources_of_shares=minor >= 35,
        pod_resources_limited=minor >= 27,
        resource_health_message=gate("ResourceHealthStatusMessage"),
        fine_grained_authz=gate("KubeletFineGrainedAuthz"),
        refuses_by_subresources=minor >= 32,
        swap_metrics=minor >= 29,
        stable_resource_metrics=minor >= 29,
        cpu_state=_cpu_state(minor, pod_level=gate("PodLevelResourceManagers")),
        memory_state=_memory_state(minor, gates),
        pod_level=PodLevelFeatures.of(gates),
        allocation_form=_allocation_form(minor) if gate("InPlacePodVerticalScaling") else None,
        restores_missing_as_zero=gates.bugs.present("k8s-117589"),
        wiping_delay_seconds=30.0 if minor >= 33 else 0.0,
    )


def _delegated_to_dra(minor: int, gates: FeatureGates) -> DelegatedToDRA:
    """Returns what may be DRA's: since pull request 135725 the pod's status says so, before the node did."""
    if not gates.bugs.present("k8s-135669"):
        return DelegatedToDRA.MAPPED
    return DelegatedToDRA.ABSENT if minor == 35 else DelegatedToDRA.UNNAMED


def _cpu_state(minor: int, *, pod_level: bool) -> CPUStateFormats:
    """Returns the formats of `cpu_manager_state`."""
    if minor >= 37:
        return CPUStateFormats(4, (4, 3, 2), "default CPU set", pods=pod_level)
    if minor < 36:
        return CPUStateFormats(2, (1, 2))
    return CPUStateFormats(3, (3, 2, 1), pods=True) if pod_level else CPUStateFormats(2, (2, 1))


def _memory_state(minor: int, gates: FeatureGates) -> MemoryStateFormats | None:
    """Returns the formats of `memory_manager_state`; None where there is no such manager."""
    if minor < 32 and not gates.enabled("MemoryManager"):
        return None
    pod_level = gates.enabled("PodLevelResourceManagers")
    if minor >= 37:
        return MemoryStateFormats(3, (3, 2, 1), pods=pod_level)
    if minor == 36 and pod_level:
        return MemoryStateFormats(2, (2, 1), pods=True)
    return MemoryStateFormats(1, (1,))


def _allocation_form(minor: int) -> AllocationForm:
    """Returns what the files of in-place resizing are like."""
    forms = {
        0: AllocationForm.STRUCTS,
        32: AllocationForm.TEXT,
        33: AllocationForm.POD_ENTRIES,
        35: AllocationForm.POD_LEVEL,
    }
    return _since(forms, minor)
