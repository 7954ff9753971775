"""The CEL library of IP addresses and networks, with the errors of Go's net/netip.

Sources: k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go), 1.36; Go's net/netip (ParseAddr, ParsePrefix).
"""

import ipaddress
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.library.kubernetes import succeeds
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.go_formats import quoted

_DIGITS = frozenset("0123456789")
_HEXADECIMAL = _DIGITS | frozenset("abcdefABCDEF")


class AddressError(ValueError):
    """A text is no address or prefix; the message is Go's."""

    def __init__(self, text: str, what: str, at: str = "") -> None:
        where = f" (at {quoted(at)})" if at else ""
        super().__init__(f"ParseAddr({quoted(text)}): {what}{where}")


def parse_address(text: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address":
    """Keeps the zone of an address; raises AddressError."""
    for char in text:
        if char == ".":
            _check_four(text, 0, len(text))
            return ipaddress.IPv4Address(text)
        if char == ":":
            _check_six(text)
            return ipaddress.IPv6Address(text)
        if char == "%":
            raise AddressError(text, "missing IPv6 address")
    raise AddressError(text, "unable to parse IP")


def parse_prefix(text: str) -> "ipaddress.IPv4Interface | ipaddress.IPv6Interface":
    """Keeps the address besides the network; raises ValueError with Go's text."""
    address, slash, bits = text.rpartition("/")
    failure = f"netip.ParsePrefix({quoted(text)}): "
    if not slash:
        raise ValueError(failure + "no '/'")
    try:
        parsed = parse_address(address)
    except AddressError as error:
        raise ValueError(failure + str(error)) from None
    if "%" in address:
        raise ValueError(failure + "IPv6 zones cannot be present in a prefix")
    digits = bits.isascii() and bits.isdigit()
    if not digits or (len(bits) > 1 and bits[0] == "0"):
        raise ValueError(f"{failure}bad bits after slash: {quoted(bits)}")
    if int(bits) > parsed.max_prefixlen:
        raise ValueError(failure + "prefix length out of range")
    return ipaddress.ip_interface(text)


def _check_four(text: str, start: int, end: int) -> None:
    value, fields, length = 0, 0, 0
    for place in range(start, end):
        char = text[place]
        if char in _DIGITS:
            if length == 1 and value == 0:
                raise AddressError(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(char)
            length += 1
            if value > 255:
                raise AddressError(text, "IPv4 field has value >255")
        elif char == ".":
            if place in (start, end - 1) or text[place - 1] == ".":
                raise AddressError(text, "IPv4 field must have at least one digit", text[place:])
            if fields == 3:
                raise AddressError(text, "IPv4 address too long")
            fields, value, length = fields + 1, 0, 0
        else:
            raise AddressError(text, "unexpected character", text[place:])
    if fields < 3:
        raise AddressError(text, "IPv4 address too short")


def _check_six(text: str) -> None:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise AddressError(text, "zone must be a non-empty string")
    ellipsis, filled = -1, 0
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return
    while filled < 16:
        digits = _group(text, rest)
        if rest[digits : digits + 1] == ".":
            _embedded(text, rest, ellipsis, filled, len(text) - len(zone) - len(percent))
            filled, rest = filled + 4, ""
            break
        filled, rest = filled + 2, rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise AddressError(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise AddressError(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise AddressError(text, "multiple :: in address", rest)
            ellipsis, rest = filled, rest[1:]
            if not rest:
                break
    _check_length(text, rest, filled, ellipsis)


def _check_length(text: str, rest: str, filled: int, ellipsis: int) -> None:
    if rest:
        raise AddressError(text, "trailing garbage after address", rest)
    if filled < 16 and ellipsis < 0:
        raise AddressError(text, "address string too short")
    if filled == 16 and ellipsis >= 0:
        raise AddressError(text, "the :: must expand to at least one field of zeros")


def _group(text: str, rest: str) -> int:
    """Counts the hexadecimal digits at the start of `rest`, one group of an IPv6 address."""
    digits = 0
    while digits < len(rest) and rest[digits] in _HEXADECIMAL:
        if digits > 3:
            raise AddressError(text, "each group must have 4 or less digits", rest)
        digits += 1
    if digits == 0:
        raise AddressError(text, "each colon-separated field must have at least one digit", rest)
    return digits


def _embedded(text: str, rest: str, ellipsis: int, filled: int, end: int) -> None:
    if ellipsis < 0 and filled != 12:
        raise AddressError(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if filled + 4 > 16:
        raise AddressError(
            text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest
        )
    _check_four(text, end - len(rest), end)


class Address:
    cel_type = "net.IP"

    def __init__(self, text: str) -> None:
        try:
            self.value = parse_address(text)
        except AddressError as error:
            raise EvaluationError(
                f"IP Address {quoted(text)} parse error during conversion from string: {error}"
            ) from None
        if "%" in text:
            raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
        _refuse_mapped(self.value, text, "")

    @property
    def cel_size(self) -> int:
        return self.value.max_prefixlen // 8

    def __str__(self) -> str:
        return str(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


_PREFIX_FAILURE = "network address parse error during conversion from string: "


def _refuse_mapped(address: Any, text: str, before: str) -> None:
    if getattr(address, "ipv4_mapped", None) is not None:
        raise EvaluationError(f"{before}IPv4-mapped IPv6 address {quoted(text)} is not allowed")


class Network:
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

    def __str__(self) -> str:
        return str(self.interface)

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
    """A network contains another one only if that begins where it does: upstream's bug up to 1.32.3."""
    return _contains_network(network, other) and bool(other.interface.ip == network.value.network_address)


def _is_canonical(text: str) -> bool:
    return str(Address(text).value) == text


def _contains_address_text(network: Network, text: str) -> bool:
    """Unlike for networks, upstream gives no reason for a text that is no address."""
    try:
        address = Address(text)
    except EvaluationError:
        raise EvaluationError(NO_SUCH_OVERLOAD) from None
    return _contains_address(network, address)


def _masked(network: Network) -> Network:
    return Network(str(network.value))


def _containing(contains: Callable[[Network, Network], bool]) -> tuple[Overload, ...]:
    return (
        overload(
            "net.CIDR.containsCIDR(string) bool",
            lambda network, text: contains(network, Network(text)),
            "cidr_contains_cidr_string",
        ),
        overload("net.CIDR.containsCIDR(net.CIDR) bool", contains, "cidr_contains_cidr"),
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
    overload("net.CIDR.containsIP(string) bool", _contains_address_text, "cidr_contains_ip_string"),
    overload("net.CIDR.containsIP(net.IP) bool", _contains_address, "cidr_contains_ip_ip"),
    *_containing(_contains_network),
    overload("net.CIDR.ip() net.IP", lambda network: Address(str(network.interface.ip)), "cidr_ip"),
    overload("net.CIDR.prefixLength() int", lambda network: network.value.prefixlen),
    overload("net.CIDR.masked() net.CIDR", _masked),
    overload("string(net.CIDR) string", lambda network: str(network.interface)),
)
