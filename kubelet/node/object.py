"""The Node object as its kubelet fills it in (pkg/kubelet/kubelet_node_status.go, nodestatus/setters.go).

Pure.
"""

import hashlib
import platform
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import transition_time
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet.containers.runtime_service import OWN_STATUS, RuntimeHandler, RuntimeStatus
from kubeskew.kubelet.containers.sandbox import RUNTIME_VERSION
from kubeskew.kubelet.device_managers import PluginCapacity
from kubeskew.kubelet.features import DeclaredFeatures, KubeletFeatures
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.resourcemanagers.cpu import STATIC

NOT_READY_TAINT = "node.kubernetes.io/not-ready"

# type: (status, reason, message) of a healthy node
_PRESSURES = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_READY = ("True", "KubeletReady", "kubelet is posting ready status")

OWNED_FIELDS = (
    "capacity",
    "allocatable",
    "conditions",
    "addresses",
    "daemonEndpoints",
    "nodeInfo",
    "features",
    "runtimeHandlers",
    "declaredFeatures",
)


def architecture() -> str:
    """Names the architecture as Go does."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def host_ip(node_name: str) -> str:
    """Each node has a loopback address of its own, which its name determines."""
    digest = hashlib.sha256(node_name.encode()).digest()
    return f"127.{1 + digest[0] % 250}.{digest[1]}.{1 + digest[2] % 250}"


def initial_node(config: NodeConfig, status: Object) -> Object:
    default_labels = {
        "beta.kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/hostname": config.name,
        "kubernetes.io/os": "linux",
    }
    addresses = {"podCIDR": config.pod_cidr, "podCIDRs": [config.pod_cidr]} if config.pod_cidr else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": config.name,
            "labels": {**default_labels, **config.labels},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {
            **addresses,
            "taints": [*map(dict, config.taints), {"key": NOT_READY_TAINT, "effect": "NoSchedule"}],
        },
        "status": status,
    }


def node_status(
    config: NodeConfig,
    features: KubeletFeatures,
    present: Mapping[str, Any],
    plugins: PluginCapacity,
    *,
    not_ready: str,
    runtime_version: str = RUNTIME_VERSION,
    runtime: RuntimeStatus = OWN_STATUS,
    port: int,
    now: datetime,
) -> Object:
    """Fills in the kubelet's part of the node's status.

    `not_ready` says why the node is not ready; empty if it is.
    """
    capacity = {
        **(present.get("capacity") or {}),  # values of an administrator stay
        **_resources(config),
        **{name: str(count) for name, count in plugins.capacity.items()},
        # Not subtracted: this shows what plugins add to what the cluster has as a whole.
        **dict.fromkeys(plugins.removed, "0"),
    }
    return {
        "capacity": capacity,
        "allocatable": {
            **_allocatable_elsewhere(present, capacity),
            **capacity,
            **_unreserved(config, capacity),
            **{name: str(count) for name, count in plugins.allocatable.items()},
        },
        "conditions": _conditions(present, not_ready, now),
        "addresses": [
            {"type": "InternalIP", "address": host_ip(config.name)},
            {"type": "Hostname", "address": config.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": _node_info(config.name, features, runtime_version),
        **_kept_without_gates(present),
        **_runtime_handlers(runtime, features),
        **_node_features(runtime, features),
        **_declared_features(config, features.declared),
    }


def _kept_without_gates(present: Mapping[str, Any]) -> Object:
    """An earlier report stays where the gate is off that has it made (nodestatus/setters.go)."""
    kept = ("features", "runtimeHandlers", "declaredFeatures")
    return {name: present[name] for name in kept if present.get(name)}


def _runtime_handlers(runtime: RuntimeStatus, features: KubeletFeatures) -> Object:
    if not features.runtime_handlers:
        return {}
    return {"runtimeHandlers": [_handler(each, features) for each in runtime.handlers]}


def _handler(handler: RuntimeHandler, features: KubeletFeatures) -> Object:
    can = {"recursiveReadOnlyMounts": handler.recursive_read_only_mounts}
    if features.handlers_say_user_namespaces:
        can["userNamespaces"] = handler.user_namespaces
    return {"name": handler.name, "features": can}


def _node_features(runtime: RuntimeStatus, features: KubeletFeatures) -> Object:
    if not features.supplemental_groups_policy or runtime.supplemental_groups_policy is None:
        return {}
    return {"features": {"supplementalGroupsPolicy": runtime.supplemental_groups_policy}}


def _declared_features(config: NodeConfig, declared: DeclaredFeatures) -> Object:
    """None declared leaves the field as it is (kubelet_node_status.go)."""
    static = config.cpu_manager_policy == STATIC
    names = {
        "ExtendWebSocketsToKubelet": declared.web_sockets,
        "GuaranteedQoSPodCPUResize": declared.exclusive_cpu_resize if static else declared.cpu_resize,
        "InPlacePodLevelResourcesVerticalScaling": declared.pod_level_resize,
        "InPlacePodVerticalScalingInitContainers": declared.init_container_resize,
        "RestartAllContainersOnContainerExits": declared.restarts_all,
    }
    found = [name for name, is_declared in names.items() if is_declared]
    return {"declaredFeatures": found} if declared.declares and found else {}


def _allocatable_elsewhere(present: Mapping[str, Any], capacity: Mapping[str, str]) -> dict[str, str]:
    """Entries that are not in the capacity stay, but for extended resources."""
    known = (present.get("allocatable") or {}).items()
    return {name: amount for name, amount in known if name not in capacity and not is_extended_resource(name)}


def _unreserved(config: NodeConfig, capacity: Mapping[str, str]) -> dict[str, str]:
    return {
        name: (Quantity.parse(capacity[name]) - Quantity.parse(amount)).canonical()
        for name, amount in config.kube_reserved.items()
        if name in capacity
    }


def without_extended_resources(node: Object) -> Object:
    """A new node has no plugins, so its extended resources are zero (reconcileExtendedResource)."""
    status = node.get("status") or {}
    zeros = {name: "0" for name in status.get("capacity") or {} if is_extended_resource(name)}
    return {
        **status,
        **{field: {**(status.get(field) or {}), **zeros} for field in ("capacity", "allocatable") if zeros},
    }


def _resources(config: NodeConfig) -> dict[str, str]:
    default = {"ephemeral-storage": "100Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    amounts = {**default, **config.capacity}
    return {name: Quantity.parse(amount).canonical() for name, amount in amounts.items()}


def _conditions(present: Mapping[str, Any], not_ready: str, now: datetime) -> list[Object]:
    before = {condition["type"]: condition for condition in present.get("conditions") or []}
    ready = ("False", "KubeletNotReady", not_ready) if not_ready else _READY
    found = []
    for kind, (status, reason, message) in {**_PRESSURES, "Ready": ready}.items():
        found.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": transition_time(before.get(kind), status, now),
                "reason": reason,
                "message": message,
            }
        )
    return found


def _node_info(name: str, features: KubeletFeatures, runtime_version: str) -> Object:
    version = features.version.git_version
    machine = uuid.UUID(bytes=hashlib.sha256(name.encode()).digest()[:16], version=4)
    boot = uuid.UUID(bytes=hashlib.sha256(f"{name} boot".encode()).digest()[:16], version=4)
    return {
        "machineID": machine.hex,
        "systemUUID": str(machine),
        "bootID": str(boot),
        "kernelVersion": platform.release(),
        "osImage": "kubeskew fake node",
        "containerRuntimeVersion": runtime_version,
        "kubeletVersion": version,
        "kubeProxyVersion": version if features.kube_proxy_version else "",
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def without_heartbeats(status: Mapping[str, Any]) -> Object:
    """A status that changed apart from its heartbeats is written before its five minutes are over."""
    conditions = [
        {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
        for condition in status.get("conditions") or []
    ]
    return {**status, "conditions": conditions}


def event_subject(name: str) -> Object:
    """Events name the node with its name as uid, which `kubectl describe` searches."""
    return {"kind": "Node", "metadata": {"name": name, "uid": name}}
