"""The order for a container's processes, made of its configuration and its image.

Source: containerd's internal/cri/server/container_create.go.
"""

import os
import signal
from typing import Any

from kubeskew.kubelet.containers.host.cgroups import Limits
from kubeskew.kubelet.containers.host.images.image_config import DEFAULT_PATH, UnpackedImage
from kubeskew.kubelet.containers.host.users import User
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    Mount,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import Sandbox


def check_sandbox(config: PodSandboxConfig, *, plain: bool) -> None:
    """Raises ContainerRuntimeError for what cannot be had."""
    if not config.host_users:
        raise ContainerRuntimeError(
            "failed to create containerd task: user namespaces of pods are not supported by this runtime"
        )
    if plain and config.sysctls:
        raise ContainerRuntimeError("the runtime host-plain has no namespaces: sysctls cannot be set")


def check_plain(config: ContainerConfig, user: User) -> None:
    """Raises ContainerRuntimeError for what needs namespaces."""
    security, needs = config.security, []
    if user.uid != os.geteuid() and user.uid != 0:
        needs.append(f"user {user.uid}")
    if security.read_only_root:
        needs.append("a root file system that is read-only")
    if security.privileged or security.added_capabilities:
        needs.append("capabilities")
    if config.devices:
        needs.append("devices")
    if needs:
        text = f'failed to generate container "{config.name}" spec: {", ".join(needs)}'
        raise ContainerRuntimeError(f"{text}: not with the runtime host-plain, which has no namespaces")


def arguments(config: ContainerConfig, image: UnpackedImage) -> list[str]:
    """A command takes the place of both the image's, args that of its command alone."""
    if config.command:
        words = [*config.command, *config.args]
    else:
        words = [*image.config.entrypoint, *(config.args or image.config.command)]
    if not words or not words[0]:
        raise ContainerRuntimeError(
            f'failed to generate container "{config.name}" spec: no command specified'
        )
    return words


def environment(
    sandbox: Sandbox, config: ContainerConfig, image: UnpackedImage, user: User
) -> dict[str, str]:
    env = {"PATH": DEFAULT_PATH, "HOSTNAME": sandbox.hostname or sandbox.name}
    if config.tty:
        env["TERM"] = "xterm"
    env |= {**image.config.env, **config.env}
    env.setdefault("HOME", user.home)
    return env


def mount_order(mount: Mount) -> dict[str, Any]:
    return {
        "source": str(mount.host_path),
        "target": mount.container_path,
        "read_only": mount.read_only,
        "propagation": mount.propagation,
    }


def limits_of(resources: ContainerResources, processes: int) -> Limits:
    return Limits(
        resources.memory_bytes, resources.cpu_shares, resources.cpu_quota, resources.cpu_period, processes
    )


def signal_number(name: str) -> int:
    """The number of a signal by its name, with or without SIG, or by its number."""
    if name.isdecimal():
        return int(name)
    full = name if name.startswith("SIG") else f"SIG{name}"
    if full.startswith("SIGRTMIN+") and full[9:].isdecimal():
        return int(signal.SIGRTMIN) + int(full[9:])
    if full.startswith("SIGRTMAX-") and full[9:].isdecimal():
        return int(signal.SIGRTMAX) - int(full[9:])
    return int(getattr(signal, full, signal.SIGTERM))
