"""Counts the addresses and node ports that services are given.

Sources, 1.36: pkg/registry/core/service/{ipallocator,portallocator}/metrics.go.
"""

from kubeskew.apimachinery.metrics.series import Families

_ADDRESSES = "kube_apiserver_clusterip_allocator_allocation"
_PORTS = "kube_apiserver_nodeport_allocator_allocation"


class AllocationMetrics:
    """Counts allocations: static ones were asked for, dynamic ones drawn."""

    def __init__(self, families: Families) -> None:
        self._addresses = (
            families.counters(f"{_ADDRESSES}_total", "Addresses given to services."),
            families.counters(f"{_ADDRESSES}_errors_total", "Addresses that could not be given."),
        )
        self._ports = (
            families.counters(f"{_PORTS}_total", "Node ports given to services."),
            families.counters(f"{_PORTS}_errors_total", "Node ports that could not be given."),
        )
        self._seconds = families.histograms(
            f"{_ADDRESSES}_duration_seconds", "Seconds of giving an address by range."
        )

    def address(self, cidr: str, scope: str, *, failed: bool = False, timed: bool = False) -> None:
        """Counts an address of a range; giving one never waits, so it takes no time by the server's clock."""
        self._addresses[failed].at(cidr=cidr, scope=scope).inc()
        if timed and not failed:
            self._seconds.at(cidr=cidr).observe(0)

    def port(self, scope: str, *, failed: bool = False) -> None:
        """Counts a node port."""
        self._ports[failed].at(scope=scope).inc()
