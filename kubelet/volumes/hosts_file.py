"""The file /etc/hosts of a pod's containers.

Source: pkg/kubelet/kubelet_pods.go (ensureHostsFile), 1.36.
"""

from collections.abc import Sequence
from pathlib import Path

from kubeskew.apimachinery.objects import Object

CONTAINER_PATH = "/etc/hosts"
_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("fe00::0", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


def hosts_content(
    pod: Object, ips: Sequence[str], hostname: str, domain: str, node_hosts: Path = Path(CONTAINER_PATH)
) -> bytes:
    """The content by the pod's addresses and name, or the node's file for a pod in its network, each with
    the pod's hostAliases. Raises OSError if the node's file cannot be read."""
    aliases = _aliases(pod["spec"].get("hostAliases") or ())
    if pod["spec"].get("hostNetwork"):
        return _HOST_NETWORK_HEADER.encode() + node_hosts.read_bytes() + aliases.encode()
    name = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    own = [(ip, name) for ip in ips]
    lines = "".join(f"{address}\t{names}\n" for address, names in [*_LOCAL, *own])
    return f"{_HEADER}{lines}{aliases}".encode()


def _aliases(aliases: Sequence[Object]) -> str:
    if not aliases:
        return ""
    lines = ["\t".join([alias["ip"], *(alias.get("hostnames") or ())]) for alias in aliases]
    return "\n# Entries added by HostAliases.\n" + "".join(f"{line}\n" for line in lines)
