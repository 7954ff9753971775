"""DeviceTaintRule: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/resource/v1/defaults.go, pkg/apis/resource/validation/validation.go,
pkg/registry/resource/devicetaintrule/strategy.go, 1.36.
"""

from collections.abc import Iterator
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError, child, too_many
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, MetadataKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.devices import taint_errors
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

MAX_RULE_CONDITIONS = 8


def default_taint_rule(obj: Object, ctx: DefaultingContext) -> None:
    fill_null(struct(struct(obj, "spec"), "taint"), timeAdded=ctx.timestamp)


def taint_rule_errors(spec: Object, old: Object | None, rules: DRAFeatures) -> list[FieldError]:
    """`old` is the spec that is replaced."""
    selector, before = spec.get("deviceSelector") or {}, (old or {}).get("deviceSelector")
    at = "spec.deviceSelector"
    errors: list[FieldError] = []
    for field, rule in (
        ("deviceClassName", devices.subdomain),
        ("driver", lambda name, where: devices.driver(name, where, rules)),
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


def taint_rule_status_errors(status: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    conditions, at = status.get("conditions") or [], "status.conditions"
    yield from condition_errors(conditions, at, texts=rules.condition_texts)
    if len(conditions) > MAX_RULE_CONDITIONS:
        yield too_many(at, len(conditions), MAX_RULE_CONDITIONS)


def bump_rule_time(new: Object, old: Object, now: datetime) -> None:
    taint, before = ((rule.get("spec") or {}).get("taint") or {} for rule in (new, old))
    changed = before.get("effect") != taint.get("effect")
    if changed and taint.get("timeAdded") == before.get("timeAdded"):
        taint["timeAdded"] = timestamp(now)


class TaintRuleStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        status, rules = new.get("status") or {}, ctx.features.devices
        return list(taint_rule_status_errors(status, rules))


class TaintRuleStrategy(BuiltIn):
    status = TaintRuleStatus
    returns_deleted_object = True

    def takes_unconditional_update(self, version: str) -> bool:
        return version != "v1"  # upstream found out late

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if ctx.features.devices.rule_times:
            bump_rule_time(new, old, ctx.now)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return taint_rule_errors(obj.get("spec") or {}, None, ctx.features.devices)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("spec") or {}, old.get("spec") or {}
        return taint_rule_errors(now, before, ctx.features.devices)


def device_taint_rule_cells(subject: Subject) -> Cells:
    taint = ("spec", "taint")
    return {
        "Key": subject.text(*taint, "key"),
        "Value": subject.text(*taint, "value"),
        "Effect": subject.text(*taint, "effect"),
        "TimeAdded": subject.since(*taint, "timeAdded", default=""),
    }
