"""Turns CRI's messages into configurations of the runtime, and the runtime's records into messages.

A record has what became of a sandbox or container; labels, annotations and mounts are those of the request
that made it, as containerd answers them.

Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto, 1.36.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    ContainerStats,
    Device,
    DNSConfig,
    Image,
    Mount,
    PodSandboxConfig,
    PortMapping,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

HostPath = Callable[[str], Path]  # a path of the kubelet's machine, as this process sees it
_BILLION = 1_000_000_000
_PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")  # by the number of the enumeration


def nanoseconds(moment: datetime) -> int:
    """The time since 1970, to the microsecond, without the rounding of a float."""
    return int(moment.timestamp()) * _BILLION + moment.microsecond * 1000


# -- requests


def sandbox_config(request: messages.PodSandboxConfig, here: HostPath) -> PodSandboxConfig:
    """The runtime's configuration of a sandbox."""
    dns = request.dns_config
    security = request.linux.security_context
    options = security.namespace_options
    node = messages.NamespaceMode.NODE
    return PodSandboxConfig(
        uid=request.metadata.uid,
        namespace=request.metadata.namespace,
        name=request.metadata.name,
        hostname=request.hostname,
        log_directory=here(request.log_directory),
        attempt=request.metadata.attempt,
        labels=dict(request.labels),
        annotations=dict(request.annotations),
        dns=DNSConfig([*dns.servers], [*dns.searches], [*dns.options])
        if request.HasField("dns_config")
        else None,
        port_mappings=[
            PortMapping(
                port.container_port, port.host_port, messages.Protocol.Name(port.protocol), port.host_ip
            )
            for port in request.port_mappings
        ],
        sysctls=dict(request.linux.sysctls),
        host_network=options.network == node,
        host_pid=options.pid == node,
        host_ipc=options.ipc == node,
        shares_pid=options.pid == messages.NamespaceMode.POD,
        host_users=not options.HasField("userns_options") or options.userns_options.mode == node,
    )


def container_config(
    identifier: str,
    request: messages.ContainerConfig,
    here: HostPath,
    injected: ContainerDevices,
    acted: Mapping[str, str],
) -> ContainerConfig:
    """The runtime's configuration of a container; its image by the name that the pod has for it.

    `injected` is what its CDI devices bring; annotations that say how it is `acted` come before its own.
    """
    linux = request.linux
    env = {entry.key: entry.value.decode(errors="replace") for entry in request.envs}
    return ContainerConfig(
        name=request.metadata.name,
        image=request.image.user_specified_image or request.image.image,
        command=[*request.command],
        args=[*request.args],
        working_directory=request.working_dir,
        env={**env, **injected.env},
        mounts=[
            *(
                Mount(
                    *(mount.container_path, here(mount.host_path), mount.readonly),
                    _PROPAGATIONS[mount.propagation],
                )
                for mount in request.mounts
                if not mount.HasField("image")
            ),
            *(Mount(mount.path, Path(mount.host_path), mount.read_only) for mount in injected.mounts),
        ],
        devices=[
            *(Device(one.container_path, one.host_path, one.permissions) for one in request.devices),
            *(Device(node.path, node.host_path, node.permissions) for node in injected.nodes),
        ],
        cdi_devices=injected.cdi,
        labels=dict(request.labels),
        annotations={**request.annotations, **acted},
        stdin=request.stdin,
        stdin_once=request.stdin_once,
        tty=request.tty,
        stop_signal=messages.Signal.Name(request.stop_signal) if request.stop_signal else "",
        security=_security(linux.security_context),
        resources=resources(linux.resources),
        id=identifier,
    )


def _security(context: messages.LinuxContainerSecurityContext) -> ContainerSecurity:
    return ContainerSecurity(
        run_as_user=context.run_as_user.value if context.HasField("run_as_user") else None,
        run_as_group=context.run_as_group.value if context.HasField("run_as_group") else None,
        supplemental_groups=[*context.supplemental_groups],
        strict_groups=context.supplemental_groups_policy == messages.SupplementalGroupsPolicy.Strict,
        privileged=context.privileged,
        added_capabilities=[*context.capabilities.add_capabilities],
        dropped_capabilities=[*context.capabilities.drop_capabilities],
        read_only_root=context.readonly_rootfs,
        no_new_privileges=context.no_new_privs,
        unmasked_proc=not context.masked_paths,
    )


def resources(linux: messages.LinuxContainerResources) -> ContainerResources:
    """The limits that a container gets."""
    return ContainerResources(
        cpu_shares=linux.cpu_shares,
        cpu_quota=linux.cpu_quota,
        cpu_period=linux.cpu_period,
        memory_bytes=linux.memory_limit_in_bytes,
        cpuset=linux.cpuset_cpus,
        oom_score_adjustment=linux.oom_score_adj,
    )


# -- what an emulated kubelet has started


def adopted_sandbox(sandbox: Sandbox) -> messages.PodSandboxConfig:
    """The request by which CRI's client would have made a sandbox."""
    return messages.PodSandboxConfig(
        metadata=messages.PodSandboxMetadata(
            name=sandbox.name, uid=sandbox.pod_uid, namespace=sandbox.namespace
        ),
        hostname=sandbox.hostname,
        log_directory=f"/var/log/pods/{sandbox.namespace}_{sandbox.name}_{sandbox.pod_uid}",
        labels=_pod_labels(sandbox),
    )


