"""The skew policy: versions that may run together, and the order in which components change.

Source: Kubernetes' version skew policy (https://kubernetes.io/releases/version-skew-policy/).
"""

from collections.abc import Iterable, Mapping

from kubeskew.apimachinery.known_names import (
    CONTROLLER,
    DRIVER,
    METRICS_SERVER,
    NETWORK,
    UNVERSIONED,
    kind_of,
)
from kubeskew.apimachinery.versions import Version

UPGRADE_ORDER = (
    "apiserver", "controller-manager", "scheduler", "kubelet", DRIVER, CONTROLLER, METRICS_SERVER, NETWORK,
)  # fmt: skip
KUBELET_MINORS_OLDER = 3


def upgrade_order(components: Iterable[str]) -> list[str]:
    """API servers, controller manager, scheduler, kubelets."""
    return sorted(components, key=lambda component: UPGRADE_ORDER.index(kind_of(component)))


def downgrade_order(components: Iterable[str]) -> list[str]:
    """Kubelets first, API servers last."""
    return upgrade_order(components)[::-1]


def violations(versions: Mapping[str, Version]) -> list[str]:
    servers = [version for name, version in versions.items() if kind_of(name) == "apiserver"]
    if not servers:
        return []
    oldest, newest = min(servers), max(servers)
    found = []
    if newest.minor - oldest.minor > 1:
        found.append(f"API servers at {oldest} and {newest} are more than one minor apart")
    for name, version in sorted(versions.items()):
        found += _against_servers(name, version, oldest, newest)
    return found


def _against_servers(name: str, version: Version, oldest: Version, newest: Version) -> list[str]:
    kind = kind_of(name)
    if kind == "apiserver" or kind in UNVERSIONED:
        return []
    if version.minor > oldest.minor:
        return [f"{name} {version} is newer than the API server {oldest}"]
    allowed = KUBELET_MINORS_OLDER if kind == "kubelet" else 1
    if newest.minor - version.minor > allowed:
        minors = "minor" if allowed == 1 else "minors"
        return [f"{name} {version} is more than {allowed} {minors} older than the API server {newest}"]
    return []
