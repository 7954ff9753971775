"""Where one node keeps its files, under the kubelet's root directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The directories of a node."""

    node: Path

    @classmethod
    def under(cls, root: Path, node_name: str) -> "NodeLayout":
        return cls(root / node_name)

    @property
    def runtime(self) -> Path:
        """The fake runtime's state, one file per pod: not the kubelet's."""
        return self.node / "runtime"

    @property
    def kubelet(self) -> Path:
        """What upstream has in /var/lib/kubelet; checkpoints lie right here."""
        return self.node / "kubelet"

    @property
    def cdi(self) -> Path:
        """CDI specs, /var/run/cdi upstream."""
        return self.node / "cdi"

    def plugin(self, driver: str) -> Path:
        """A driver's own data."""
        return self.kubelet / "plugins" / driver
