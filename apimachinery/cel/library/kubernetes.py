"""Kubernetes' quantities, semantic versions, URLs and JSON patch keys.

Source: k8s.io/apiserver/pkg/cel/library (quantity.go, semverlib.go, urls.go, jsonpatch.go), 1.36.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.urls import URL
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.semver import Semver
from kubeskew.apimachinery.quantity import Quantity

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


def _integer_quantity(number: int) -> Quantity:
    return Quantity(number, 0)


QUANTITIES: tuple[Overload, ...] = (
    overload(f"quantity(string) {_QUANTITY}", quantity),
    overload("isQuantity(string) bool", lambda text: succeeds(quantity, text)),
    overload(f"sign({_QUANTITY}) int", Quantity.sign),  # declared upstream as a function, not as a method
    overload(f"{_QUANTITY}.isGreaterThan({_QUANTITY}) bool", lambda a, b: a.compare(b) > 0),
    overload(f"{_QUANTITY}.isLessThan({_QUANTITY}) bool", lambda a, b: a.compare(b) < 0),
    overload(f"{_QUANTITY}.compareTo({_QUANTITY}) int", lambda a, b: a.compare(b)),
    overload(f"{_QUANTITY}.asApproximateFloat() double", lambda value: float(value.decimal())),
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


def version_of(value: Semver | str) -> Semver:
    """Returns a version that may be written as text, also with a `v` before it."""
    if isinstance(value, Semver):
        return value
    try:
        return Semver.parse_prefixed(value)
    except ValueError as error:
        raise EvaluationError(f'invalid version "{value}": {error}') from None


def _comparison(name: str, accept: frozenset[int]) -> Iterator[Overload]:
    """Yields the overloads of an operator for versions, either of which may be text."""

    def compared(left: Semver | str, right: Semver | str) -> bool:
        return version_of(left).compare(version_of(right)) in accept

    for left, right in ((_SEMVER, "string"), ("string", _SEMVER), (_SEMVER, _SEMVER)):
        yield overload(f"{name}({left},{right}) bool", compared)


# Not upstream's: KEP-4381's draft compares versions with text.
SEMVER_COMPARISONS: tuple[Overload, ...] = (
    *_comparison("_==_", frozenset({0})),
    *_comparison("_!=_", frozenset({-1, 1})),
    *_comparison("_<_", frozenset({-1})),
    *_comparison("_<=_", frozenset({-1, 0})),
    *_comparison("_>_", frozenset({1})),
    *_comparison("_>=_", frozenset({0, 1})),
)
HAS_KEY: tuple[Overload, ...] = (overload("map(K,V).has(K) bool", lambda entries, key: key in entries),)

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
