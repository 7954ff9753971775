"""The configurations of sandboxes and containers that follow from a pod: pure functions.

Sources: pkg/kubelet/kuberuntime (kuberuntime_sandbox.go, kuberuntime_container.go, labels.go), 1.36.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.apimachinery.golang.fnv import fnv1a
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers import acting
from kubeskew.kubelet.containers.expansion import expanded
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerSecurity,
    Device,
    DNSConfig,
    PodSandboxConfig,
    PortMapping,
)
from kubeskew.kubelet.containers.sandbox import Container, full_image_name
from kubeskew.kubelet.containers.usage import Demand
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.features import ContainerFeatures, KubeletFeatures
from kubeskew.kubelet.volumes.container_resources import container_resources
from kubeskew.kubelet.volumes.hostnames import Hostname, pod_hostname
from kubeskew.kubelet.volumes.pod_volumes import MountedFiles
from kubeskew.kubelet.volumes.security_context import sandbox_security

CLUSTER_DOMAIN = "cluster.local"
_HASH = "io.kubernetes.container.hash"


# -- the sandbox


def sandbox_config(
    pod: Object,
    log_root: Path,
    node_name: str,
    features: KubeletFeatures,
    dns: DNSConfig | None = None,
    attempt: int = 0,
    more_groups: Sequence[int] = (),
) -> PodSandboxConfig:
    """Raises ConfigError."""
    spec, metadata = pod["spec"], pod["metadata"]
    security = spec.get("securityContext") or {}
    uid, namespace, name = pod_spec.uid_of(pod), pod_spec.namespace_of(pod), pod_spec.name_of(pod)
    host_network = bool(spec.get("hostNetwork"))
    is_full = bool(spec.get("setHostnameAsFQDN"))
    name_of_machine = hostname_of(pod, features).of_kernel(is_full=is_full)
    return PodSandboxConfig(
        uid=uid,
        namespace=namespace,
        name=name,
        hostname=node_name if host_network else name_of_machine,
        log_directory=log_root / f"{namespace}_{name}_{uid}",
        attempt=attempt,
        labels={**(metadata.get("labels") or {}), **_pod_labels(pod)},
        annotations=dict(metadata.get("annotations") or {}),
        dns=dns,
        port_mappings=() if host_network else port_mappings(pod),
        sysctls={each["name"]: each["value"] for each in security.get("sysctls") or ()},
        host_network=host_network,
        host_pid=bool(spec.get("hostPID")),
        host_ipc=bool(spec.get("hostIPC")),
        shares_pid=bool(spec.get("shareProcessNamespace")),
        host_users=spec.get("hostUsers") is not False,
        security=sandbox_security(pod, more_groups),
    )


def hostname_of(pod: Object, features: KubeletFeatures) -> Hostname:
    return pod_hostname(pod, CLUSTER_DOMAIN, may_override=features.volumes.hostname_override)


def _pod_labels(pod: Object) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod_spec.name_of(pod),
        "io.kubernetes.pod.namespace": pod_spec.namespace_of(pod),
        "io.kubernetes.pod.uid": pod_spec.uid_of(pod),
    }


def port_mappings(pod: Object) -> list[PortMapping]:
    """Of regular containers and sidecars that name a port of the node."""
    specs = [*filter(is_sidecar, pod_spec.init_containers(pod)), *pod_spec.containers(pod)]
    return [
        PortMapping(
            int(port["containerPort"]), int(port["hostPort"]), port.get("protocol") or "TCP",
            port.get("hostIP") or "",
        )
        for spec in specs
        for port in spec.get("ports") or ()
        if port.get("hostPort")
    ]  # fmt: skip


# -- containers


def container_config(
    pod: Object,
    spec: Object,
    env: Mapping[str, str],
    devices: ContainerDevices,
    files: MountedFiles,
    *,
    security: ContainerSecurity,
    demand: Demand,
    features: ContainerFeatures,
    node_memory: int = 0,
    cpuset: str = "",
    cuts: bool = False,
) -> ContainerConfig:
    """`env` is what the container's spec says; `files` has the mounts of its devices, too; `cuts` is as of
    `expanded`; `node_memory` in bytes."""
    env = {**devices.default_env, **env, **devices.env}
    lifecycle = spec.get("lifecycle") or {}
    return ContainerConfig(
        name=spec["name"],
        image=spec.get("image") or "",
        command=[expanded(word, env, cuts=cuts) for word in spec.get("command") or ()],
        args=[expanded(word, env, cuts=cuts) for word in spec.get("args") or ()],
        working_directory=spec.get("workingDir") or "",
        env=env,
        mounts=files.mounts,
        devices=[Device(each.path, each.host_path, each.permissions) for each in devices.nodes],
        cdi_devices=devices.cdi,
        labels={"io.kubernetes.container.name": spec["name"], **_pod_labels(pod)},
        annotations={
            **devices.annotations,
            **_annotations(pod, spec),
            **files.annotations,
            **acted(pod, spec, demand),
        },
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
        target=spec.get("targetContainerName") or "",
        stop_signal=(lifecycle.get("stopSignal") or "") if features.stop_signals else "",
        security=security,
        resources=container_resources(pod, spec, node_memory, features, cpuset),
    )


def _annotations(pod: Object, spec: Object) -> dict[str, str]:
    """Those that upstream's kubelet gives a container of what its own restart needs to know."""
    found = {
        _HASH: container_hash(spec),
        "io.kubernetes.container.terminationMessagePath": spec.get("terminationMessagePath") or "",
        "io.kubernetes.container.terminationMessagePolicy": spec.get("terminationMessagePolicy") or "",
    }
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    if grace is not None:
        found["io.kubernetes.pod.terminationGracePeriod"] = str(grace)
    hook = (spec.get("lifecycle") or {}).get("preStop")
    if hook is not None:
        found["io.kubernetes.container.preStopHandler"] = json.dumps(hook, separators=(",", ":"))
    if spec.get("ports"):
        found[acting.PORTS] = json.dumps(spec["ports"], separators=(",", ":"))
    return found


def is_changed(container: Container, spec: Object) -> bool:
    """Decides whether a container runs what its specification says no more, by the hash that it was given."""
    known = container.annotations.get(_HASH)
    if known is None:
        return container.image != full_image_name(spec.get("image") or "")
    return known != container_hash(spec)


def container_hash(spec: Object) -> str:
    """By which a kubelet knows that a container of its spec runs; since 1.31 of name and image alone.

    Source: pkg/kubelet/container/helpers.go (HashContainer) and pkg/util/hash, 1.31 … 1.36: FNV-1a, 32 bits,
    of the JSON as Go shows a list of bytes.
    """
    fields = {"image": spec.get("image") or "", "name": spec["name"]}
    content = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    printed = f"([]uint8)[{' '.join(map(str, content))}]"
    return f"{fnv1a(printed.encode()):x}"


def acted(pod: Object, spec: Object, demand: Demand) -> dict[str, str]:
    """The annotations by which a container is acted."""
    found = acting.behaviour_annotations(pod, spec)
    found |= {acting.CORES: repr(demand.cores), acting.MEMORY: str(demand.memory)}
    if is_sidecar(spec):
        return found
    if any(spec["name"] == each["name"] for each in pod_spec.init_containers(pod)):
        found[acting.KIND] = acting.INIT
    elif (controller_of(pod) or {}).get("kind") == "Job":
        found[acting.KIND] = acting.JOB
    return found
