"""Rules of one device in a slice: attributes, capacities, counters, taints, binding conditions.

Source: pkg/apis/resource/validation/validation.go, 1.37 with the limits of older minors (dra facts).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_long,
    too_many,
)
from apimachinery.validation import names
from apiserver.registry.validation import devices, request_policies, selectors

MAX_DEVICES, MAX_ADVANCED_DEVICES = 128, 64
MAX_VALUES, MAX_ATTRIBUTE_VALUES = 32, 48
MAX_VALUE_BYTES = 64
MAX_BINDING_CONDITIONS = 4
_LIMITS_CHANGED = 35
_VALUES = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_SEMVER = re.compile(
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$"
)
_ONE_VALUE = "exactly one value must be specified"
_NEEDS_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)
_NO_NODES = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
    "the ResourceSlice spec"
)


@dataclass(frozen=True, slots=True)
class SliceRules:
    """What the version and the slice around a device change."""

    minor: int
    per_device_nodes: bool
    wrapper: str  # `basic` where devices were wrapped
    counter_sets: Mapping[str, set[str]]

    def max_devices(self, listed: list[Object]) -> int:
        if self.minor < _LIMITS_CHANGED:
            return MAX_DEVICES
        advanced = any(device.get("taints") or device.get("consumesCounters") for device in listed)
        return MAX_ADVANCED_DEVICES if advanced else MAX_DEVICES

    @property
    def max_taints(self) -> int:
        return 16 if self.minor >= _LIMITS_CHANGED else 4

    @property
    def max_consumptions(self) -> int:
        return 2 if self.minor >= _LIMITS_CHANGED else 32


def label(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.dns1123_label(value))


def device_errors(device: Object, old: Object | None, path: str, rules: SliceRules) -> Iterator[FieldError]:
    """Faults of a device beside its name; capacities and taints that did not change are not looked at."""
    at = child(path, rules.wrapper) if rules.wrapper else path
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > MAX_VALUES:
        text = f"the total number of attributes and capacities must not exceed {MAX_VALUES}"
        yield invalid(at, len(attributes) + len(capacity), text)
    total = sum(_count(attribute) for attribute in attributes.values())
    if total > MAX_ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        yield invalid(at, total, text)
    for name in sorted(attributes):
        where = key(child(at, "attributes"), name)
        yield from devices.qualified(name, where)
        yield from _attribute(attributes[name], where)
    if old is None or old.get("capacity") != capacity:
        yield from _capacities(device, child(at, "capacity"))
    if old is None or old.get("taints") != device.get("taints"):
        yield from devices.each(device.get("taints"), rules.max_taints, _taint(rules), child(at, "taints"))
    yield from _counters(device.get("consumesCounters") or [], child(at, "consumesCounters"), rules)
    yield from _device_nodes(device, at, rules)
    yield from _binding(device, at)


def _count(attribute: Object) -> int:
    return sum(len(value) if isinstance(value, list) else 1 for value in attribute.values())


def _attribute(attribute: Object, path: str) -> Iterator[FieldError]:
    used = [name for name in _VALUES if attribute.get(name) is not None]
    if len(used) != 1:
        yield invalid(path, attribute, _ONE_VALUE)
        return
    name, value = used[0], attribute[used[0]]
    at = child(path, name)
    if isinstance(value, list):
        if not value:
            yield invalid(at, value, "must not be empty if specified")
        for position, item in enumerate(value):
            yield from _scalar(name.removesuffix("s"), item, index(at, position))
    else:
        yield from _scalar(name, value, at)


def _scalar(kind: str, value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str):
        return
    if len(value.encode()) > MAX_VALUE_BYTES:
        yield too_long(path, MAX_VALUE_BYTES)
    if kind == "version" and not _SEMVER.match(value):
        yield invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")


def _capacities(device: Object, path: str) -> Iterator[FieldError]:
    capacity = device.get("capacity") or {}
    shared = bool(device.get("allowMultipleAllocations"))
    for name in sorted(capacity):
        where = key(path, name)
        yield from devices.qualified(name, where)
        if isinstance(capacity[name], dict):
            yield from request_policies.policy_errors(capacity[name], where, shared=shared)


def _taint(rules: SliceRules) -> devices.Rule:
    effects = devices.effects_of(rules.minor)

    def run(taint: Object, path: str) -> Iterator[FieldError]:
        name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        yield from (invalid(child(path, "key"), name, text) for text in names.qualified_name(name))
        if value:
            yield from (invalid(child(path, "value"), value, text) for text in names.label_value(value))
        if not effect:
            yield required(child(path, "effect"))
        elif effect not in effects:
            yield not_supported(child(path, "effect"), effect, effects)

    return run


def _counters(consumed: list[Object], path: str, rules: SliceRules) -> Iterator[FieldError]:
    def consumption(item: Object, at: str) -> Iterator[FieldError]:
        name, counters = item.get("counterSet") or "", item.get("counters") or {}
        if not name:
            yield required(child(at, "counterSet"))
        else:
            yield from label(name, child(at, "counterSet"))
        if not counters:
            yield required(child(at, "counters"))
        elif len(counters) > MAX_VALUES:
            yield too_many(child(at, "counters"), len(counters), MAX_VALUES)
            return
        for counter in sorted(counters):
            yield from label(counter, key(child(at, "counters"), counter))
        if rules.minor < _LIMITS_CHANGED and name:
            known = rules.counter_sets.get(name)
            if known is None:
                text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
                yield invalid(child(at, "counterSet"), name, text)

    yield from devices.unique(
        consumed,
        rules.max_consumptions,
        consumption,
        path,
        lambda one: one.get("counterSet") or "",
        "counterSet",
    )


def _device_nodes(device: Object, path: str, rules: SliceRules) -> Iterator[FieldError]:
    used = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name)]
    if not rules.per_device_nodes:
        if used:
            yield invalid(path, None, _NO_NODES)
        return
    if not used:
        yield required(path, _NEEDS_NODES)
    elif len(used) > 1:
        shown = ", ".join(f"`{name}`" for name in used)
        yield invalid(path, f"{{{shown}}}", _NEEDS_NODES)
    if device.get("nodeName"):
        texts = names.dns1123_subdomain(device["nodeName"])
        yield from (invalid(child(path, "nodeName"), device["nodeName"], text) for text in texts)
    if device.get("nodeSelector"):
        yield from selectors.node_selector_errors(device["nodeSelector"], child(path, "nodeSelector"))


def _binding(device: Object, path: str) -> Iterator[FieldError]:
    def condition(value: str, at: str) -> Iterator[FieldError]:
        yield from (invalid(at, value, text) for text in names.qualified_name(value))

    for field in ("bindingConditions", "bindingFailureConditions"):
        at = child(path, field)
        yield from devices.unique(device.get(field), MAX_BINDING_CONDITIONS, condition, at, str, "")
    both = bool(device.get("bindingConditions")), bool(device.get("bindingFailureConditions"))
    if both == (True, False):
        text = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(child(path, "bindingFailureConditions"), [], text)
    elif both == (False, True):
        text = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(child(path, "bindingConditions"), [], text)
