"""Addresses and node ports that a service asks for: in the range, and nobody else's.

Source: pkg/registry/core/service/{ipallocator,portallocator} and storage/alloc.go, 1.36; the text about an
address out of range is from memory.
"""

import ipaddress
from collections.abc import Iterator, Sequence

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, index, invalid

NODE_PORTS = range(30000, 32768)
_PORTS_TEXT = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
_NODE_PORT_TYPES = ("NodePort", "LoadBalancer")


def allocation_errors(spec: Object, others: Sequence[Object], address_range: str) -> list[FieldError]:
    """`others`: the specs of all other services."""
    return [*_addresses(spec, others, address_range), *_ports(spec, others)]


def _addresses(spec: Object, others: Sequence[Object], address_range: str) -> Iterator[FieldError]:
    network = ipaddress.ip_network(address_range)
    taken = {address for other in others for address in other.get("clusterIPs") or []}
    wanted = spec.get("clusterIPs") or []
    for address in wanted:
        if address in {"", "None"}:
            continue
        why = ""
        if address in taken:
            why = "provided IP is already allocated"
        elif ipaddress.ip_address(address) not in network:
            why = (
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}"
            )
        if why:
            yield invalid("spec.clusterIPs", wanted, f"failed to allocate IP {address}: {why}")


def _ports(spec: Object, others: Sequence[Object]) -> Iterator[FieldError]:
    if spec.get("type") not in _NODE_PORT_TYPES:
        return
    taken = {port.get("nodePort") for other in others for port in other.get("ports") or []}
    for position, port in enumerate(spec.get("ports") or []):
        number = port.get("nodePort") or 0
        at = child(index("spec.ports", position), "nodePort")
        if number and number not in NODE_PORTS:
            why = f"provided port is not in the valid range. The range of valid ports is {_PORTS_TEXT}"
            yield invalid(at, number, why)
        elif number and number in taken:
            yield invalid(at, number, "provided port is already allocated")
