"""CRI's requests for the kubelet's configurations of sandboxes and containers.

Source: pkg/kubelet/kuberuntime (kuberuntime_sandbox.go, kuberuntime_container{,_linux}.go,
security_context.go, util/util.go, labels.go) and pkg/securitycontext/util{,_linux}.go, 1.31 to 1.36.
"""

from collections.abc import Sequence
from pathlib import Path

from kubeskew.kubelet.containers.runtime_service import (
    LOCALHOST,
    RUNTIME_DEFAULT,
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    PodSandboxConfig,
)
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

NODE = "kubelet.kubeskew.io/node"  # the label of what a node of a cluster has made
POD_NAME, POD_NAMESPACE = "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"
POD_UID, CONTAINER_NAME = "io.kubernetes.pod.uid", "io.kubernetes.container.name"
RESTART_COUNT = "io.kubernetes.container.restartCount"
_MASKED = (
    "/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
    "/sys/devices/virtual/powercap",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_CPUS = Path("/sys/devices/system/cpu")
_PROPAGATIONS = {
    "None": "PROPAGATION_PRIVATE",
    "HostToContainer": "PROPAGATION_HOST_TO_CONTAINER",
    "Bidirectional": "PROPAGATION_BIDIRECTIONAL",
}
_PROFILES = messages.SecurityProfile.ProfileType


def sandbox_request(config: PodSandboxConfig, node: str) -> messages.PodSandboxConfig:
    """The configuration of a sandbox; `node` is the value of the label by which its kubelet finds it."""
    request = messages.PodSandboxConfig(
        metadata=messages.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname="" if config.host_network else config.hostname,
        log_directory=str(config.log_directory.absolute()),
        labels={
            **config.labels,
            POD_NAME: config.name,
            POD_NAMESPACE: config.namespace,
            POD_UID: config.uid,
            NODE: node,
        },
        annotations=config.annotations,
        port_mappings=[
            messages.PortMapping(
                protocol=port.protocol,
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in config.port_mappings
        ],
        linux=messages.LinuxPodSandboxConfig(
            sysctls=config.sysctls,
            security_context=messages.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(config),
                privileged=config.security.privileged,
                supplemental_groups=config.security.supplemental_groups,
                supplemental_groups_policy=_policy(config.security),
                seccomp=_profile(config.security.seccomp, Path()),
                selinux_options=_selinux(config.security),
                run_as_user=_number(config.security.run_as_user),
                run_as_group=_number(config.security.run_as_group),
            ),
        ),
    )
    if config.dns is not None:
        request.dns_config.CopyFrom(
            messages.DNSConfig(
                servers=config.dns.servers, searches=config.dns.searches, options=config.dns.options
            )
        )
    return request


def _namespaces(config: PodSandboxConfig) -> messages.NamespaceOption:
    modes = messages.NamespaceMode
    own = modes.POD if config.shares_pid else modes.CONTAINER
    return messages.NamespaceOption(
        network=modes.NODE if config.host_network else modes.POD,
        pid=modes.NODE if config.host_pid else own,
        ipc=modes.NODE if config.host_ipc else modes.POD,
    )


def container_request(
    config: ContainerConfig,
    sandbox: messages.PodSandboxConfig,
    image: str,
    attempt: int,
    *,
    seccomp: Path,
    target: str = "",
) -> messages.ContainerConfig:
    """The configuration of a container's next attempt. `image` is the runtime's id of it, `target` that of a
    container whose processes it sees, `seccomp` the node's directory of profiles."""
    request = messages.ContainerConfig(
        metadata=messages.ContainerMetadata(name=config.name, attempt=attempt),
        image=messages.ImageSpec(image=image, user_specified_image=config.image),
        command=config.command,
        args=config.args,
        working_dir=config.working_directory,
        envs=[
            messages.KeyValue(key=name, value=value.encode("utf-8", "surrogateescape"))
            for name, value in config.env.items()
        ],
        mounts=[
            messages.Mount(
                container_path=mount.container_path,
                host_path=str(mount.host_path.absolute()),
                readonly=mount.read_only,
                propagation=_PROPAGATIONS[mount.propagation],
            )
            for mount in config.mounts
        ],
        devices=[
            messages.Device(
                container_path=device.container_path,
                host_path=device.host_path,
                permissions=device.permissions,
            )
            for device in config.devices
        ],
        CDI_devices=[messages.CDIDevice(name=device.name) for device in config.cdi_devices],
        labels={
            **config.labels,
            **{name: sandbox.labels[name] for name in (POD_NAME, POD_NAMESPACE, POD_UID, NODE)},
            CONTAINER_NAME: config.name,
        },
        annotations={**config.annotations, RESTART_COUNT: str(attempt)},
        log_path=f"{config.name}/{attempt}.log",
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        stop_signal=config.stop_signal or "RUNTIME_DEFAULT",
        linux=messages.LinuxContainerConfig(
            resources=resources_request(config.resources),
            security_context=_security(
                config.security, sandbox.linux.security_context.namespace_options, seccomp
            ),
        ),
    )
    options = request.linux.security_context.namespace_options
    if target and options.pid == messages.NamespaceMode.CONTAINER:
        options.pid, options.target_id = messages.NamespaceMode.TARGET, target
    return request


def _security(
    security: ContainerSecurity, namespaces: messages.NamespaceOption, profiles: Path
) -> messages.LinuxContainerSecurityContext:
    masked: Sequence[str] = () if security.unmasked_proc else [*_MASKED, *_thermal_throttles()]
    return messages.LinuxContainerSecurityContext(
        capabilities=messages.Capability(
            add_capabilities=security.added_capabilities, drop_capabilities=security.dropped_capabilities
        ),
        privileged=security.privileged,
        namespace_options=namespaces,
        selinux_options=_selinux(security),
        run_as_user=_number(security.run_as_user),
        run_as_group=_number(security.run_as_group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_policy(security),
        no_new_privs=security.no_new_privileges,
        masked_paths=masked,
        readonly_paths=() if security.unmasked_proc else _READ_ONLY,
        seccomp=_profile(security.seccomp, profiles),
    )


def _thermal_throttles() -> list[str]:
    """The files of each CPU that say how hot it is."""
    return sorted(str(path) for path in _CPUS.glob("cpu[0-9]*/thermal_throttle"))


def _profile(profile: str, profiles: Path) -> messages.SecurityProfile:
    if profile.startswith(LOCALHOST):
        file = profiles.absolute() / profile.removeprefix(LOCALHOST)
        return messages.SecurityProfile(profile_type=_PROFILES.Localhost, localhost_ref=str(file))
    default = _PROFILES.RuntimeDefault if profile == RUNTIME_DEFAULT else _PROFILES.Unconfined
    return messages.SecurityProfile(profile_type=default)


def _selinux(security: ContainerSecurity) -> messages.SELinuxOption | None:
    return messages.SELinuxOption(**security.selinux) if security.selinux else None


def _policy(security: ContainerSecurity) -> messages.SupplementalGroupsPolicy:
    policies = messages.SupplementalGroupsPolicy
    return policies.Strict if security.strict_groups else policies.Merge


def _number(value: int | None) -> messages.Int64Value | None:
    return None if value is None else messages.Int64Value(value=value)


def resources_request(resources: ContainerResources) -> messages.LinuxContainerResources:
    """The limits of a container."""
    return messages.LinuxContainerResources(
        cpu_shares=resources.cpu_shares,
        cpu_quota=resources.cpu_quota,
        cpu_period=resources.cpu_period,
        memory_limit_in_bytes=resources.memory_bytes,
        cpuset_cpus=resources.cpuset,
        oom_score_adj=resources.oom_score_adjustment,
    )
