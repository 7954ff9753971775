"""Describes errors in IP addresses and prefixes in the words of Go's net/netip.

Source: Go's net/netip (ParseAddr, ParsePrefix).
"""

import ipaddress

from kubeskew.apimachinery.go_text import quoted

_DIGITS = frozenset("0123456789")
_HEXADECIMAL = _DIGITS | frozenset("abcdefABCDEF")


class AddressError(ValueError):
    """A text is no address or prefix; the message is Go's."""

    def __init__(self, text: str, what: str, at: str = "") -> None:
        where = f" (at {quoted(at)})" if at else ""
        super().__init__(f"ParseAddr({quoted(text)}): {what}{where}")


def parse_address(text: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address":
    """Returns the address, with its zone if it has one; raises AddressError."""
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
    """Returns the network with its address; raises ValueError."""
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
