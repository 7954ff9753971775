"""HorizontalPodAutoscaler: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/autoscaling/v1/defaults.go, k8s.io/kubernetes/pkg/apis/autoscaling/validation/validation.go,
pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, 1.36.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.conversion.autoscaling import to_v2
from kubeskew.apimachinery.field import (
    FieldError,
    Named,
    child,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE, container_name_errors
from kubeskew.apiserver.registry.shared.references import segment_errors
from kubeskew.apiserver.registry.tables.cells import NONE, UNKNOWN, UNSET, Cells, Subject, at, quantity
from kubeskew.apiserver.workload_features import WorkloadFeatures

CPU_PERCENT = 80

METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"
_SELECT = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_MAX_PERIOD = 1800
_MAX_WINDOW = 3600
References = Callable[[Object, str], Iterator[FieldError]]

_SOURCES = ("object", "external", "pods", "resource", "containerResource")  # in the order of the checks
_TYPES = {name[:1].upper() + name[1:]: name for name in _SOURCES}
_TARGETS = ("Utilization", "Value", "AverageValue")
_NO_AMOUNT = "must set either a target raw value or a target utilization"
_TWO_AMOUNTS = "may not set both a target raw value and a target utilization"
_V2 = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")

_SHOWN = 2  # metrics

_SHOWN_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def default_autoscaler(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, minReplicas=1)
    target = {"type": "Utilization", "averageUtilization": CPU_PERCENT}
    fill(spec, metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
    behaviour = spec.get("behavior")
    if behaviour is not None:
        _scaling_rules(behaviour)


def _scaling_rules(behaviour: Object) -> None:
    up, down = struct(behaviour, "scaleUp"), struct(behaviour, "scaleDown")
    fill_null(up, stabilizationWindowSeconds=0, selectPolicy="Max")
    pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    fill_null(up, policies=[pods, percent])
    fill_null(down, selectPolicy="Max", policies=[dict(percent)])


def default_autoscaler_v1(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, minReplicas=1)
    if METRICS_ANNOTATION not in ((obj.get("metadata") or {}).get("annotations") or {}):
        fill_null(spec, targetCPUUtilizationPercentage=CPU_PERCENT)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds depend on release, gates and the old object."""

    least: int = 1  # of minReplicas: 0 with gate HPAScaleToZero
    target_version: str = "any"  # of what is scaled: `any`, `group` (it must have one) or `plain`
    object_version: str = "any"
    most_required: bool = False  # a maxReplicas of 0 is none

    @classmethod
    def of(cls, new: Object, old: Object | None, features: WorkloadFeatures) -> "Bounds":
        """`new` and `old` are specs; `old` is None for a new object."""
        least = 0 if features.scale_to_zero or (old is not None and old.get("minReplicas") == 0) else 1
        if not features.target_versions:
            return cls(least, most_required=features.most_replicas_required)
        target, before = new.get("scaleTargetRef") or {}, (old or {}).get("scaleTargetRef") or {}
        same = all(target.get(name) == before.get(name) for name in ("apiVersion", "kind"))
        checked = "plain" if target.get("kind") == "ReplicationController" else "group"
        kept = any(
            version_text((metric.get("object") or {}).get("describedObject") or {}, "plain")
            for metric in (old or {}).get("metrics") or []
        )
        target_version = "any" if old is not None and same else checked
        return cls(least, target_version, "any" if kept else "plain", features.most_replicas_required)


def version_text(reference: Object, check: str) -> str:
    version = reference.get("apiVersion") or ""
    if check == "any":
        return ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    return "" if check == "plain" or version.partition("/")[1] else "apiVersion must specify API group"


def reference_errors(reference: Object, path: str, check: str) -> Iterator[FieldError]:
    yield from segment_errors(reference, path, "kind", "name")
    if text := version_text(reference, check):
        yield invalid(child(path, "apiVersion"), reference.get("apiVersion") or "", text)


