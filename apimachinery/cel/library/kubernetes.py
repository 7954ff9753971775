"""Kubernetes' own CEL libraries: quantities, semantic versions, URLs, JSON patch keys and named formats.

URLs are read as Go's `url.ParseRequestURI` reads them. Named formats are those of
`format.dns1123Label().validate(text)`.

Sources: k8s.io/apiserver/pkg/cel/library (quantity.go, semverlib.go, urls.go, jsonpatch.go), 1.36; Go's
net/url.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from kubeskew.apimachinery import names
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.patterns import is_base64, is_date, is_date_time, is_uuid
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.values import NONE, Optional, Semver
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.names import NameCheck
from kubeskew.apimachinery.quantity import Quantity

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})(.{0,2})", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff%]*")
_PATH = "/:@!$&'()*+,;=-._~"
Check = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL; `cel_type` is the type's name in expressions."""

    text: str
    scheme: str
    host: str
    escaped_path: str
    query: dict[str, list[str]]

    cel_type = "kubernetes.URL"

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def parse(cls, text: str) -> "URL":
        """Raises EvaluationError with Go's reason behind upstream's words."""
        try:
            whole = cls._parse(text)  # a fragment is taken for a part of the path or query here
            return replace(cls._parse(text.partition("#")[0]), text=text) if "#" in text else whole
        except ValueError as error:
            reason = f"parse {quoted(text)}: {error}"
            raise EvaluationError(f"URL parse error during conversion from string: {reason}") from None

    @classmethod
    def _parse(cls, text: str) -> "URL":
        if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
            raise ValueError("net/url: invalid control character in URL")
        if text == "":
            raise ValueError("empty url")
        if text == "*":
            return cls(text, "", "", "*", {})
        scheme, rest = cls._scheme(text)
        rest, _, query = rest.partition("?")
        if not rest.startswith("/"):
            if scheme:
                return cls(text, scheme, "", "", _query(query))
            raise ValueError("invalid URI for request")
        host, path = "", rest
        if rest.startswith("//") and (scheme or not rest.startswith("///")):
            authority, slash, tail = rest[2:].partition("/")
            host, path = _host(authority.rpartition("@")[2]), slash + tail
        _check_escapes(path)
        return cls(text, scheme, host, quote(path, safe=_PATH + "%"), _query(query))

    @staticmethod
    def _scheme(text: str) -> tuple[str, str]:
        found = _SCHEME.match(text)
        if found:
            return found[1].lower(), text[found.end() :]
        if text.startswith(":"):
            raise ValueError("missing protocol scheme")
        return "", text

    @property
    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        return self.host.rpartition("]")[2].partition(":")[2]


def _host(text: str) -> str:
    if text.startswith("["):
        if "]" not in text:
            raise ValueError("missing ']' in host")
        port = text.rpartition("]")[2]
    else:
        port = text[text.rfind(":") :] if ":" in text else ""
    if port and not re.fullmatch(r":[0-9]*", port):
        raise ValueError(f'invalid port "{port}" after host')
    found = _HOST.match(text)
    if found is None or found.end() != len(text):
        place = found.end() if found else 0
        raise ValueError(f'invalid character "{text[place]}" in host name')
    _check_escapes(text)
    return unquote(text)


def _check_escapes(text: str) -> None:
    found = _ESCAPE.search(text)
    if found:
        raise ValueError(f'invalid URL escape "%{found[1]}"')