def adopted_container(sandbox: Sandbox, container: Container) -> messages.ContainerConfig:
    """The request by which CRI's client would have made a container."""
    return messages.ContainerConfig(
        metadata=messages.ContainerMetadata(name=container.name, attempt=container.attempt),
        image=messages.ImageSpec(image=container.image),
        envs=[messages.KeyValue(key=name, value=value.encode()) for name, value in container.env.items()],
        labels={**_pod_labels(sandbox), "io.kubernetes.container.name": container.name},
        annotations={
            **container.annotations,
            "io.kubernetes.container.restartCount": str(container.attempt),
        },
        log_path=f"{container.name}/{container.attempt}.log",
        CDI_devices=[messages.CDIDevice(name=name) for name in container.cdi_devices],
    )


def _pod_labels(sandbox: Sandbox) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": sandbox.name,
        "io.kubernetes.pod.namespace": sandbox.namespace,
        "io.kubernetes.pod.uid": sandbox.pod_uid,
    }


# -- answers


def sandbox_status(
    identifier: str, request: messages.PodSandboxConfig, sandbox: Sandbox | None, created_at: int
) -> messages.PodSandboxStatus:
    """The status of a sandbox; None stands for one that has made room for the pod's next one."""
    ready = sandbox is not None and sandbox.ready
    is_of_node = request.linux.security_context.namespace_options.network == messages.NamespaceMode.NODE
    address = sandbox.ip if sandbox is not None and ready and not is_of_node else ""
    return messages.PodSandboxStatus(
        id=identifier,
        metadata=request.metadata,
        state=messages.PodSandboxState.SANDBOX_READY if ready else messages.PodSandboxState.SANDBOX_NOTREADY,
        created_at=created_at,
        network=messages.PodSandboxNetworkStatus(ip=address),
        linux=messages.LinuxPodSandboxStatus(
            namespaces=messages.Namespace(options=request.linux.security_context.namespace_options)
        ),
        labels=request.labels,
        annotations=request.annotations,
    )


def listed_sandbox(status: messages.PodSandboxStatus) -> messages.PodSandbox:
    """The entry of a sandbox in a list."""
    return messages.PodSandbox(
        id=status.id,
        metadata=status.metadata,
        state=status.state,
        created_at=status.created_at,
        labels=status.labels,
        annotations=status.annotations,
        runtime_handler=status.runtime_handler,
    )


def created_container(
    identifier: str, request: messages.ContainerConfig, log_path: str, created_at: int, image: Image | None
) -> messages.ContainerStatus:
    """The status of a container that has not been started."""
    return messages.ContainerStatus(
        id=identifier,
        metadata=request.metadata,
        state=messages.ContainerState.CONTAINER_CREATED,
        created_at=created_at,
        image=messages.ImageSpec(image=request.image.user_specified_image or request.image.image),
        image_ref=image.reference if image is not None else request.image.image,
        image_id=image.id if image is not None else request.image.image,
        labels=request.labels,
        annotations=request.annotations,
        mounts=request.mounts,
        log_path=log_path,
        resources=messages.ContainerResources(linux=request.linux.resources),
        stop_signal=request.stop_signal,
    )


def follow(status: messages.ContainerStatus, container: Container, now: datetime) -> None:
    """Puts into a container's status what the runtime's record says of it."""
    status.started_at = nanoseconds(container.started_at)
    if container.running(now):
        status.state = messages.ContainerState.CONTAINER_RUNNING
        return
    status.state = messages.ContainerState.CONTAINER_EXITED
    status.finished_at = nanoseconds(container.ended_at)
    status.exit_code = container.exit_code
    status.reason = container.reason or ("Completed" if container.exit_code == 0 else "Error")
    status.message = container.message


def listed_container(status: messages.ContainerStatus, sandbox: str) -> messages.Container:
    """The entry of a container in a list."""
    return messages.Container(
        id=status.id,
        pod_sandbox_id=sandbox,
        metadata=status.metadata,
        image=status.image,
        image_ref=status.image_ref,
        image_id=status.image_id,
        state=status.state,
        created_at=status.created_at,
        labels=status.labels,
        annotations=status.annotations,
    )


def container_stats(
    status: messages.ContainerStatus, used: ContainerStats, now: datetime
) -> messages.ContainerStats:
    """The use of a container at a moment."""
    at = nanoseconds(now)

    def amount(value: float) -> messages.UInt64Value:
        return messages.UInt64Value(value=int(value))

    return messages.ContainerStats(
        attributes=messages.ContainerAttributes(
            id=status.id, metadata=status.metadata, labels=status.labels, annotations=status.annotations
        ),
        cpu=messages.CpuUsage(
            timestamp=at,
            usage_core_nano_seconds=amount(used.core_seconds * _BILLION),
            usage_nano_cores=amount(used.cores * _BILLION),
        ),
        memory=messages.MemoryUsage(
            timestamp=at,
            working_set_bytes=amount(used.working_set),
            usage_bytes=amount(used.working_set),
            rss_bytes=amount(used.resident),
        ),
        writable_layer=messages.FilesystemUsage(timestamp=at, used_bytes=amount(used.written)),
    )


def image_message(image: Image) -> messages.Image:
    """An image as lists and statuses have it."""
    found = messages.Image(
        id=image.id,
        repo_tags=[*image.names],
        repo_digests=[image.reference] if "@" in image.reference else [],
        size=image.size,
    )
    user = image.user.partition(":")[0]  # without its group
    if user.isdigit():
        found.uid.value = int(user)
    elif user:
        found.username = user
    return found


def selects(wanted: Mapping[str, str], labels: Mapping[str, Any]) -> bool:
    """Decides whether labels have all that a filter wants."""
    return all(labels.get(name) == value for name, value in wanted.items())
