"""Holds the rules of one device in a slice: attributes, capacities, counters, nodes.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.field import FieldError, child, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.device_taints import binding_errors, taint_errors
from kubeskew.apiserver.registry.resource.resourceslice import request_policies
from kubeskew.apiserver.registry.resource.resourceslice.node_allocatable import node_resource_errors
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.internal_values import node_term
from kubeskew.apiserver.registry.shared.semver import NOT_SEMVER, SEMVER

MAX_NAMES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_VALUE_BYTES = 64
MAX_CONSUMED_SETS = 2
MAX_COUNTERS = 32
_MAX_NAME = 63 + 1 + 32
_MAX_LABEL = 63
_SCALARS = ("int", "bool", "string", "version")
_LISTS = ("ints", "bools", "strings", "versions")
_ONE_VALUE = "exactly one value must be specified"
_NEEDS_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)
_NO_NODES = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
    "the ResourceSlice spec"
)
_NODES = ("nodeName", "nodeSelector", "allNodes")


@dataclass(frozen=True, slots=True)
class SliceContext:
    """Holds the facts about a slice that its devices' rules need."""

    per_device_nodes: bool
    counter_sets: Mapping[str, set[str]]


def device_errors(
    device: Object, old: Object | None, path: str, around: SliceContext, rules: DRAFeatures
) -> Iterator[FieldError]:
    """Yields errors of a device; taints (since 1.37 capacities too) that did not change are not looked at."""
    yield from devices.label(device.get("name") or "", child(path, "name"))
    at = child(path, rules.wrapper) if rules.wrapper else path
    if not rules.wrapper:
        yield from _sizes(device, at, rules)
    attribute = _attribute(rules)
    named = devices.qualified(rules)
    yield from devices.entries(
        device.get("attributes"), None, _MAX_NAME, named, attribute, child(at, "attributes"), rules
    )
    if old is None or not rules.capacity_ratchets or old.get("capacity") != device.get("capacity"):
        at_capacity, capacity = child(at, "capacity"), _capacity(device, rules)
        yield from devices.entries(
            device.get("capacity"), None, _MAX_NAME, named, capacity, at_capacity, rules
        )
    if rules.wrapper:
        yield from _sizes(device, at, rules)
    if old is None or not rules.declarative_validation or old.get("taints") != device.get("taints"):
        yield from devices.each(
            device.get("taints"),
            rules.max_taints,
            lambda taint, where: taint_errors(taint, None, where, rules),
            child(at, "taints"),
            rules,
        )
    yield from _consumed(device.get("consumesCounters"), child(at, "consumesCounters"), around, rules)
    yield from _device_nodes(device, at, around, rules)
    yield from binding_errors(device, at, rules)
    yield from node_resource_errors(device, at)


