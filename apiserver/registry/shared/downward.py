"""Checks references to a pod's own fields and resources, from the environment and from volumes.

Source: pkg/apis/core/validation/validation.go (validateObjectFieldSelector,
validateContainerResourceFieldSelector) and pkg/apis/core/pods/helpers.go, 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.shared.amounts import ZERO

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_KNOWN = frozenset({*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_OLD_NAMES = {"spec.host": "spec.nodeName"}
_PAGES = ("requests.hugepages-", "limits.hugepages-")
_SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_WORDS = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def field_errors(reference: Object, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not field:
        yield required(child(path, "fieldPath" if version else "apiVersion"))
        return
    at = child(path, "fieldPath")
    plain, subscript = _subscripted(field)
    why = _not_convertible(version, plain, field)
    if why:
        yield invalid(at, field, f"error converting fieldPath: {why}")
    elif subscript is None:
        plain = _OLD_NAMES.get(plain, plain)
        if plain not in allowed:
            yield not_supported(at, plain, allowed)
    elif plain == "metadata.annotations":
        texts = names.qualified_name(subscript.lower())
        yield from (invalid(path, subscript.lower(), text) for text in texts)
    else:
        yield from (invalid(path, subscript, text) for text in names.qualified_name(subscript))


def _subscripted(field: str) -> tuple[str, str | None]:
    """`metadata.labels['x']` is taken apart."""
    found = re.fullmatch(r"(.*?)\['(.*)'\]", field, re.DOTALL)
    return (found[1], found[2]) if found and found[1] else (field, None)


def _not_convertible(version: str, plain: str, field: str) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if plain != field:
        if plain in {"metadata.annotations", "metadata.labels"}:
            return ""
        return f"field label does not support subscript: {field}"
    known = field in _KNOWN or field in _OLD_NAMES
    return "" if known else f"field label not supported: {field}"


def resource_errors(reference: Object, path: str, *, volume: bool) -> Iterator[FieldError]:
    """A `volume`'s reference must name the container."""
    name = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        yield required(child(path, "containerName"))
    elif not name:
        yield required(child(path, "resource"))
    elif name not in _RESOURCES and not name.startswith(_PAGES):
        yield not_supported(child(path, "resource"), name, _RESOURCES)
    divisor = Quantity.of(reference.get("divisor"))
    if divisor != ZERO:
        yield from _divisor_errors(name, divisor.canonical(), child(path, "divisor"))


def _divisor_errors(name: str, divisor: str, path: str) -> Iterator[FieldError]:
    kind = name.partition(".")[2]
    if name not in _RESOURCES and not name.startswith(_PAGES):
        return
    if kind == "cpu":
        if divisor not in {"1m", "1"}:
            yield invalid(path, name, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif divisor not in _SIZES.split(", "):
        word = _WORDS.get(kind, "hugepages")
        yield invalid(path, name, f"only divisor's values {_SIZES} are supported with the {word} resource")
