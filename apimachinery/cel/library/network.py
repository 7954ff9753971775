"""IP addresses and networks.

Source: k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go), 1.36.
"""

import ipaddress
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.library.addresses import AddressError, parse_address, parse_prefix
from kubeskew.apimachinery.cel.library.kubernetes import succeeds
from kubeskew.apimachinery.cel.overloads import Overload, overload


class Address:
    """An IP address value."""

    cel_type = "net.IP"

    def __init__(self, text: str) -> None:
        try:
            self.value = parse_address(text)
        except AddressError as error:
            raise EvaluationError(
                f'IP Address "{text}" parse error during conversion from string: {error}'
            ) from None
        if "%" in text:
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
        _refuse_mapped(self.value, text, "")

    @property
    def cel_size(self) -> int:
        return self.value.max_prefixlen // 8

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


_PREFIX_FAILURE = "network address parse error during conversion from string: "


def _refuse_mapped(address: Any, text: str, before: str) -> None:
    if getattr(address, "ipv4_mapped", None) is not None:
        raise EvaluationError(f'{before}IPv4-mapped IPv6 address "{text}" is not allowed')


class Network:
    """A CIDR value."""

    cel_type = "net.CIDR"

    def __init__(self, text: str) -> None:
        try:
            self.interface = parse_prefix(text)
        except ValueError as error:
            raise EvaluationError(
                f"{_PREFIX_FAILURE}{_PREFIX_FAILURE}{error}"
            ) from None  # twice, as upstream
        _refuse_mapped(self.interface.ip, text, _PREFIX_FAILURE)

    @property
    def cel_size(self) -> int:
        bits: int = self.value.prefixlen
        return -(-bits // 8)

    @cached_property
    def value(self) -> Any:
        return self.interface.network

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)


def _contains_address(network: Network, address: Address) -> bool:
    return address.value in network.value


def _contains_network(network: Network, other: Network) -> bool:
    same = network.value.version == other.value.version
    return bool(
        same and network.value.prefixlen <= other.value.prefixlen and other.interface.ip in network.value
    )


def _begins_alike(network: Network, other: Network) -> bool:
    """Returns whether a network contains another one that begins where it does, as up to 1.32.3."""
    return _contains_network(network, other) and bool(other.interface.ip == network.value.network_address)


def _is_canonical(text: str) -> bool:
    return str(Address(text).value) == text


def _contains_address_text(network: Network, text: str) -> bool:
    """Returns whether a network contains an address given as text.

    Unlike for networks, upstream gives no reason for a text that is no address.
    """
    try:
        address = Address(text)
    except EvaluationError:
        raise EvaluationError(NO_SUCH_OVERLOAD) from None
    return _contains_address(network, address)


def _masked(network: Network) -> Network:
    return Network(str(network.value))


def _containing(contains: Callable[[Network, Network], bool]) -> tuple[Overload, ...]:
    """Returns the functions that say whether a network is inside of another one."""
    return (
        overload("net.CIDR.containsCIDR(net.CIDR) bool", contains, "cidr_contains_cidr"),
        overload(
            "net.CIDR.containsCIDR(string) bool",
            lambda network, text: contains(network, Network(text)),
            "cidr_contains_cidr_string",
        ),
    )


MISSING_INNER_NETWORKS = {function.identity: function for function in _containing(_begins_alike)}

NETWORKS: tuple[Overload, ...] = (
    overload("ip(string) net.IP", Address),
    overload("isIP(string) bool", lambda text: succeeds(Address, text)),
    overload("ip.isCanonical(string) bool", _is_canonical),
    overload("net.IP.family() int", lambda address: address.value.version),
    overload("net.IP.isLoopback() bool", lambda address: address.value.is_loopback),
    overload("net.IP.isUnspecified() bool", lambda address: address.value.is_unspecified),
    overload(
        "net.IP.isLinkLocalMulticast() bool",
        lambda address: (
            address.value in ipaddress.ip_network("224.0.0.0/24")
            if address.value.version == 4
            else address.value.is_multicast and address.value.packed[1] & 0x0F == 2
        ),
    ),
    overload(
        "net.IP.isLinkLocalUnicast() bool",
        lambda address: address.value.is_link_local,
    ),
    overload(
        "net.IP.isGlobalUnicast() bool",
        lambda address: (
            not (
                address.value.is_unspecified
                or address.value.is_loopback
                or address.value.is_multicast
                or address.value.is_link_local
                or str(address.value) == "255.255.255.255"
            )
        ),
    ),
    overload("string(net.IP) string", lambda address: str(address.value)),
    overload("cidr(string) net.CIDR", Network),
    overload("isCIDR(string) bool", lambda text: succeeds(Network, text)),
    overload("net.CIDR.containsIP(net.IP) bool", _contains_address, "cidr_contains_ip_ip"),
    overload(
        "net.CIDR.containsIP(string) bool",
        _contains_address_text,
        "cidr_contains_ip_string",
    ),
    *_containing(_contains_network),
    overload("net.CIDR.ip() net.IP", lambda network: Address(str(network.interface.ip)), "cidr_ip"),
    overload("net.CIDR.prefixLength() int", lambda network: network.value.prefixlen),
    overload("net.CIDR.masked() net.CIDR", _masked),
    overload("string(net.CIDR) string", lambda network: str(network.interface)),
)
