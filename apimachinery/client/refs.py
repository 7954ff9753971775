"""References to the resources that clients use: plain values, one constant per resource."""

from dataclasses import dataclass
from urllib.parse import quote

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.versions import Version, entry


@dataclass(frozen=True, slots=True)
class Ref:
    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.plural)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path, percent-encoded. Without a namespace it covers all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else self.plural


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Ref:
    return Ref("", "v1", plural, namespaced, kind)


CONFIG_MAPS = _core("configmaps", "ConfigMap")
ENDPOINTS = _core("endpoints", "Endpoints")
EVENTS = _core("events", "Event")
NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
NODES = _core("nodes", "Node", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = _core("persistentvolumes", "PersistentVolume", namespaced=False)
PODS = _core("pods", "Pod")
REPLICATION_CONTROLLERS = _core("replicationcontrollers", "ReplicationController")
RESOURCE_QUOTAS = _core("resourcequotas", "ResourceQuota")
SECRETS = _core("secrets", "Secret")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
SERVICES = _core("services", "Service")

CONTROLLER_REVISIONS = Ref("apps", "v1", "controllerrevisions", True, "ControllerRevision")
DAEMON_SETS = Ref("apps", "v1", "daemonsets", True, "DaemonSet")
DEPLOYMENTS = Ref("apps", "v1", "deployments", True, "Deployment")
REPLICA_SETS = Ref("apps", "v1", "replicasets", True, "ReplicaSet")
STATEFUL_SETS = Ref("apps", "v1", "statefulsets", True, "StatefulSet")
JOBS = Ref("batch", "v1", "jobs", True, "Job")
HORIZONTAL_POD_AUTOSCALERS = Ref(
    "autoscaling", "v2", "horizontalpodautoscalers", True, "HorizontalPodAutoscaler"
)
CRON_JOBS = Ref("batch", "v1", "cronjobs", True, "CronJob")

ENDPOINT_SLICES = Ref("discovery.k8s.io", "v1", "endpointslices", True, "EndpointSlice")
EVENTS_V1 = Ref("events.k8s.io", "v1", "events", True, "Event")
NETWORK_POLICIES = Ref("networking.k8s.io", "v1", "networkpolicies", True, "NetworkPolicy")
LEASES = Ref("coordination.k8s.io", "v1", "leases", True, "Lease")
POD_DISRUPTION_BUDGETS = Ref("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
CSI_NODES = Ref("storage.k8s.io", "v1", "csinodes", False, "CSINode")
STORAGE_CLASSES = Ref("storage.k8s.io", "v1", "storageclasses", False, "StorageClass")
CUSTOM_RESOURCE_DEFINITIONS = Ref(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition"
)

# The version of resource.k8s.io that upstream's own components of a minor speak.
_DRA_VERSIONS = {0: "v1", 26: "v1alpha1", 27: "v1alpha2", 31: "v1alpha3", 32: "v1beta1", 34: "v1"}
# The group and version in which a preview release has claims and classes.
_DRAFTS = {"kep3063": ("cdi.k8s.io", "v1alpha1")}


_GROUP = "resource.k8s.io"
_CLASSES = {0: ("resourceclasses", "ResourceClass"), 31: ("deviceclasses", "DeviceClass")}
_SLICES = {"kep4381": ("noderesourceslices", "NodeResourceSlice")}
_CONTEXTS = {0: ("podschedulings", "PodScheduling"), 27: ("podschedulingcontexts", "PodSchedulingContext")}


@dataclass(frozen=True, slots=True)
class DRARefs:
    """The resources of `resource.k8s.io` in the versions of one release's components.

    In 1.25+kep3063 they are of `cdi.k8s.io`, which has neither templates nor slices. In 1.29+kep4381 slices
    are of another kind.
    """

    version: str
    claims: Ref
    claim_templates: Ref
    device_classes: Ref  # `resourceclasses` up to 1.30
    slices: Ref  # `noderesourceslices` in 1.29+kep4381


def dra_refs(version: Version) -> DRARefs:
    """Returns the DRA API versions that a component of release `version` uses: e.g. v1beta1 at 1.32 and
    1.33, v1 from 1.34 on."""
    group, spoken = _DRAFTS.get(version.preview, (_GROUP, entry(_DRA_VERSIONS, version.base.minor)))
    classes = entry(_CLASSES, version.base.minor)
    slices = _SLICES.get(version.preview, ("resourceslices", "ResourceSlice"))
    return DRARefs(
        version=spoken,
        claims=Ref(group, spoken, "resourceclaims", True, "ResourceClaim"),
        claim_templates=Ref(
            group,
            spoken,
            "resourceclaimtemplates",
            True,
            "ResourceClaimTemplate",
        ),
        device_classes=Ref(group, spoken, classes[0], False, classes[1]),
        slices=Ref(group, spoken, slices[0], False, slices[1]),
    )


def scheduling_context_ref(version: Version) -> Ref:
    """Returns what scheduler and drivers' controllers of classic DRA talk through, 1.26 to 1.31."""
    plural, kind = entry(_CONTEXTS, version.base.minor)
    return Ref(_GROUP, dra_refs(version).version, plural, True, kind)


def parameters_refs(version: Version) -> tuple[Ref, Ref]:
    """Structured parameters of classes and of claims (1.30; in 1.29+kep4381 only those of claims exist)."""
    spoken = dra_refs(version).version
    return (
        Ref(_GROUP, spoken, "resourceclassparameters", True, "ResourceClassParameters"),
        Ref(_GROUP, spoken, "resourceclaimparameters", True, "ResourceClaimParameters"),
    )


def taint_rules_ref(version: Version) -> Ref:
    """Taint rules in the version that the components of a release speak (1.33 and later)."""
    spoken = entry({0: "v1alpha3", 36: "v1beta2", 37: "v1"}, version.base.minor)
    return Ref(_GROUP, spoken, "devicetaintrules", False, "DeviceTaintRule")


POOL_STATUS_REQUESTS = Ref(
    _GROUP, "v1alpha3", "resourcepoolstatusrequests", False, "ResourcePoolStatusRequest"
)


def attributes_classes_ref(version: Version) -> Ref:
    """Classes of volume attributes in the version that the components of a release speak (1.33 and later)."""
    spoken = entry({0: "v1beta1", 34: "v1"}, version.base.minor)
    return Ref("storage.k8s.io", spoken, "volumeattributesclasses", False, "VolumeAttributesClass")


def pod_groups_ref(version: Version) -> Ref:
    """Groups of pods in the version that the components of a release speak (1.36 and later)."""
    spoken = entry({0: "v1alpha2", 37: "v1beta1"}, version.base.minor)
    return Ref("scheduling.k8s.io", spoken, "podgroups", True, "PodGroup")