def _sizes(device: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    attributes = device.get("attributes") or {}
    count = len(attributes) + len(device.get("capacity") or {})
    if count > MAX_NAMES:
        text = f"the total number of attributes and capacities must not exceed {MAX_NAMES}"
        yield invalid(path, count, text)
    total = sum(map(_count, attributes.values()))
    if rules.attribute_lists and total > MAX_ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        yield invalid(path, total, text)


def _count(attribute: Object) -> int:
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _attribute(rules: DRAFeatures) -> devices.Rule:
    def run(attribute: Object, path: str) -> Iterator[FieldError]:
        used = [name for name in (*_SCALARS, *_LISTS) if attribute.get(name) is not None]
        for name in used:
            yield from _value(name, attribute[name], child(path, name), rules)
        if not used:
            yield (
                invalid(path, "", _ONE_VALUE) if rules.declarative_validation else required(path, _ONE_VALUE)
            )
        elif len(used) > 1:
            text = _ONE_VALUE if rules.current_wording else "exactly one field must be specified"
            yield invalid(path, rules.structs.shown(attribute, "resource.DeviceAttribute"), text)

    return run


def _value(name: str, value: object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    if isinstance(value, list):
        if not value:
            yield invalid(path, value, "must not be empty if specified")
        for position, item in enumerate(value):
            yield from _text(name.removesuffix("s"), item, index(path, position), rules)
    else:
        yield from _text(name, value, path, rules)


def _text(kind: str, value: object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    if not isinstance(value, str):
        return
    if kind == "version" and not SEMVER.fullmatch(value):
        yield invalid(path, value, NOT_SEMVER)
    if len(value.encode()) > MAX_VALUE_BYTES:
        yield devices.over_length(path, MAX_VALUE_BYTES, rules)


def _capacity(device: Object, rules: DRAFeatures) -> devices.Rule:
    shared = bool(device.get("allowMultipleAllocations"))

    def run(capacity: Object, path: str) -> Iterator[FieldError]:
        yield from request_policies.policy_errors(capacity, path, rules, shared=shared)

    return run


def any_counter(_counter: Object, _path: str) -> Iterator[FieldError]:
    """Accepts every quantity."""
    yield from ()


def _consumed(
    consumed: list[Object] | None, path: str, around: SliceContext, rules: DRAFeatures
) -> Iterator[FieldError]:
    def consumption(item: Object, at: str) -> Iterator[FieldError]:
        name, counters = item.get("counterSet") or "", item.get("counters") or {}
        where = child(at, "counterSet")
        if not name:
            yield required(where)
        elif rules.declarative_validation:
            yield from devices.label(name, where)
        if not counters:
            yield required(child(at, "counters"))
        else:
            most, where = MAX_COUNTERS if rules.declarative_validation else None, child(at, "counters")
            yield from devices.entries(counters, most, _MAX_LABEL, devices.label, any_counter, where, rules)

    most = MAX_CONSUMED_SETS if rules.declarative_validation else None
    yield from devices.unique(
        consumed, most, consumption, path, rules, lambda one: one.get("counterSet") or "", "counterSet"
    )
    if not rules.declarative_validation:
        yield from _known(consumed or [], path, around)


def _known(consumed: list[Object], path: str, around: SliceContext) -> Iterator[FieldError]:
    """Checks the number of counters, which until 1.34 was that of all sets, in the same slice."""
    total = sum(len(item.get("counters") or {}) for item in consumed)
    if total > MAX_COUNTERS:
        text = f"the total number of counters must not exceed {MAX_COUNTERS}"
        yield invalid(path.rpartition(".")[0], total, text)
    for position, item in enumerate(consumed):
        at, name = index(path, position), item.get("counterSet") or ""
        known = around.counter_sets.get(name)
        if known is None:
            text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
            yield invalid(child(at, "counterSet"), name, text)
            continue
        text = "must reference a counter defined in the ResourceSlice sharedCounters"
        unknown = sorted(set(item.get("counters") or {}) - known)
        yield from (invalid(child(at, "counters"), counter, text) for counter in unknown)


def one_term_errors(selector: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Checks a selector of nodes that must have exactly one term."""
    yield from selectors.node_selector_errors(selector, path, any_value=rules.any_label_values)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        kind = "node selector" if rules.current_wording else "selector"
        shown = [node_term(term) for term in terms]
        yield invalid(child(path, "nodeSelectorTerms"), shown, f"must have exactly one {kind} term")


def _device_nodes(
    device: Object, path: str, around: SliceContext, rules: DRAFeatures
) -> Iterator[FieldError]:
    if not around.per_device_nodes:
        if any(device.get(name) is not None for name in _NODES):
            yield invalid(path, None, _NO_NODES)
        return
    used = [f"`{name}`" for name in _NODES if device.get(name) or device.get(name) == {}]
    name = device.get("nodeName")
    if name == "":
        yield invalid(child(path, "nodeName"), name, "must not be empty")
    elif name is not None:
        yield from devices.subdomain(name, child(path, "nodeName"))
    if device.get("nodeSelector") is not None:
        at, selector = child(path, "nodeSelector"), device["nodeSelector"]
        if rules.several_device_terms:
            yield from selectors.node_selector_errors(selector, at, any_value=rules.any_label_values)
        else:
            yield from one_term_errors(selector, at, rules)
    if device.get("allNodes") is False:
        yield invalid(child(path, "allNodes"), False, "must be either unset or set to true")
    if not used:
        yield required(path, _NEEDS_NODES)
    elif len(used) > 1:
        yield invalid(path, f"{{{', '.join(used)}}}", _NEEDS_NODES)
