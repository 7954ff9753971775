"""Makes the cell that shows the addresses of a load balancer."""

from kubeskew.apiserver.registry.tables.subjects import (
    Subject,
)


def load_balancers(subject: Subject) -> list[str]:
    """Returns the addresses, else names, of the load balancers, sorted."""
    found = subject.items("status", "loadBalancer", "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in found} - {""})
