"""Holds the rules of what devices take of a node's own resources (1.36, renamed in 1.37).

Source: pkg/apis/resource/validation/validation.go, 1.36 and 1.37.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.field import FieldError, child, invalid, key, not_found, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_NATIVE_PREFIX = "kubernetes.io/"
_NO_NATIVE = "must be a node allocatable resource name"
_POSITIVE = "must be positive"
_NOT_NEGATIVE = "must be non-negative"


def node_resource_errors(device: Object, path: str) -> Iterator[FieldError]:
    """Checks the resources; `path` is that of the device."""
    capacity = device.get("capacity") or {}
    at = child(path, "nodeAllocatableResources")
    for name, item in sorted((device.get("nodeAllocatableResources") or {}).items()):
        where = key(at, name)
        yield from _name(name, where)
        mapping, overhead = item.get("mapping"), item.get("overhead")
        if mapping is None and overhead is None:
            yield required(where, "at least one of mapping or overhead must be set")
        if mapping is not None:
            yield from _mapping(mapping, capacity, child(where, "mapping"))
        if overhead is not None:
            yield from _overhead(overhead, child(where, "overhead"))
    at = child(path, "nodeAllocatableResourceMappings")
    for name, item in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        where = key(at, name)
        if "/" in name and _NATIVE_PREFIX not in name:
            yield invalid(where, name, _NO_NATIVE)
        if item.get("capacityKey") is not None:
            yield from _capacity(item["capacityKey"], capacity, child(where, "capacityKey"))
        if item.get("allocationMultiplier") is not None:
            yield from _signed(
                item["allocationMultiplier"], child(where, "allocationMultiplier"), 1, _POSITIVE
            )


def _name(name: str, path: str) -> Iterator[FieldError]:
    if name not in _NATIVE and not name.startswith("hugepages-"):
        yield invalid(path, name, _NO_NATIVE)


def _mapping(mapping: Object, capacity: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    at = child(path, "capacityMultiplier")
    if name is not None:
        yield from _capacity(name, capacity, child(path, "capacityKey"))
        if multiplier is None:
            yield required(at, "capacityMultiplier is required when capacityKey is set")
        else:
            yield from _signed(multiplier, at, 1, _POSITIVE)
    if mapping.get("deviceMultiplier") is not None:
        yield from _signed(mapping["deviceMultiplier"], child(path, "deviceMultiplier"), 1, _POSITIVE)
    if multiplier is not None and name is None:
        text = "capacityKey is required when capacityMultiplier is set"
        yield required(child(path, "capacityKey"), text)


def _capacity(name: str, capacity: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not name:
        yield invalid(path, "", "capacityKey must not be an empty string")
    elif name not in capacity:
        yield not_found(path, name)


def _overhead(overhead: Object, path: str) -> Iterator[FieldError]:
    names = [name for name in ("perPod", "perContainer") if overhead.get(name) is not None]
    if not names:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for name in names:
        yield from _signed(overhead[name], child(path, name), 0, _NOT_NEGATIVE)


def _signed(value: Any, path: str, least: int, text: str) -> Iterator[FieldError]:
    amount = Quantity.of(value)
    if amount.sign() < least:
        yield invalid(path, amount.canonical(), text)
