"""The CEL libraries that Kubernetes adds: quantities, semantic versions, IP addresses, CIDRs, URLs, formats.

Source: k8s.io/apiserver/pkg/cel/library, 1.36.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from apimachinery.cel.errors import EvaluationError
from apimachinery.cel.overloads import Overload, overload
from apimachinery.cel.semver import Semver
from apimachinery.cel.values import NONE, Optional, equal
from apimachinery.quantity import Quantity

_QUANTITY, _SEMVER = "kubernetes.Quantity", "kubernetes.Semver"


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _succeeds(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except (ValueError, EvaluationError):
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    value = quantity.as_int64()
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _integer_quantity(number: int) -> Quantity:
    return Quantity.parse(str(number))


QUANTITIES: tuple[Overload, ...] = (
    overload(f"quantity(string) {_QUANTITY}", _quantity),
    overload("isQuantity(string) bool", lambda text: _succeeds(_quantity, text)),
    overload(f"sign({_QUANTITY}) int", Quantity.sign),  # declared upstream as a function, not as a method
    overload(f"{_QUANTITY}.isGreaterThan({_QUANTITY}) bool", lambda a, b: a.compare(b) > 0),
    overload(f"{_QUANTITY}.isLessThan({_QUANTITY}) bool", lambda a, b: a.compare(b) < 0),
    overload(f"{_QUANTITY}.compareTo({_QUANTITY}) int", lambda a, b: a.compare(b)),
    overload(f"{_QUANTITY}.asApproximateFloat() double", lambda quantity: float(quantity.decimal())),
    overload(f"{_QUANTITY}.asInteger() int", _as_integer),
    overload(f"{_QUANTITY}.isInteger() bool", lambda quantity: quantity.as_int64() is not None),
    overload(f"{_QUANTITY}.add({_QUANTITY}) {_QUANTITY}", lambda a, b: a + b),
    overload(f"{_QUANTITY}.add(int) {_QUANTITY}", lambda a, b: a + _integer_quantity(b)),
    overload(f"{_QUANTITY}.sub({_QUANTITY}) {_QUANTITY}", lambda a, b: a - b),
    overload(f"{_QUANTITY}.sub(int) {_QUANTITY}", lambda a, b: a - _integer_quantity(b)),
)


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver.parse_normalized(text) if normalize else Semver.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


SEMVERS: tuple[Overload, ...] = (
    overload(f"semver(string) {_SEMVER}", _semver),
    overload(f"semver(string,bool) {_SEMVER}", _semver),
    overload("isSemver(string) bool", lambda text: _succeeds(_semver, text)),
    overload("isSemver(string,bool) bool", lambda text, normalize: _succeeds(_semver, text, normalize)),
    overload(f"{_SEMVER}.major() int", lambda version: version.major),
    overload(f"{_SEMVER}.minor() int", lambda version: version.minor),
    overload(f"{_SEMVER}.patch() int", lambda version: version.patch),
    overload(f"{_SEMVER}.isGreaterThan({_SEMVER}) bool", lambda a, b: a.compare(b) > 0),
    overload(f"{_SEMVER}.isLessThan({_SEMVER}) bool", lambda a, b: a.compare(b) < 0),
    overload(f"{_SEMVER}.compareTo({_SEMVER}) int", lambda a, b: a.compare(b)),
)


class Address:
    """An IP address value."""

    cel_type = "net.IP"

    def __init__(self, text: str) -> None:
        try:
            self.value = ipaddress.ip_address(text)
        except ValueError:
            raise EvaluationError(f'IP Address "{text}" parse error during conversion from string') from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


_NOT_A_NETWORK = 'network address parse error during conversion from string: "{}"'


class Network:
    """A CIDR value."""

    cel_type = "net.CIDR"

    def __init__(self, text: str) -> None:
        try:
            self.interface = ipaddress.ip_interface(text)
        except ValueError:
            raise EvaluationError(
                f'network address parse error during conversion from string: "{text}"'
            ) from None
        if "/" not in text:
            raise EvaluationError(_NOT_A_NETWORK.format(text))
        self.value = self.interface.network

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)


def _contains_ip(network: Network, address: Address) -> bool:
    return address.value in network.value


NETWORKS: tuple[Overload, ...] = (
    overload("ip(string) net.IP", Address),
    overload("isIP(string) bool", lambda text: _succeeds(Address, text)),
    overload("net.IP.family() int", lambda address: address.value.version),
    overload("net.IP.isLoopback() bool", lambda address: address.value.is_loopback),
    overload("net.IP.isUnspecified() bool", lambda address: address.value.is_unspecified),
    overload("string(net.IP) string", lambda address: str(address.value)),
    overload("cidr(string) net.CIDR", Network),
    overload("isCIDR(string) bool", lambda text: _succeeds(Network, text)),
    overload("net.CIDR.containsIP(net.IP) bool", _contains_ip),
    overload("net.CIDR.containsIP(string) bool", lambda net, text: _contains_ip(net, Address(text))),
    overload("net.CIDR.ip() net.IP", lambda network: Address(str(network.interface.ip))),
    overload("net.CIDR.prefixLength() int", lambda network: network.value.prefixlen),
    overload("isURL(string) bool", lambda text: bool(urlsplit(text).scheme) or text.startswith("/")),
)


class Format:
    """A named format of strings: `format.dns1123Label()`."""

    cel_type = "kubernetes.NamedFormat"

    def __init__(self, pattern: str, limit: int, message: str) -> None:
        self._pattern = re.compile(pattern)
        self._limit = limit
        self._message = message

    def validate(self, text: str) -> Optional:
        """The list of what is wrong, or none."""
        errors = [f"must be no more than {self._limit} characters"] if len(text) > self._limit else []
        if not self._pattern.fullmatch(text):
            errors.append(self._message)
        return Optional(errors, True) if errors else NONE


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FORMATS = {
    "dns1123Label": Format(
        _LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
        "start and end with an alphanumeric character",
    ),
    "dns1123Subdomain": Format(
        rf"{_LABEL}(\.{_LABEL})*",
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
        "must start and end with an alphanumeric character",
    ),
}

FORMATS: tuple[Overload, ...] = (
    overload("format.dns1123Label() kubernetes.NamedFormat", lambda: _FORMATS["dns1123Label"]),
    overload("format.dns1123Subdomain() kubernetes.NamedFormat", lambda: _FORMATS["dns1123Subdomain"]),
    overload("kubernetes.NamedFormat.validate(string) optional_type", Format.validate),
)


_VALUES_PER_LIST = 48  # resource.k8s.io: attribute values per device


def _includes(value: Any, wanted: Any) -> bool:
    """DRA's `includes`: a scalar is a list of one."""
    if isinstance(value, list) and len(value) > _VALUES_PER_LIST:
        raise EvaluationError(
            f"'includes' function cannot be applied to lists longer than {_VALUES_PER_LIST} values"
        )
    return any(equal(item, wanted) for item in value) if isinstance(value, list) else equal(value, wanted)


DEVICE_FUNCTIONS: tuple[Overload, ...] = (overload("dyn.includes(dyn) bool", _includes),)
