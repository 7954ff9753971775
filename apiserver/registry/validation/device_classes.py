"""Rules of DeviceClass and DeviceTaintRule, and the time of taints that change.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37, and the strategy of taint rules.
"""

from collections.abc import Iterator
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import FieldError, child, invalid, too_many
from kubeskew.apiserver.registry.validation import devices, selectors
from kubeskew.apiserver.registry.validation.amounts import is_extended
from kubeskew.apiserver.registry.validation.conditions import condition_errors
from kubeskew.apiserver.registry.validation.device_rules import DeviceRules
from kubeskew.apiserver.registry.validation.device_taints import taint_errors

MAX_RULE_CONDITIONS = 8


def class_errors(spec: Object, old: Object | None, rules: DeviceRules) -> list[FieldError]:
    """Faults of a class; selectors and configurations that did not change count as stored."""
    same_selectors = old is not None and old.get("selectors") == spec.get("selectors")
    same_config = old is not None and old.get("config") == spec.get("config")

    def config(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.opaque(item, at, rules, stored=same_config)

    errors = list(devices.selectors(spec.get("selectors"), "spec.selectors", rules, stored=same_selectors))
    errors += devices.each(spec.get("config"), devices.MAX_CONFIGS, config, "spec.config", rules)
    if spec.get("suitableNodes") is not None:  # 1.31
        errors += selectors.node_selector_errors(spec["suitableNodes"], "spec.suitableNodes")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


def taint_rule_errors(spec: Object, old: Object | None, rules: DeviceRules) -> list[FieldError]:
    """Faults of a taint rule; `old` is the spec that it replaces."""
    selector, before = spec.get("deviceSelector") or {}, (old or {}).get("deviceSelector")
    at = "spec.deviceSelector"
    errors: list[FieldError] = []
    for field, rule in (
        ("deviceClassName", devices.subdomain),
        ("driver", devices.driver),
        ("pool", devices.pool),
        ("device", devices.label),
    ):
        if selector.get(field) is not None:
            errors += rule(selector[field], child(at, field))
    stored = before is not None and before.get("selectors") == selector.get("selectors")
    errors += devices.selectors(selector.get("selectors"), child(at, "selectors"), rules, stored=stored)
    old_taint = None if old is None else old.get("taint") or {}
    errors += taint_errors(spec.get("taint") or {}, old_taint, "spec.taint", rules)
    return errors


def taint_rule_status_errors(status: Object) -> Iterator[FieldError]:
    conditions, at = status.get("conditions") or [], "status.conditions"
    yield from condition_errors(conditions, at)
    if len(conditions) > MAX_RULE_CONDITIONS:
        yield too_many(at, len(conditions), MAX_RULE_CONDITIONS)


def bump_rule_time(new: Object, old: Object, now: datetime) -> None:
    """A rule whose effect changed tells that time, unless the writer gave another one."""
    taint, before = ((rule.get("spec") or {}).get("taint") or {} for rule in (new, old))
    changed = before.get("effect") != taint.get("effect")
    if changed and taint.get("timeAdded") == before.get("timeAdded"):
        taint["timeAdded"] = timestamp(now)
