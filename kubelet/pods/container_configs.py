"""The configurations of sandboxes and containers that follow from a pod: pure functions.

Sources: pkg/kubelet/kuberuntime (kuberuntime_sandbox.go, kuberuntime_container.go,
kuberuntime_container_linux.go, security_context.go, labels.go), pkg/kubelet/qos/policy.go,
pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/network/dns/dns.go and pkg/securitycontext/util.go, 1.36.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers import acting
from kubeskew.kubelet.containers.expansion import expanded
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    Device,
    DNSConfig,
    Image,
    Mount,
    PodSandboxConfig,
    PortMapping,
)
from kubeskew.kubelet.containers.usage import Demand, requested
from kubeskew.kubelet.device_managers import ContainerDevices

CLUSTER_DOMAIN, CLUSTER_DNS = "cluster.local", "10.96.0.10"
_LONGEST_HOSTNAME = 63
_SMALLEST_SHARES, _LARGEST_SHARES = 2, 262_144
_CPU_PERIOD, _SMALLEST_QUOTA = 100_000, 1_000
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_CRITICAL_CLASS = "system-node-critical"


# -- the sandbox


def sandbox_config(
    pod: Object, log_root: Path, node_name: str, attempt: int = 0, dns_server: str = CLUSTER_DNS
) -> PodSandboxConfig:
    spec, metadata = pod["spec"], pod["metadata"]
    security = spec.get("securityContext") or {}
    uid, namespace, name = pod_spec.uid_of(pod), pod_spec.namespace_of(pod), pod_spec.name_of(pod)
    host_network = bool(spec.get("hostNetwork"))
    return PodSandboxConfig(
        uid=uid,
        namespace=namespace,
        name=name,
        hostname=node_name if host_network else hostname_of(pod),
        log_directory=log_root / f"{namespace}_{name}_{uid}",
        attempt=attempt,
        labels={**(metadata.get("labels") or {}), **_pod_labels(pod)},
        annotations=dict(metadata.get("annotations") or {}),
        dns=dns_config(pod, dns_server),
        port_mappings=() if host_network else port_mappings(pod),
        sysctls={each["name"]: each["value"] for each in security.get("sysctls") or ()},
        host_network=host_network,
        host_pid=bool(spec.get("hostPID")),
        host_ipc=bool(spec.get("hostIPC")),
        shares_pid=bool(spec.get("shareProcessNamespace")),
        host_users=spec.get("hostUsers") is not False,
    )


def hostname_of(pod: Object) -> str:
    name: str = pod["spec"].get("hostnameOverride") or pod["spec"].get("hostname") or pod_spec.name_of(pod)
    return name[:_LONGEST_HOSTNAME].rstrip("-.")


def _pod_labels(pod: Object) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod_spec.name_of(pod),
        "io.kubernetes.pod.namespace": pod_spec.namespace_of(pod),
        "io.kubernetes.pod.uid": pod_spec.uid_of(pod),
    }


def dns_config(pod: Object, server: str = CLUSTER_DNS) -> DNSConfig | None:
    """None is the node's own."""
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    extra: Object = spec.get("dnsConfig") or {}
    if policy == "Default" and not extra:
        return None
    servers, searches, options = [], [], []
    if policy in {"ClusterFirst", "ClusterFirstWithHostNet"}:
        domain = CLUSTER_DOMAIN
        servers = [server]
        searches = [f"{pod_spec.namespace_of(pod)}.svc.{domain}", f"svc.{domain}", domain]
        options = ["ndots:5"]
    servers = [*dict.fromkeys([*servers, *(extra.get("nameservers") or ())])]
    searches = [*dict.fromkeys([*searches, *(extra.get("searches") or ())])]
    named = {option.partition(":")[0]: option for option in options}
    for option in extra.get("options") or ():
        value = option.get("value")
        named[option["name"]] = f"{option['name']}:{value}" if value else option["name"]
    return DNSConfig(servers, searches, [*named.values()])


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
    image: Image,
    *,
    mounts: Sequence[Mount] = (),
    demand: Demand,
    node_memory: int = 0,
    cpuset: str = "",
    cuts: bool = False,
) -> ContainerConfig:
    """`env` is what the container's spec says; `cuts` is as of `expanded`; `node_memory` in bytes."""
    env = {**devices.default_env, **env, **devices.env}
    lifecycle = spec.get("lifecycle") or {}
    return ContainerConfig(
        name=spec["name"],
        image=spec.get("image") or "",
        command=[expanded(word, env, cuts=cuts) for word in spec.get("command") or ()],
        args=[expanded(word, env, cuts=cuts) for word in spec.get("args") or ()],
        working_directory=spec.get("workingDir") or "",
        env=env,
        mounts=[
            *mounts,
            *(Mount(each.path, Path(each.host_path), each.read_only) for each in devices.mounts),
        ],
        devices=[Device(each.path, each.host_path, each.permissions) for each in devices.nodes],
        cdi_devices=devices.cdi,
        labels={"io.kubernetes.container.name": spec["name"], **_pod_labels(pod)},
        annotations={**devices.annotations, **_annotations(pod, spec), **acted(pod, spec, demand)},
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
        stop_signal=lifecycle.get("stopSignal") or "",
        security=container_security(pod, spec, image),
        resources=container_resources(pod, spec, node_memory, cpuset),
    )


