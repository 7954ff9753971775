"""Holds the rules of horizontal pod autoscalers, in the shape of autoscaling/v2.

Source: k8s.io/kubernetes/pkg/apis/autoscaling/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeskew.apimachinery.field import FieldError, child, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.autoscaling.horizontalpodautoscaler.metrics_validation import (
    metrics_errors,
)
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.references import segment_errors
from kubeskew.apiserver.workload_features import WorkloadFeatures

_SELECT = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_MAX_PERIOD = 1800
_MAX_WINDOW = 3600


@dataclass(frozen=True, slots=True)
class Bounds:
    """Holds the bounds that depend on release, gates and the old object."""

    least: int = 1  # of minReplicas: 0 with gate HPAScaleToZero
    target_version: str = "any"  # of what is scaled: `any`, `group` (it must have one) or `plain`
    object_version: str = "any"
    most_required: bool = False  # a maxReplicas of 0 is none

    @classmethod
    def of(cls, new: Object, old: Object | None, features: WorkloadFeatures) -> "Bounds":
        """Returns the bounds for a new object (`old` None) or a change; `new` and `old` are specs."""
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
    """Returns the error of the apiVersion of a reference, empty if there is none."""
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
