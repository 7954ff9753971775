"""Rules of ResourceSlice, in the shape of v1; devices themselves in `slice_devices`.

Source: pkg/apis/resource/validation/validation.go, 1.37 with the limits of older minors (dra facts).
"""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, duplicate, index, invalid, key, required, too_many
from apimachinery.validation import names
from apimachinery.validation.object_meta import IMMUTABLE
from apiserver.registry.validation import devices, selectors
from apiserver.registry.validation.slice_devices import SliceRules, device_errors, label

_FLAT_SINCE, _SET_SPLIT_SINCE = 33, 35
_ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes` is required"
_ONE_OF_PER_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
MAX_COUNTER_SETS, MAX_COUNTERS, MAX_SHARED = 8, 32, 1024


def slice_errors(spec: Object, old: Object | None, minor: int) -> list[FieldError]:
    """Faults of a slice's spec; `old` is the spec that it replaces."""
    errors = list(devices.driver(spec.get("driver") or "", "spec.driver"))
    errors += _pool(spec.get("pool") or {})
    if old is not None:
        errors += _fixed(spec, old)
    errors += _nodes(spec, minor)
    errors += _counters(spec, minor)
    errors += _devices(spec, old, minor)
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


def _nodes(spec: Object, minor: int) -> Iterator[FieldError]:
    """Where the devices are: exactly one way of saying it."""
    used = [
        f"`{name}`"
        for name in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
        if spec.get(name)
    ]
    name = spec.get("nodeName")
    if name:
        yield from (invalid("spec.nodeName", name, text) for text in names.dns1123_subdomain(name))
    elif name == "" and minor >= _FLAT_SINCE:
        yield invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    yield from node_selector(spec.get("nodeSelector"), "spec.nodeSelector")
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False and minor >= _FLAT_SINCE:
            yield invalid(child("spec", field), False, "must be either unset or set to true")
    text = _ONE_OF_PER_DEVICE if minor >= _FLAT_SINCE else _ONE_OF
    if not used:
        yield required("spec", text)
    elif len(used) > 1:
        yield invalid("spec", f"{{{', '.join(used)}}}", f"{text}, but multiple fields are set")


def node_selector(selector: Object | None, path: str) -> Iterator[FieldError]:
    if selector is None:
        return
    yield from selectors.node_selector_errors(selector, path)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        text = "must have exactly one node selector term"
        yield invalid(child(path, "nodeSelectorTerms"), terms, text)


def _counters(spec: Object, minor: int) -> Iterator[FieldError]:
    sets = spec.get("sharedCounters") or []
    path = "spec.sharedCounters"
    if minor >= _SET_SPLIT_SINCE and sets and spec.get("devices"):
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")

    def counter_set(item: Object, at: str) -> Iterator[FieldError]:
        yield from label(item.get("name") or "", child(at, "name"))
        counters = item.get("counters") or {}
        if not counters:
            yield required(child(at, "counters"))
        elif minor >= _SET_SPLIT_SINCE and len(counters) > MAX_COUNTERS:
            yield too_many(child(at, "counters"), len(counters), MAX_COUNTERS)
            return
        for name in sorted(counters):
            yield from label(name, key(child(at, "counters"), name))

    most = MAX_COUNTER_SETS if minor >= _SET_SPLIT_SINCE else MAX_SHARED
    yield from devices.unique(sets, most, counter_set, path, lambda one: one.get("name") or "")


def _devices(spec: Object, old: Object | None, minor: int) -> Iterator[FieldError]:
    listed = spec.get("devices") or []
    rules = SliceRules(
        minor=minor,
        per_device_nodes=bool(spec.get("perDeviceNodeSelection")),
        wrapper="basic" if minor < _FLAT_SINCE else "",
        counter_sets={
            one.get("name") or "": set(one.get("counters") or {}) for one in spec.get("sharedCounters") or []
        },
    )
    before = {one.get("name"): one for one in (old or {}).get("devices") or []}
    seen: set[str] = set()
    most = rules.max_devices(listed)
    if len(listed) > most:
        yield too_many("spec.devices", len(listed), most)
        return
    for position, device in enumerate(listed):
        at = index("spec.devices", position)
        name = device.get("name") or ""
        yield from label(name, child(at, "name"))
        yield from device_errors(device, before.get(name), at, rules)
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