def _query(text: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for part in text.split("&"):
        if not part or ";" in part or _ESCAPE.search(part):
            continue
        key, _, value = part.partition("=")
        values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return values


_QUANTITY, _SEMVER, _URL = "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"


def quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def succeeds(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except (ValueError, EvaluationError):
        return False
    return True


def _as_integer(value: Quantity) -> int:
    number = value.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


_MOST_POWER = 308  # of ten, that fits a double


def _approximate(value: Quantity) -> float:
    """Rounds twice, as upstream multiplies by a power of ten."""
    if abs(value.exponent) > _MOST_POWER:
        return 0.0 if value.exponent < 0 else value.sign() * math.inf
    return float(value.unscaled) * 10.0**value.exponent if value.exponent else float(value.unscaled)


def _integer_quantity(number: int) -> Quantity:
    return Quantity(number, 0)


QUANTITIES: tuple[Overload, ...] = (
    overload(f"quantity(string) {_QUANTITY}", quantity),
    overload("isQuantity(string) bool", lambda text: succeeds(quantity, text)),
    overload(f"sign({_QUANTITY}) int", Quantity.sign),  # declared upstream as a function, not as a method
    overload(f"{_QUANTITY}.isGreaterThan({_QUANTITY}) bool", lambda a, b: a.compare(b) > 0),
    overload(f"{_QUANTITY}.isLessThan({_QUANTITY}) bool", lambda a, b: a.compare(b) < 0),
    overload(f"{_QUANTITY}.compareTo({_QUANTITY}) int", lambda a, b: a.compare(b)),
    overload(f"{_QUANTITY}.asApproximateFloat() double", _approximate),
    overload(f"{_QUANTITY}.asInteger() int", _as_integer),
    overload(f"{_QUANTITY}.isInteger() bool", lambda value: value.as_int64() is not None),
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


STRICT_SEMVERS: tuple[Overload, ...] = (  # without normalization
    overload(f"semver(string) {_SEMVER}", _semver),
    overload("isSemver(string) bool", lambda text: succeeds(_semver, text)),
    overload(f"{_SEMVER}.major() int", lambda version: version.major),
    overload(f"{_SEMVER}.minor() int", lambda version: version.minor),
    overload(f"{_SEMVER}.patch() int", lambda version: version.patch),
    overload(f"{_SEMVER}.isGreaterThan({_SEMVER}) bool", lambda a, b: a.compare(b) > 0),
    overload(f"{_SEMVER}.isLessThan({_SEMVER}) bool", lambda a, b: a.compare(b) < 0),
    overload(f"{_SEMVER}.compareTo({_SEMVER}) int", lambda a, b: a.compare(b)),
)
SEMVERS: tuple[Overload, ...] = (
    *STRICT_SEMVERS,
    overload(f"semver(string,bool) {_SEMVER}", _semver),
    overload("isSemver(string,bool) bool", lambda text, normalize: succeeds(_semver, text, normalize)),
)

URLS: tuple[Overload, ...] = (
    overload(f"url(string) {_URL}", URL.parse),
    overload("isURL(string) bool", lambda text: succeeds(URL.parse, text)),
    overload(f"{_URL}.getScheme() string", lambda url: url.scheme),
    overload(f"{_URL}.getHost() string", lambda url: url.host),
    overload(f"{_URL}.getHostname() string", lambda url: url.hostname),
    overload(f"{_URL}.getPort() string", lambda url: url.port),
    overload(f"{_URL}.getEscapedPath() string", lambda url: url.escaped_path),
    overload(f"{_URL}.getQuery() map(string,list(string))", lambda url: url.query),
)

JSON_PATCH: tuple[Overload, ...] = (
    overload("jsonpatch.escapeKey(string) string", lambda key: key.replace("~", "~0").replace("/", "~1")),
)


class Format:
    """A named format; `regex_size` is the cost of its check."""

    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, regex_size: int, check: Check) -> None:
        self.name = name
        self.regex_size = regex_size
        self._check = check

    def validate(self, text: str) -> Optional:
        """The errors, or `optional.none()` if the text is valid."""
        problems = self._check(text)
        return Optional(problems, True) if problems else NONE


def _parsed(message: str, fits: Callable[[str], bool]) -> Check:
    return lambda text: [] if fits(text) else [message]


def _prefix(check: NameCheck) -> Check:
    """A generated name's prefix may end with a dash."""
    return lambda text: check(text, True)


def _uri(text: str) -> list[str]:
    try:
        URL.parse(text)
    except EvaluationError as error:
        return [str(error).partition("conversion from string: ")[2]]
    return []


_DATE_TIME_SIZE = 71  # length of upstream's pattern, as the others

FORMATS_BY_NAME: Mapping[str, Format] = {
    format_.name: format_
    for format_ in (
        Format("dns1123Label", 30, names.dns1123_label),
        Format("dns1123Subdomain", 60, names.dns1123_subdomain),
        Format("dns1035Label", 30, names.dns1035_label),
        Format("qualifiedName", 60, names.qualified_name),
        Format("dns1123LabelPrefix", 30, _prefix(names.dns1123_label)),
        Format("dns1123SubdomainPrefix", 60, _prefix(names.dns1123_subdomain)),
        Format("dns1035LabelPrefix", 30, _prefix(names.dns1035_label)),
        Format("labelValue", 40, names.label_value),
        Format("uri", 1103, _uri),
        Format("uuid", 70, _parsed("does not match the UUID format", is_uuid)),
        Format("byte", 84, _parsed("invalid base64", is_base64)),
        Format("date", _DATE_TIME_SIZE, _parsed("invalid date", is_date)),
        Format("datetime", _DATE_TIME_SIZE, _parsed("invalid datetime", is_date_time)),
    )
}


def _named(name: str) -> Optional:
    found = FORMATS_BY_NAME.get(name)
    return Optional(found, True) if found else NONE


def _constant(value: Format) -> Callable[[], Format]:
    return lambda: value


FORMATS: tuple[Overload, ...] = (
    overload("format.named(string) optional(kubernetes.NamedFormat)", _named),
    overload("kubernetes.NamedFormat.validate(string) optional(list(string))", Format.validate),
    *(
        overload(f"format.{name}() kubernetes.NamedFormat", _constant(value))
        for name, value in FORMATS_BY_NAME.items()
    ),
)