def spec_errors(spec: Object, bounds: Bounds) -> Iterator[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < bounds.least:
        text = f"must be greater than or equal to {bounds.least}"
        yield invalid("spec.minReplicas", least, text)
    if most < 1 and not bounds.most_required:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    elif most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    yield from reference_errors(target, "spec.scaleTargetRef", bounds.target_version)

    def described(reference: Object, path: str) -> Iterator[FieldError]:
        return reference_errors(reference, path, bounds.object_version)

    yield from metrics_errors(spec.get("metrics") or [], "spec.metrics", described, to_zero=least == 0)
    for side in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(side)
        if rules is not None:
            yield from _rules(rules, child("spec.behavior", side))


def _rules(rules: Object, path: str) -> Iterator[FieldError]:
    window, at = rules.get("stabilizationWindowSeconds"), child(path, "stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield invalid(at, window, "must be greater than or equal to zero")
    if window is not None and window > _MAX_WINDOW:
        yield invalid(at, window, f"must be less than or equal to {_MAX_WINDOW}")
    selected = rules.get("selectPolicy")
    if selected is not None and selected not in _SELECT:
        yield not_supported(child(path, "selectPolicy"), selected, _SELECT)
    at, policies = child(path, "policies"), rules.get("policies") or []
    if not policies:
        yield required(at, "must specify at least one Policy")
    for position, policy in enumerate(policies):
        yield from _policy(policy, index(at, position))
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.parse(tolerance).sign() < 0:
        yield invalid(child(path, "tolerance"), tolerance, NOT_NEGATIVE)


def _policy(policy: Object, path: str) -> Iterator[FieldError]:
    kind, period = policy.get("type") or "", policy.get("periodSeconds") or 0
    if kind not in _POLICIES:
        yield not_supported(child(path, "type"), kind, _POLICIES)
    for name in ("value", "periodSeconds"):
        number = policy.get(name) or 0
        if number <= 0:
            yield invalid(child(path, name), number, "must be greater than zero")
    if period > _MAX_PERIOD:
        text = f"must be less than or equal to {_MAX_PERIOD}"
        yield invalid(child(path, "periodSeconds"), period, text)


def status_errors(status: Object) -> Iterator[FieldError]:
    for name in ("currentReplicas", "desiredReplicas"):
        count = status.get(name) or 0
        if count < 0:
            yield invalid(child("status", name), count, NOT_NEGATIVE)


def metrics_errors(
    metrics: list[Object], path: str, described: References, *, to_zero: bool
) -> Iterator[FieldError]:
    """`described` checks what an object metric is about; `to_zero`: there may be no replicas at all."""
    for position, metric in enumerate(metrics):
        yield from _metric(metric, index(path, position), described)
    outside = any(metric.get("type") in {"Object", "External"} for metric in metrics)
    if to_zero and not outside:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden(path, text)


def _metric(metric: Object, path: str, described: References) -> Iterator[FieldError]:
    kind = metric.get("type") or ""
    at = child(path, "type")
    unknown = not_supported(at, kind, sorted(_TYPES))
    if not kind:
        yield required(at, "must specify a metric source type")
    if kind not in _TYPES:
        yield unknown
    given = [name for name in _SOURCES if metric.get(name) is not None]
    if given:
        yield from _source(given[0], metric[given[0]], child(path, given[0]), described)
    expected = _TYPES.get(kind)
    if expected is None:
        yield unknown
    elif expected not in given:
        yield required(child(path, expected), "must populate information for the given metric source")
    if len(given) > 1:
        for name in given:
            if name != expected:
                yield forbidden(child(path, name), "must populate the given metric source only")


def _source(name: str, source: Object, path: str, described: References) -> Iterator[FieldError]:
    target, at = source.get("target") or {}, child(path, "target")
    if name in {"resource", "containerResource"}:
        yield from _resource(source, path, in_container=name == "containerResource")
    else:
        if name == "object":
            yield from described(source.get("describedObject") or {}, child(path, "describedObject"))
        metric = source.get("metric") or {}
        yield from _identifier(metric.get("name") or "", child(child(path, "metric"), "name"))
    yield from _target(target, at)
    value, average = target.get("value"), target.get("averageValue")
    utilization = target.get("averageUtilization")
    if name == "pods":
        if average is None:
            yield required(child(at, "averageValue"), "must specify a positive target averageValue")
    elif name in {"object", "external"}:
        if value is None and average is None:
            yield required(child(at, "averageValue"), _MISSING[name])
        if name == "external" and value is not None and average is not None:
            text = "may not set both a target value for metric and a per-pod target"
            yield forbidden(child(at, "value"), text)
    elif utilization is None and average is None:
        yield required(child(at, "averageUtilization"), _NO_AMOUNT)
    elif utilization is not None and average is not None:
        yield forbidden(child(at, "averageValue"), _TWO_AMOUNTS)


_MISSING = {
    "object": "must set either a target value or averageValue",
    "external": "must set either a target value for metric or a per-pod target",
}


def _resource(source: Object, path: str, *, in_container: bool) -> Iterator[FieldError]:
    name, container = source.get("name") or "", source.get("container") or ""
    if not name:
        yield required(child(path, "name"), "must specify a resource name")
    elif in_container:
        yield from container_name_errors(name, child(path, "name"))
    if not in_container:
        return
    at = child(path, "container")
    if not container:
        yield required(at, "must specify a container")
    else:
        yield from (invalid(at, container, text) for text in names.dns1123_label(container))


def _identifier(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path, "must specify a metric name")
    yield from (invalid(path, name, text) for text in names.path_segment(name))


def _target(target: Object, path: str) -> Iterator[FieldError]:
    kind, at = target.get("type") or "", child(path, "type")
    if not kind:
        yield required(at, "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(at, Named(kind), "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and Quantity.parse(amount).sign() != 1:
            yield invalid(child(path, name), amount, "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        yield invalid(child(path, "averageUtilization"), percent, "must be greater than 0")


class AutoscalerStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new.get("status") or {}))


class AutoscalerStrategy(HandwrittenBuiltIn):
    status: ClassVar[type[Strategy]] = AutoscalerStatus

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.features.workloads.autoscaler_generation

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        # What is sent as v1 has values of 0 by known bug 137856, what is sent as v2 and stored as v1 has not.
        zeros = ctx.features.workloads.zero_metric_values and ctx.request_version == "v1"
        spec = _common_spec(obj, zero_values=zeros)
        before = None if old is None else _common_spec(old, zero_values=zeros)
        bounds = Bounds.of(spec, before, ctx.features.workloads)
        return list(spec_errors(spec, bounds))


def _common_spec(obj: Object, *, zero_values: bool) -> Object:
    """The spec has v2's form, in whichever version the server stores it."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = copy.deepcopy(obj)
        to_v2(obj, zero_values=zero_values)
    spec: Object = obj.get("spec") or {}
    return spec


def horizontal_pod_autoscaler_cells(subject: Subject) -> Cells:
    scaler = Subject(convert(subject.obj, _V2), subject.now)
    target = ("spec", "scaleTargetRef")
    least = scaler.at("spec", "minReplicas")
    return {
        "Reference": f"{scaler.text(*target, 'kind')}/{scaler.text(*target, 'name')}",
        "Targets": _targets(scaler.items("spec", "metrics"), scaler.items("status", "currentMetrics")),
        "MinPods": UNSET if least is None else str(least),
        "MaxPods": scaler.number("spec", "maxReplicas"),
        "Replicas": scaler.number("status", "currentReplicas"),
    }


def _targets(metrics: list[Object], currents: list[Object]) -> str:
    if not metrics:
        return NONE
    # Upstream pairs them by position and ignores their names.
    paired = [
        _shown_metric(metric, currents[position] if position < len(currents) else {})
        for position, metric in enumerate(metrics)
    ]
    text = ", ".join(paired[:_SHOWN])
    return f"{text} + {len(paired) - _SHOWN} more..." if len(paired) > _SHOWN else text


def _shown_metric(metric: Object, status: Object) -> str:
    source = _SHOWN_SOURCES.get(metric.get("type", ""))
    if source is None:
        return "<unknown type>"
    target = at(metric, source, "target") or {}
    current = at(status, source, "current")
    if source in ("resource", "containerResource"):
        return f"{at(metric, source, 'name') or ''}: {_shown_resource(target, current)}"
    if source == "pods":
        return f"{_amount(current, 'averageValue')}/{quantity(target.get('averageValue'))}"
    if target.get("averageValue") is not None:
        known = current if at(current, "averageValue") is not None else None
        return f"{_amount(known, 'averageValue')}/{quantity(target['averageValue'])} (avg)"
    return f"{_amount(current, 'value')}/{quantity(target.get('value'))}"


def _shown_resource(target: Object, current: Object | None) -> str:
    if target.get("averageValue") is not None:
        return f"{_amount(current, 'averageValue')}/{quantity(target['averageValue'])}"
    used, wanted = at(current, "averageUtilization"), target.get("averageUtilization")
    return f"{_percent(used, UNKNOWN)}/{_percent(wanted, '<auto>')}"


def _amount(current: Object | None, name: str) -> str:
    """A metric that is known but lacks the amount counts as zero."""
    return UNKNOWN if current is None else quantity(current.get(name))


def _percent(value: int | None, default: str) -> str:
    return default if value is None else f"{value}%"
