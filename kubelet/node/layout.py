"""The paths of one node's files: state below the kubelet's root directory, sockets in a short one."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

_LONGEST_NAME = 7  # characters of a node's name in paths of its sockets, which must be as short as upstream's


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The directories of a node. Those under `sockets` have upstream's names below /var/lib/kubelet.

    Only the registry is in a short directory, because plugins give their sockets there the longest names.
    """

    node: Path
    sockets: Path
    registry: Path  # plugins register by a socket here

    @classmethod
    def under(cls, root: Path, node_name: str, sockets: Path | None = None) -> "NodeLayout":
        """Returns the layout; `sockets` is a short directory for the sockets of all nodes.

        Without it the sockets are where upstream has them, beside the kubelet's checkpoints.
        """
        node = root / node_name
        if sockets is None:
            return cls(node, node / "kubelet", node / "kubelet" / "plugins_registry")
        short = sockets / _short(node_name)
        return cls(node, short, short / "registry")

    @property
    def runtime(self) -> Path:
        """Returns the fake runtime's directory, with one file per pod: not the kubelet's."""
        return self.node / "runtime"

    @property
    def kubelet(self) -> Path:
        """Returns the directory that is /var/lib/kubelet upstream, without sockets; checkpoints are
        directly in it."""
        return self.node / "kubelet"

    @property
    def cdi(self) -> Path:
        """Returns the directory of CDI specs, /var/run/cdi upstream."""
        return self.node / "cdi"

    @property
    def plugins(self) -> Path:
        """Returns the directory of drivers' own sockets, with a directory for each."""
        return self.sockets / "plugins"

    @property
    def device_plugins(self) -> Path:
        """Returns the directory with the sockets of device plugins, and the kubelet's own, on which they
        register."""
        return self.sockets / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        """Returns the kubelet's socket for monitoring agents."""
        return self.sockets / "pod-resources"

    def plugin(self, driver: str) -> Path:
        """Returns a driver's directory for data that outlives the sockets."""
        return self.kubelet / "plugins" / driver

    def make(self) -> None:
        """Makes the directories that others read before the kubelet writes anything there."""
        shared = (self.plugins, self.registry, self.device_plugins, self.pod_resources, self.cdi)
        for directory in shared:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def _short(node_name: str) -> str:
    """Returns the node's name, or a short one for a long name."""
    if len(node_name) <= _LONGEST_NAME:
        return node_name
    digest = hashlib.sha256(node_name.encode()).digest()
    return base64.b32encode(digest)[:_LONGEST_NAME].decode().lower()
