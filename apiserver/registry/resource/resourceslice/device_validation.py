"""ResourceSlice: the rules of one device: attributes, capacities, counters, nodes.

Among them are how the capacity of a shared device may be requested, and what devices take of a node's own
resources (1.36, renamed in 1.37).

Source: pkg/apis/resource/validation/validation.go (validateRequestPolicy: 1.34 to 1.37), 1.31 to 1.37.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.field import (
    FieldError,
    InternalValue,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_found,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.devices import binding_condition_errors, taint_errors
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.formats import NOT_SEMVER, SEMVER

MAX_VALID_VALUES = 10
_MOST = 2**63 - 1
_ONE_POLICY = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)
_NOT_VALID = "default value is not valid according to the requestPolicy"
_BOUNDS = ("default", "min", "max", "step")
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_NATIVE_PREFIX = "kubernetes.io/"
_NO_NATIVE = "must be a node allocatable resource name"
_POSITIVE = "must be positive"
_NOT_NEGATIVE = "must be non-negative"
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


def policy_errors(capacity: Object, path: str, rules: DRAFeatures, *, shared: bool) -> Iterator[FieldError]:
    """`shared`: the device allows several allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    at = child(path, "requestPolicy")
    if not shared:
        yield forbidden(at, "allowMultipleAllocations must be true")
        return
    most = Quantity.of(capacity.get("value") or "0")
    values, bounds, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        yield forbidden(at, _ONE_POLICY)
    elif values and default is None:
        yield required(child(at, "default"), "required when validValues is defined")
    elif values:
        parsed = [Quantity.of(value) for value in values]
        yield from _values(parsed, Quantity.of(default), most, child(at, "validValues"), rules)
    elif bounds is not None and default is None:
        yield required(child(at, "default"), "required when validRange is defined")
    elif bounds is not None:
        yield from _Range(bounds, default, most, child(at, "validRange"), rules).errors()


def _values(
    values: list[Quantity], default: Quantity, most: Quantity, path: str, rules: DRAFeatures
) -> Iterator[FieldError]:
    for position in range(1, len(values)):
        if values[position - 1] > values[position]:
            text = "values must be sorted in ascending order"
            yield invalid(index(path, position), values[position].canonical(), text)
    found = False
    if len(values) > MAX_VALID_VALUES:
        yield too_many(path, len(values), MAX_VALID_VALUES)
    if len(values) <= MAX_VALID_VALUES or not rules.declarative_validation:
        found = default in values
        for position, value in enumerate(values):
            if value > most:
                text = f"option is larger than capacity value: {most.canonical()}"
                yield invalid(index(path, position), value.canonical(), text)
        yield from _repeats(values, path, rules)
    if not found:
        yield invalid(path, default.canonical(), _NOT_VALID)


