"""Checks IP addresses and CIDRs, in the forms that older fields take, and makes the warnings about them.

Source: k8s.io/apimachinery pkg/util/validation/ip.go and pkg/apis/core/validation (IsValidIPForLegacyField,
ValidateEndpointIP), 1.36. Go's older parser takes leading zeros; `strict` (gate StrictIPCIDRValidation) does
not, but for values that were there before.
"""

import ipaddress
from collections.abc import Collection
from functools import lru_cache

from kubeskew.apimachinery.field import FieldError, invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _plain(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else found  # Go's parsers of the kind know no zones


def _without_zeros(text: str) -> str:
    head, colon, tail = text.rpartition(":")
    parts = tail.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return text
    return f"{head}{colon}{'.'.join(str(int(part)) for part in parts)}" if len(parts) > 1 else text


@lru_cache(maxsize=4096)
def parse(text: str) -> Address | None:
    """Addresses are read as by Go's sloppy parser; an IPv4-mapped one is an IPv4 address."""
    found = _plain(text) or _plain(_without_zeros(text))
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_mapped(text: str) -> bool:
    found = _plain(_without_zeros(text))
    return isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None


def ip_errors(path: str, text: str, *, strict: bool, known: Collection[str] = ()) -> list[FieldError]:
    """`known`: values that the old object had."""
    if text in known:
        return []
    if parse(text) is None:
        return [invalid(path, text, IP_TEXT)]
    if strict and _plain(text) is None:
        return [invalid(path, text, "must not have leading 0s")]
    if strict and _is_mapped(text):
        return [invalid(path, text, "must not be an IPv4-mapped IPv6 address")]
    return []


def _parts(text: str) -> tuple[Address, int] | None:
    """A CIDR is an address and the length of its prefix; None for other texts."""
    head, slash, length = text.partition("/")
    address = parse(head)
    if not slash or address is None or not (length.isascii() and length.isdigit()):
        return None
    most = 32 if address.version == 4 and ":" not in head else 128
    if int(length) > most:
        return None
    bits = int(length) - 96 if most == 128 and address.version == 4 else int(length)
    return (address, bits) if bits >= 0 else None


def network(text: str) -> Network | None:
    """None means that the text is no CIDR."""
    found = _parts(text)
    return None if found is None else ipaddress.ip_network(f"{found[0]}/{found[1]}", strict=False)


def interface(text: str) -> str | None:
    """The address has the length of its prefix, and is written as it should be; None if the text is none."""
    found = _parts(text)
    return None if found is None else f"{found[0]}/{found[1]}"


def cidr_errors(path: str, text: str, *, strict: bool, known: Collection[str] = ()) -> list[FieldError]:
    if text in known:
        return []
    found, inside = _parts(text), network(text)
    if found is None or inside is None:
        return [invalid(path, text, CIDR_TEXT)]
    head, _, length = text.partition("/")
    if strict and (_plain(head) is None or (len(length) > 1 and length[0] == "0")):
        return [invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if strict and _is_mapped(head):
        return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if strict and found[0] != inside.network_address:
        return [invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def endpoint_errors(path: str, text: str) -> list[FieldError]:
    """Traffic may not be sent to an address that is unspecified, local or of the link."""
    address = parse(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    errors = []
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if address in _LINK_MULTICAST[address.version]:
        text_of_range = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, text, text_of_range))
    return errors


_INVALID_LATER = "will be invalid in a future Kubernetes release"
_LINK_MULTICAST: dict[int, Network] = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}


def is_dual_stack(texts: Collection[str]) -> bool:
    """Both families have an address (netutils.IsDualStackIPStrings)."""
    return {address.version for address in map(parse, texts) if address is not None} == {4, 6}


def is_v6(text: str) -> bool:
    address = parse(text)
    return address is not None and address.version == 6


def ip_warnings(path: str, text: str) -> list[str]:
    address = parse(text)
    if address is None:
        return []
    if _plain(text) is None or _is_mapped(text):
        return [
            (
                f'{path}: non-standard IP address "{text}" will be considered invalid in a future Kubernetes '
                f'release: use "{address}"'
            )
        ]
    if address.version == 6 and str(address) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']
    return []


def cidr_warnings(path: str, text: str) -> list[str]:
    found, inside = _parts(text), network(text)
    if found is None or inside is None:
        return []
    warnings = []
    if found[0] != inside.network_address:
        alone = f"{found[0]}/{inside.max_prefixlen}"
        warnings.append(
            f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{inside}" or "{alone}"?)'
        )
    head, _, length = text.partition("/")
    if _plain(head) is None or _is_mapped(head) or (len(length) > 1 and length[0] == "0"):
        warnings.append(
            f'{path}: non-standard CIDR value "{text}" will be considered invalid in a future Kubernetes '
            f'release: use "{inside}"'
        )
    if not warnings and inside.version == 6 and str(inside) != text:
        warnings.append(
            f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{inside}")'
        )
    return warnings


def old_ip_warnings(path: str, text: str) -> list[str]:
    """Services up to 1.32 get these warnings, which say why Go's netip does not read an address."""
    address = parse(text)
    if address is None:
        return []
    if ":" not in text and _plain(text) is None:
        return [f"{path}: IP address was accepted, but {_INVALID_LATER}: {_leading_zero(text)}"]
    return _not_canonical(path, "address", text, _canonical(text, address))


def old_cidr_warnings(path: str, text: str) -> list[str]:
    found = _parts(text)
    if found is None:
        return []
    head, _, length = text.partition("/")
    why = ""
    if ":" not in head and _plain(head) is None:
        why = _leading_zero(head)
    elif len(length) > 1 and length[0] == "0":
        why = f'bad bits after slash: "{length}"'
    if why:
        said = f'netip.ParsePrefix("{text}"): {why}'
        return [f"{path}: IP prefix was accepted, but {_INVALID_LATER}: {said}"]
    return _not_canonical(path, "prefix", text, f"{_canonical(head, found[0])}/{int(length)}")


def _leading_zero(text: str) -> str:
    return f'ParseAddr("{text}"): IPv4 field has octet with leading zero'


def _canonical(text: str, address: Address) -> str:
    """A mapped address stays a mapped one in Go's form."""
    return f"::ffff:{address}" if ":" in text and address.version == 4 else str(address)


def _not_canonical(path: str, what: str, text: str, canonical: str) -> list[str]:
    if ":" not in text or canonical == text:
        return []
    form = f'is not in RFC 5952 canonical format ("{canonical}"), which may cause controller apply-loops'
    return [f'{path}: IPv6 {what} "{text}" {form}']
