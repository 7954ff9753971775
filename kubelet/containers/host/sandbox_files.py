"""The files that a sandbox gives all its containers: /etc/hosts, /etc/hostname, /etc/resolv.conf.

Source: containerd's internal/cri/server/podsandbox/sandbox_run_linux.go (setupSandboxFiles).
"""

import contextlib
from pathlib import Path

from kubeskew.kubelet.containers.runtime_service import ContainerConfig, Mount, PodSandboxConfig

_NAMES = ("hosts", "hostname", "resolv.conf")


def write(directory: Path, address: str, config: PodSandboxConfig, *, has_machine_resolver: bool) -> None:
    """Writes the files into a directory; resolv.conf without configuration is empty or the machine's."""
    directory.mkdir(parents=True, exist_ok=True)
    config.log_directory.mkdir(parents=True, exist_ok=True)
    lines = []
    if config.dns is not None:
        if config.dns.searches:
            lines.append("search " + " ".join(config.dns.searches))
        lines += [f"nameserver {server}" for server in config.dns.servers]
        if config.dns.options:
            lines.append("options " + " ".join(config.dns.options))
    elif has_machine_resolver:
        with contextlib.suppress(OSError):
            lines = Path("/etc/resolv.conf").read_text().splitlines()
    (directory / "resolv.conf").write_text("\n".join([*lines, ""]))
    (directory / "hostname").write_text(f"{config.hostname}\n")
    hosts = [
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
        f"{address}\t{config.hostname}",
    ]
    (directory / "hosts").write_text("\n".join([*hosts, ""]))


def mounts(directory: Path, config: ContainerConfig) -> list[Mount]:
    """The mounts of a container, with those of the sandbox's files that it does not replace."""
    taken = {mount.container_path.rstrip("/") for mount in config.mounts}
    own = [Mount(f"/etc/{name}", directory / name, config.security.read_only_root) for name in _NAMES]
    return [*(mount for mount in own if mount.container_path not in taken), *config.mounts]