def _repeats(values: list[Quantity], path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Whole numbers are compared unless fractions are allowed."""
    seen = set()
    for position, value in enumerate(values):
        name = format(value.decimal(), "f") if rules.fractional_capacity else str(value.value())
        if name in seen:
            yield duplicate(index(path, position), name)
        seen.add(name)


class _Range:
    """A range from `min` to `max`, in steps from `min`."""

    def __init__(
        self, bounds: Object, default: str, capacity: Quantity, path: str, rules: DRAFeatures
    ) -> None:
        given = {"default": default, **{name: bounds.get(name) for name in _BOUNDS[1:]}}
        self._given = {name: Quantity.of(value) for name, value in given.items() if value is not None}
        self._capacity = capacity
        self._path = path
        self._rules = rules

    def errors(self) -> Iterator[FieldError]:
        if "min" not in self._given:
            yield required(child(self._path, "min"), "required when validRange is defined")
            return
        yield from self._limits()
        if self._in_millis:
            inexact = [name for name in self._given if _is_finer_than_milli(self._given[name])]
            yield from (self._wrong(name, "value cannot be represented as a milli value") for name in inexact)
            if inexact:
                return
        if "step" in self._given:
            yield from self._steps()

    def _wrong(self, where: str, text: str, value: str = "") -> FieldError:
        shown = self._given[value or where].canonical()
        return invalid(child(self._path, where), shown, text)

    def _limits(self) -> Iterator[FieldError]:
        least, default, most = self._given["min"], self._given["default"], self._given.get("max")
        capacity = f"capacity value: {self._capacity.canonical()}"
        later = self._rules.policy_bounds
        if least > self._capacity:
            yield self._wrong("min", f"min is larger than {capacity}")
        if default < least:
            text = f"default is less than min: {least.canonical()}"
            yield self._wrong("default" if later else "min", text, "default")
        if most is None:
            return
        if least > most:
            yield self._wrong("max", f"min is larger than max: {most.canonical()}", "min")
        if most > self._capacity:
            yield self._wrong("max", f"max is larger than {capacity}")
        if default > most:
            text = f"default is more than max: {most.canonical()}"
            yield self._wrong("default" if later else "max", text, "default")

    @property
    def _in_millis(self) -> bool:
        """Fractions are a gate of their own."""
        return self._rules.fractional_capacity and any(
            amount.decimal() != int(amount.decimal()) for amount in self._given.values()
        )

    def _steps(self) -> Iterator[FieldError]:
        step, least = self._given["step"], self._given["min"]
        if step.sign() == 0 and self._rules.zero_step_panics:
            raise RuntimeError("panic: runtime error: integer divide by zero")
        if step.sign() <= 0:
            yield self._wrong("step", "must be greater than zero")
            return
        first = least + step
        if first > self._capacity:
            text = f"one step {first.canonical()} is larger than capacity value: {self._capacity.canonical()}"
            yield self._wrong("step", text)
        if self._rules.policy_bounds and not self._in_millis:
            outside = [error for name in _BOUNDS for error in self._outside(name)]
            yield from outside
            if outside:
                return
        text = f"value is not a multiple of a given step ({step.canonical()}) from ({least.canonical()})"
        for name in ("default", "max"):
            if name in self._given and (self._number(name) - self._number("min")) % (
                self._number("step") or 1
            ):
                yield self._wrong("step", text, name)

    def _outside(self, name: str) -> Iterator[FieldError]:
        amount = self._given.get(name)
        if amount is not None and amount.sign() < 0:
            yield self._wrong(name, "must be greater than or equal to 0")
        elif amount is not None and amount.decimal() > _MOST:
            yield self._wrong(name, f"must not be larger than {_MOST}")

    def _number(self, name: str) -> int:
        amount = self._given[name]
        return amount.milli_value() if self._in_millis else amount.value()


def _is_finer_than_milli(amount: Quantity) -> bool:
    thousandfold = amount.decimal() * 1000
    return thousandfold != int(thousandfold) or abs(thousandfold) > _MOST


def node_resource_errors(device: Object, path: str) -> Iterator[FieldError]:
    """`path` is that of the device."""
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
            yield from _node_capacity(item["capacityKey"], capacity, child(where, "capacityKey"))
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
        yield from _node_capacity(name, capacity, child(path, "capacityKey"))
        if multiplier is None:
            yield required(at, "capacityMultiplier is required when capacityKey is set")
        else:
            yield from _signed(multiplier, at, 1, _POSITIVE)
    if mapping.get("deviceMultiplier") is not None:
        yield from _signed(mapping["deviceMultiplier"], child(path, "deviceMultiplier"), 1, _POSITIVE)
    if multiplier is not None and name is None:
        text = "capacityKey is required when capacityMultiplier is set"
        yield required(child(path, "capacityKey"), text)


def _node_capacity(name: str, capacity: Mapping[str, Any], path: str) -> Iterator[FieldError]:
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


@dataclass(frozen=True, slots=True)
class SliceContext:
    """Rules of devices need these facts about their slice."""

    per_device_nodes: bool
    counter_sets: Mapping[str, set[str]]


def device_errors(
    device: Object, old: Object | None, path: str, around: SliceContext, rules: DRAFeatures
) -> Iterator[FieldError]:
    """Taints (since 1.37 capacities too) that did not change are not looked at."""
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
    yield from binding_condition_errors(device, at, rules)
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
        yield from policy_errors(capacity, path, rules, shared=shared)

    return run


def any_counter(_counter: Object, _path: str) -> Iterator[FieldError]:
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
    """Until 1.34 the number of counters was that of all sets, in the same slice."""
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
    yield from selectors.node_selector_errors(selector, path, any_value=rules.any_label_values)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        kind = "node selector" if rules.current_wording else "selector"
        shown = InternalValue(selector.get("nodeSelectorTerms"), "[core.NodeSelectorTerm")
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
