"""Holds the rules of what a driver tells of a network device.

Source: pkg/apis/resource/validation/validation.go (validateNetworkDeviceData) and k8s.io/apimachinery
pkg/util/validation/ip.go (IsValidInterfaceAddress), 1.32 to 1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.shared import addresses

MAX_IPS = 16
MAX_INTERFACE_NAME = 256
MAX_HARDWARE_ADDRESS = 128
_ADDRESS_TEXT = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def network_data_errors(data: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    for name, most in (("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)):
        if len((data.get(name) or "").encode()) > most:
            yield devices.over_length(child(path, name), most, rules)
    canonical = rules.canonical_addresses
    rule, identity = (_interface_address, str) if canonical else (_network, _same)
    yield from devices.unique(data.get("ips"), MAX_IPS, rule, child(path, "ips"), rules, identity, "")


def _same(text: str) -> str:
    """Returns the one text for all ways to write an address (1.32)."""
    return addresses.interface(text) or ""


def _network(text: str, path: str) -> Iterator[FieldError]:
    if addresses.interface(text) is None:
        yield invalid(path, text, addresses.CIDR_TEXT)


def _interface_address(text: str, path: str) -> Iterator[FieldError]:
    canonical = addresses.interface(text)
    if canonical is None:
        yield invalid(path, text, _ADDRESS_TEXT)
    elif canonical != text:
        yield invalid(path, text, f'must be in canonical form ("{canonical}")')