def _annotations(pod: Object, spec: Object) -> dict[str, str]:
    """Those that upstream's kubelet gives a container of what its own restart needs to know."""
    found = {
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


def acted(pod: Object, spec: Object, demand: Demand) -> dict[str, str]:
    """The annotations by which a container is acted."""
    found = acting.behaviour_annotations(pod, spec)
    found |= {acting.CORES: repr(demand.cores), acting.MEMORY: str(demand.memory)}
    if any(spec["name"] == each["name"] for each in pod_spec.init_containers(pod)) and not is_sidecar(spec):
        found[acting.KIND] = acting.INIT
    return found


def container_security(pod: Object, spec: Object, image: Image) -> ContainerSecurity:
    """A container's own security context comes before its pod's, field by field."""
    common: Object = pod["spec"].get("securityContext") or {}
    own: Object = spec.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    groups = [*(common.get("supplementalGroups") or ())]
    if common.get("fsGroup") is not None:
        groups.append(common["fsGroup"])
    user = _first(own, common, "runAsUser")
    if user is None and image.user.partition(":")[0].isdecimal():
        user = int(image.user.partition(":")[0])
    return ContainerSecurity(
        run_as_user=user,
        run_as_group=_first(own, common, "runAsGroup"),
        supplemental_groups=[*dict.fromkeys(groups)],
        strict_groups=common.get("supplementalGroupsPolicy") == "Strict",
        privileged=bool(own.get("privileged")),
        added_capabilities=capabilities.get("add") or (),
        dropped_capabilities=capabilities.get("drop") or (),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        unmasked_proc=own.get("procMount") == "Unmasked",
    )


def _first(own: Object, common: Object, name: str) -> int | None:
    value = own.get(name)
    return common.get(name) if value is None else value


def refused_user(pod: Object, spec: Object, image: Image) -> str:
    """Why a container that must not run as root would, or may (verifyRunAsNonRoot); empty if neither."""
    common: Object = pod["spec"].get("securityContext") or {}
    own: Object = spec.get("securityContext") or {}
    if not _first(own, common, "runAsNonRoot"):
        return ""
    where = f'(pod: "{pod_spec.full_name(pod)}", container: {spec["name"]})'
    user = _first(own, common, "runAsUser")
    if user is not None:
        return f"container's runAsUser breaks non-root policy {where}" if user == 0 else ""
    named = image.user.partition(":")[0]
    if named.isdecimal() and int(named) != 0:
        return ""
    if not named or named.isdecimal():
        return f"container has runAsNonRoot and image will run as root {where}"
    return (
        f"container has runAsNonRoot and image has non-numeric user ({named}), "
        f"cannot verify user is non-root {where}"
    )


def container_resources(
    pod: Object, spec: Object, node_memory: int = 0, cpuset: str = ""
) -> ContainerResources:
    limit, request = requested(spec, "cpu", "limits"), requested(spec, "cpu")
    has_request = "cpu" in ((spec.get("resources") or {}).get("requests") or {})
    wanted = request if has_request or not limit else limit
    milli = round(limit * 1000)
    return ContainerResources(
        cpu_shares=min(max(round(wanted * 1000) * 1024 // 1000, _SMALLEST_SHARES), _LARGEST_SHARES),
        cpu_quota=max(milli * _CPU_PERIOD // 1000, _SMALLEST_QUOTA) if milli else 0,
        cpu_period=_CPU_PERIOD,
        memory_bytes=int(requested(spec, "memory", "limits")),
        cpuset=cpuset,
        oom_score_adjustment=oom_score(pod, spec, node_memory),
    )


def oom_score(pod: Object, spec: Object, node_memory: int) -> int:
    """The kernel ends the process with the highest score first (GetContainerOOMScoreAdjust)."""
    if pod["spec"].get("priorityClassName") == _CRITICAL_CLASS:
        return _GUARANTEED_SCORE
    quality = pod_spec.qos_class(pod)
    if quality == "Guaranteed":
        return _GUARANTEED_SCORE
    if quality == "BestEffort" or node_memory <= 0:
        return _BEST_EFFORT_SCORE
    score = 1000 - int(1000 * requested(spec, "memory")) // node_memory
    if score < 1000 + _GUARANTEED_SCORE:
        return 1000 + _GUARANTEED_SCORE
    return score - 1 if score == _BEST_EFFORT_SCORE else score
