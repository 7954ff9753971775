"""IP addresses and networks.

Source: k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go), 1.36.
"""

import ipaddress
from functools import cached_property
from typing import Any

from apimachinery.cel.errors import EvaluationError
from apimachinery.cel.kubernetes import succeeds
from apimachinery.cel.overloads import Overload, overload


class Address:
    """An IP address value."""

    cel_type = "net.IP"

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.value = ipaddress.ip_address(text)
        except ValueError as error:
            raise EvaluationError(
                f'IP Address "{text}" parse error during conversion from string: {_reason(text, error)}'
            ) from None
        if "%" in text:
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
        if getattr(self.value, "ipv4_mapped", None) is not None:
            raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')

    @property
    def cel_size(self) -> int:
        return self.value.max_prefixlen // 8

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _reason(text: str, _: ValueError) -> str:
    """The reason in the words of Go's netip.ParseAddr, as far as they can be told."""
    if "." not in text and ":" not in text:
        return f'ParseAddr("{text}"): unable to parse IP'
    if ":" not in text:
        for field in text.split("."):
            if field == "":
                return f'ParseAddr("{text}"): IPv4 field must have at least one digit'
            if not field.isdigit():
                bad = next(char for char in field if not char.isdigit())
                return f'ParseAddr("{text}"): unexpected character (at "{text[text.index(bad) :]}")'
            if len(field) > 1 and field[0] == "0":
                return f'ParseAddr("{text}"): IPv4 field has octet with leading zero'
            if int(field) > 255:
                return f'ParseAddr("{text}"): IPv4 field has value >255'
        return f'ParseAddr("{text}"): IPv4 address too {"short" if text.count(".") < 3 else "long"}'
    return f'ParseAddr("{text}"): each colon-separated field must have at least one digit'


class Network:
    """A CIDR value."""

    cel_type = "net.CIDR"

    def __init__(self, text: str) -> None:
        failure = f'network address parse error during conversion from string: network address "{text}"'
        if "/" not in text:
            raise EvaluationError(f"{failure}: netip.ParsePrefix(\"{text}\"): no '/'")
        address, _, bits = text.rpartition("/")
        try:
            self.interface = ipaddress.ip_interface(text)
            if not bits.isdigit() or (len(bits) > 1 and bits[0] == "0") or "%" in address:
                raise ValueError
        except ValueError:
            raise EvaluationError(f'{failure}: netip.ParsePrefix("{text}"): {_bits(address, bits)}') from None
        if getattr(self.interface.ip, "ipv4_mapped", None) is not None:
            raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')

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


def _bits(address: str, bits: str) -> str:
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        return _reason(address, error)
    return f'bad bits after slash: "{bits}"' if not bits.isdigit() else "prefix length out of range"


def _contains_address(network: Network, address: Address) -> bool:
    return address.value in network.value


def _contains_network(network: Network, other: Network) -> bool:
    same = network.value.version == other.value.version
    return bool(
        same and network.value.prefixlen <= other.value.prefixlen and other.interface.ip in network.value
    )


def _is_canonical(text: str) -> bool:
    return str(Address(text).value) == text


def _masked(network: Network) -> Network:
    return Network(str(network.value))


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
        lambda network, text: _contains_address(network, Address(text)),
        "cidr_contains_ip_string",
    ),
    overload("net.CIDR.containsCIDR(net.CIDR) bool", _contains_network, "cidr_contains_cidr"),
    overload(
        "net.CIDR.containsCIDR(string) bool",
        lambda network, text: _contains_network(network, Network(text)),
        "cidr_contains_cidr_string",
    ),
    overload("net.CIDR.ip() net.IP", lambda network: Address(str(network.interface.ip)), "cidr_ip"),
    overload("net.CIDR.prefixLength() int", lambda network: network.value.prefixlen),
    overload("net.CIDR.masked() net.CIDR", _masked),
    overload("string(net.CIDR) string", lambda network: str(network.interface)),
)
