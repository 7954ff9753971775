"""Checks string formats that a release knows, and request URIs as Go's url.ParseRequestURI does.

Source: apiextensions-apiserver pkg/apiserver/validation/formats.go, kube-openapi pkg/validation/strfmt, 1.36.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from kubeskew.apimachinery.cel.library.patterns import (
    is_base64,
    is_date,
    is_date_time,
    is_uuid,
    regular_expression,
)
from kubeskew.apimachinery.cel.times import loose_duration
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import SchemaFeatures

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^\s:\[\]<>\"%^`{|}\\/]|%[0-9a-fA-F]{2})*(?::[0-9]*)?")
_USER = re.compile(r"(?:[A-Za-z0-9\-._:~!$&'()*+,;=%@])*")
_NUMERIC: Final = {"integer": {"int32", "int64"}, "number": {"float", "double"}}
_NAMES: Final = frozenset({"k8sshortname", "k8slongname"})  # since 1.34


def is_request_uri(text: str) -> bool:
    """Absolute URIs, absolute paths and `*` are request URIs."""
    if not text or _CONTROL.search(text) or text.startswith(":"):
        return False
    if text == "*":
        return True
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and not _BAD_ESCAPE.search(slash + path)
    return not _BAD_ESCAPE.search(rest)


def _is_authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        return False
    return _HOST.fullmatch(host) is not None


def _matches(pattern: str) -> Callable[[str], bool]:

    def matches(text: str) -> bool:
        return regular_expression(pattern).fullmatch(text) is not None

    return matches


# --- addresses -------------------------------------------------------------------------------------------

_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=\d)")


def _ip(text: str) -> bool:
    """Leading zeros are fine and zones are not, as in Go."""
    if "%" in text:
        return False
    if "." in text:
        head, colon, tail = text.rpartition(":")
        text = head + colon + _LEADING_ZEROS.sub("", tail)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not re.fullmatch(r"[0-9]{1,3}", bits) or not _ip(address):
        return False
    return int(bits) <= (128 if ":" in address else 32)


def _mac(text: str) -> bool:
    for separator, digits in ((":", 2), ("-", 2), (".", 4)):
        groups = text.split(separator)
        if len(groups) * digits in {12, 16, 40} and all(
            re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", group) for group in groups
        ):
            return True
    return False


_HOSTNAME = _matches(r"[a1]-?[a1]{0,62}|(?:[a1](?:[a1-]{0,61}[a1])?\.)+a{2,63}")


def _hostname(text: str) -> bool:
    """Letters may be of any script.

    Symbols count as digits. The last of several labels has letters only.
    """
    shape = "".join(map(_host_char, text))
    labels = text.encode().split(b".")
    return _HOSTNAME(shape) and len(text.encode()) <= 255 and all(len(label) <= 63 for label in labels)


def _host_char(char: str) -> str:
    if char in "-.":
        return char
    kind = unicodedata.category(char)[0]
    return "a" if kind == "L" else "1" if kind == "S" or char in "0123456789" else "!"


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\x{10ffff}-]+"
_QUOTED = r'"(?:[^"\\\r\n]|\\[^\r\n])*"'
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]]*\])"
_EMAIL = _matches(rf"\s*(?:{_ADDRESS}|(?:(?:{_ATOM}|{_QUOTED}|[. ])+)?<\s*{_ADDRESS}\s*>)\s*")


def _duration(text: str) -> bool:
    try:
        loose_duration(text)
    except ValueError:
        return False
    return True


# --- numbers that people are given -----------------------------------------------------------------------

_CARD = _matches(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
    r"|6[27][0-9]{14}"
)


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD(digits):
        return False
    doubled = [int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((position + 1) * value for position, value in enumerate(values)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum((3 if position % 2 else 1) * int(digit) for position, digit in enumerate(digits[:12]))
    return (10 - total % 10) % 10 == int(digits[12])


def _quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _long_name(text: str) -> bool:
    return len(text) <= 253 and _LABELS(text)


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABELS = _matches(rf"{_LABEL}(\.{_LABEL})*")
_SHORT_NAME = _matches(_LABEL)
_HEX = "[0-9a-fA-F]"
_RGB = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

# By normalised name: dashes do not count.
_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(rf"{_HEX}{{24}}"),
    "uri": is_request_uri,
    "email": _EMAIL,
    "hostname": _hostname,
    "ipv4": lambda text: "." in text and _ip(text),
    "ipv6": lambda text: ":" in text and _ip(text),
    "cidr": _cidr,
    "mac": _mac,
    "uuid": is_uuid,
    "uuid3": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _matches(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(rf"rgb\(\s*{_RGB}\s*,\s*{_RGB}\s*,\s*{_RGB}\s*\)"),
    "byte": is_base64,
    "password": lambda _: True,
    "date": is_date,
    "duration": _duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT_NAME(text),
    "k8slongname": _long_name,
}


def is_known(name: str, type_: str, features: SchemaFeatures) -> bool:
    """`type_` is empty for a schema of any type, or of several."""
    if type_ in _NUMERIC:
        return features.numeric_formats and name in _NUMERIC[type_]
    normal = name.replace("-", "")
    known = normal in _CHECKS and (features.name_formats or normal not in _NAMES)
    return known and (type_ in {"", "string"} or not features.numeric_formats)


def is_recognized(name: str, type_: str, features: SchemaFeatures) -> bool:
    """Formats of numbers may go without a warning even if they are not checked."""
    if not features.numeric_formats and not features.warns_of_numbers and type_ != "string":
        return True  # 1.34 and 1.35 look at the formats of strings alone
    return is_known(name, type_, features)


def check_of(name: str) -> Callable[[str], bool] | None:
    """None for formats of numbers."""
    return _CHECKS.get(name.replace("-", ""))
