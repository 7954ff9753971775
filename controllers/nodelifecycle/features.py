"""The differences between releases in how long a node may be silent."""

from dataclasses import dataclass

from kubeskew.apimachinery.versions import Version

# Since 1.32 a node may be silent for longer, so that a lost lease renewal or two do not matter.
_GRACE_SECONDS, _GRACE_SECONDS_BEFORE_32 = 50.0, 40.0


@dataclass(frozen=True, slots=True)
class NodeLifecycleFeatures:
    """Named decisions of the node lifecycle controller of one release."""

    grace_seconds: float  # --node-monitor-grace-period

    @classmethod
    def of(cls, version: Version) -> "NodeLifecycleFeatures":
        return cls(
            grace_seconds=_GRACE_SECONDS if version.minor >= 32 else _GRACE_SECONDS_BEFORE_32,
        )
