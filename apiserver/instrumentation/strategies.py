"""Counts what strategies do: they give services addresses and node ports, and ratchet custom resources.

Sources, 1.36: pkg/registry/core/service/{ipallocator,portallocator}/metrics.go,
apiextensions-apiserver/pkg/apiserver/validation/metrics.go. None of this waits, so it takes no time by the
clock of the server.
"""

from kubeskew.apimachinery.metrics.series import Families

_ADDRESSES = "kube_apiserver_clusterip_allocator_allocation"
_PORTS = "kube_apiserver_nodeport_allocator_allocation"


class StrategyMetrics:
    """Counts allocations, of which static ones were asked for and dynamic ones drawn, and ratcheting."""

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

        self._ratcheting = families.histograms(
            "apiextensions_apiserver_validation_ratcheting_seconds", "Seconds of comparing for ratcheting."
        ).at()

    def ratcheted(self) -> None:
        """Counts a changed custom resource, whose unchanged parts may be wrong."""
        self._ratcheting.observe(0)

    def address(self, cidr: str, scope: str, *, failed: bool = False, timed: bool = False) -> None:
        """Counts an address of a range."""
        self._addresses[failed].at(cidr=cidr, scope=scope).inc()
        if timed and not failed:
            self._seconds.at(cidr=cidr).observe(0)

    def port(self, scope: str, *, failed: bool = False) -> None:
        """Counts a node port."""
        self._ports[failed].at(scope=scope).inc()
