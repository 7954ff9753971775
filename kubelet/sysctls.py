"""Decides which kernel parameters pods may set: those that are safe on a node without a list of its own.

pkg/kubelet/sysctl/safe_sysctls.go and allowlist.go, 1.26 to 1.36, on a kernel that has all of them.
"""

from kubeskew.apimachinery.objects import Object

_FIRST = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_RESERVED_PORTS = _FIRST | {"net.ipv4.ip_local_reserved_ports"}
_TCP_TIMES = _RESERVED_PORTS | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_TCP_MEMORY = _TCP_TIMES | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}

# By the minors that these lists came with.
SAFE_SYSCTLS = {0: _FIRST, 27: _RESERVED_PORTS, 29: _TCP_TIMES, 32: _TCP_MEMORY}
# The words of errors for the namespaces of IPC and network.
NAMESPACE_NAMES = {0: ("ipc", "net"), 29: ("IPC", "Net")}


def forbidden_sysctl(pod: Object, safe: frozenset[str], namespaces: tuple[str, str]) -> str:
    """An empty text means that the pod may set its parameters; else it says why not."""
    ipc, net = namespaces
    spec = pod["spec"]
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = _normalized(sysctl.get("name") or "")
        if name not in safe:
            return f'forbidden sysctl: "{name}" not allowlisted'
        field, namespace = ("hostIPC", ipc) if name.startswith("kernel.") else ("hostNetwork", net)
        if spec.get(field):
            return f'forbidden sysctl: "{name}" not allowed with host {namespace} enabled'
    return ""


def _normalized(name: str) -> str:
    """Slashes may separate the parts of a name as dots do; the name returned has dots (NormalizeName)."""
    first = next((character for character in name if character in "./"), ".")
    if first == ".":
        return name
    return name.translate(str.maketrans("./", "/."))
