"""Rules of DeviceClass and DeviceTaintRule, and the time of taints that change.

Source: pkg/apis/resource/validation/validation.go, pkg/registry/resource/resourceslice/strategy.go, 1.36.
"""

from collections.abc import Iterator
from datetime import datetime

from apimachinery.clock import timestamp
from apimachinery.errors import Object
from apimachinery.field import FieldError, child, invalid, not_supported, required
from apimachinery.validation import names
from apiserver.registry.validation import devices
from apiserver.registry.validation.amounts import is_extended
from apiserver.registry.validation.claims import ClaimRules


def class_errors(spec: Object, old: Object | None, rules: ClaimRules) -> list[FieldError]:
    """Faults of a class; selectors and configurations that did not change count as stored."""
    same_selectors = old is not None and old.get("selectors") == spec.get("selectors")
    same_config = old is not None and old.get("config") == spec.get("config")

    def config(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.opaque(item, at, stored=same_config)

    features = rules.selectors(stored=same_selectors)
    errors = list(devices.selectors(spec.get("selectors"), "spec.selectors", features))
    errors += devices.each(spec.get("config"), devices.MAX_CONFIGS, config, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


def taint_rule_errors(spec: Object, minor: int) -> list[FieldError]:
    selector, taint = spec.get("deviceSelector") or {}, spec.get("taint") or {}
    at = "spec.deviceSelector"
    errors: list[FieldError] = []
    for field, rule in (
        ("deviceClassName", devices.class_name),
        ("driver", devices.driver),
        ("pool", devices.pool),
        ("device", devices.label),
    ):
        if selector.get(field) is not None:
            errors += rule(selector[field], child(at, field))
    name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
    errors += [invalid("spec.taint.key", name, text) for text in names.qualified_name(name)]
    if value:
        errors += [invalid("spec.taint.value", value, text) for text in names.label_value(value)]
    effects = devices.effects_of(minor)
    if not effect:
        errors.append(required("spec.taint.effect"))
    elif effect not in effects:
        errors.append(not_supported("spec.taint.effect", effect, effects))
    return errors


def bump_taint_times(new: Object, old: Object, now: datetime) -> None:
    """A taint (by device and key) whose effect changed was added now, if it still says the old time."""
    before = dict(_taints(old))
    for place, taint in _taints(new):
        was = before.get(place)
        if was is None or was.get("effect") == taint.get("effect"):
            continue
        if taint.get("timeAdded") == was.get("timeAdded"):
            taint["timeAdded"] = timestamp(now)


def _taints(obj: Object) -> Iterator[tuple[tuple[str, str], Object]]:
    for device in (obj.get("spec") or {}).get("devices") or []:
        for taint in (device.get("basic") or device).get("taints") or []:
            yield (device.get("name") or "", taint.get("key") or ""), taint
