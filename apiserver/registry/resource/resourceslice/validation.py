"""ResourceSlice: the rules, in the shape of v1; those of devices are in `device_validation`.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37.
"""

from collections.abc import Collection, Iterator

from kubeskew.apimachinery.field import FieldError, child, index, invalid, key, required
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.devices import skipped_operation_errors
from kubeskew.apiserver.registry.resource.resourceslice.device_validation import (
    SliceContext,
    any_counter,
    device_errors,
    one_term_errors,
)

MAX_DEVICES = 128
MAX_ADVANCED_DEVICES = 64
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_SHARED = 32
MAX_CONSUMED = 1024
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required"
_ONE_OF_PER_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_UNSET = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
_LISTS = ("ints", "bools", "strings", "versions")


def slice_errors(
    spec: Object, old: Object | None, rules: DRAFeatures, bare: Collection[int] = ()
) -> list[FieldError]:
    """`old` is the spec that is replaced, `bare` the positions of devices without `basic`."""
    errors = list(devices.driver(spec.get("driver") or "", "spec.driver", rules))
    errors += _pool(spec.get("pool") or {})
    if old is not None:
        errors += _fixed(spec, old)
    errors += _nodes(spec, rules)
    if (
        rules.declarative_validation
        and given(spec, "sharedCounters") is not None
        and given(spec, "devices") is not None
    ):
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += _devices(spec, old, rules, bare)
    errors += _counters(spec, rules)
    if spec.get("partitionTypeAttribute") is not None:
        errors += _partition_types(spec, spec["partitionTypeAttribute"], rules)
    errors += skipped_operation_errors(spec.get("skipNodeOperations"), "spec.skipNodeOperations")
    return errors


def warnings(spec: Object) -> list[str]:
    name = spec.get("driver") or ""
    if name == name.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{name}" contains uppercase characters']


def _pool(pool: Object) -> Iterator[FieldError]:
    yield from devices.pool(pool.get("name") or "", "spec.pool.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _fixed(spec: Object, old: Object) -> Iterator[FieldError]:
    now, before = (spec.get("pool") or {}).get("name"), (old.get("pool") or {}).get("name")
    if now != before:
        yield invalid("spec.pool.name", now, IMMUTABLE)
    for name in ("driver", "nodeName"):
        if spec.get(name) != old.get(name):
            yield invalid(child("spec", name), spec.get(name), IMMUTABLE)


def _nodes(spec: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    """Exactly one of the fields must name the nodes."""
    pointers = rules.node_pointers
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    used = [f"`{field}`" for field in _WHERE if spec.get(field) or spec.get(field) == {}]
    if name:
        yield from devices.subdomain(name, "spec.nodeName")
    elif name == "" and pointers:
        yield invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    if selector is not None:
        yield from one_term_errors(selector, "spec.nodeSelector", rules)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False and pointers:
            yield invalid(child("spec", field), False, "must be either unset or set to true")
    text = _ONE_OF_PER_DEVICE if pointers else _ONE_OF
    if not used:
        yield required("spec", text)
    elif len(used) > 1:
        yield invalid("spec", f"{{{', '.join(used)}}}", f"{text}, but multiple fields are set")


def _counters(spec: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    def counter_set(item: Object, at: str) -> Iterator[FieldError]:
        name, counters = item.get("name") or "", item.get("counters") or {}
        if not name:
            yield required(child(at, "name"))
        else:
            yield from devices.label(name, child(at, "name"))
        if not counters:
            yield required(child(at, "counters"))
        else:
            most = MAX_COUNTERS if rules.declarative_validation else None
            where = child(at, "counters")
            yield from devices.entries(counters, most, 63, devices.label, any_counter, where, rules)

    sets, path = spec.get("sharedCounters"), "spec.sharedCounters"
    total = sum(len(counter_set.get("counters") or {}) for counter_set in sets or ())
    if not rules.declarative_validation and total > MAX_SHARED:  # of all sets together
        yield invalid(path, total, f"the total number of shared counters must not exceed {MAX_SHARED}")
    most = MAX_COUNTER_SETS if rules.declarative_validation else None
    yield from devices.unique(sets, most, counter_set, path, rules, lambda one: one.get("name") or "")


def _devices(
    spec: Object, old: Object | None, rules: DRAFeatures, bare: Collection[int]
) -> Iterator[FieldError]:
    listed = spec.get("devices") or []
    counter_sets = {
        counter_set.get("name") or "": set(counter_set.get("counters") or {})
        for counter_set in spec.get("sharedCounters") or []
    }
    around = SliceContext(bool(spec.get("perDeviceNodeSelection")), counter_sets)
    before: dict[str, Object] = {}
    for one in (old or {}).get("devices") or []:
        before.setdefault(one.get("name") or "", one)
    missing = {index("spec.devices", position) for position in bare}

    def rule(device: Object, at: str) -> Iterator[FieldError]:
        if at in missing:
            yield from devices.label(device.get("name") or "", child(at, "name"))
            yield required(child(at, "basic"))
            return
        yield from device_errors(device, before.get(device.get("name") or ""), at, around, rules)

    most = _max_devices(listed, rules)
    yield from devices.unique(listed, most, rule, "spec.devices", rules, lambda one: one.get("name") or "")
    consumed = sum(
        len(counter_set.get("counters") or {})
        for device in listed
        for counter_set in device.get("consumesCounters") or ()
    )
    if not rules.declarative_validation and consumed > MAX_CONSUMED:
        text = f"the total number of counters in devices must not exceed {MAX_CONSUMED}"
        yield invalid("spec.devices", consumed, text)


def _max_devices(listed: list[Object], rules: DRAFeatures) -> int:
    if not rules.declarative_validation:
        return MAX_DEVICES
    for device in listed:
        if device.get("taints") or device.get("consumesCounters"):
            return MAX_ADVANCED_DEVICES
        attributes = (device.get("attributes") or {}).values()
        if rules.attribute_lists and any(
            attribute.get(name) is not None for attribute in attributes for name in _LISTS
        ):
            return MAX_ADVANCED_DEVICES
    return MAX_DEVICES


def _partition_types(spec: Object, name: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Partitions are distinguished by an attribute, which every device that consumes counters must have as
    text."""
    at = "spec.partitionTypeAttribute"
    malformed = list(devices.fully_qualified(name, at, rules))
    yield from malformed
    listed = spec.get("devices") or []
    if not any(device.get("consumesCounters") for device in listed):
        yield invalid(at, name, "may only be set on a slice which declares devices that consume counters")
        return
    if malformed:
        return
    bare = name.removeprefix(f"{spec.get('driver') or ''}/")
    for position, device in enumerate(listed):
        if not device.get("consumesCounters"):
            continue
        where = key(f"spec.devices[{position}].attributes", name)
        attributes = device.get("attributes") or {}
        attribute = attributes.get(name, attributes.get(bare))
        if attribute is None:
            yield required(where, _UNSET)
        elif attribute.get("string") is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            yield invalid(where, attribute, text)
