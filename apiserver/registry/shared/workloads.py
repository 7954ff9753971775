"""Kinds that hold a pod template: defaults, validation and strategies that they have in common.

Sources: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go, pkg/apis/{core,apps}/validation
(Validate*StatusUpdate), 1.36.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, invalid, not_supported, required
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, Checks, StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.internal_values import update_strategy
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, template_options
from kubeskew.apiserver.registry.shared.podtemplate.validation import template_errors
from kubeskew.apiserver.registry.shared.podtemplate.warnings import host_name_warnings, template_warnings

HISTORY = 10
_ROLLING = ("maxUnavailable", "maxSurge")
_PATH = "status"
_OF_REPLICAS = "cannot be greater than status.replicas"


def default_rolling_update(spec: Object, name: str, **values: Any) -> None:
    strategy = struct(spec, name)
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill_null(struct(strategy, "rollingUpdate"), **values)
    elif isinstance(strategy.get("rollingUpdate"), dict):
        # No default upstream, but what its conversion makes of numbers that are not given.
        fill_null(strategy["rollingUpdate"], **dict.fromkeys(values, 0))


def not_negative(obj: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for name in fields:
        number = obj.get(name)
        if isinstance(number, int) and number < 0:
            yield invalid(child(path, name), number, NOT_NEGATIVE)


def selector_errors(spec: Object, what: str) -> Iterator[FieldError]:
    """The selector is given, and not so wide that it takes every pod."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from selectors.selector_errors(selector, "spec.selector")
    if selectors.takes_all(selector):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {what}")


def matches(selector: Object | None, labels: dict[str, str]) -> bool | None:
    """None means that the selector cannot be read. None given takes nothing."""
    if selector is None:
        return False
    try:
        return bool(LabelSelector.from_object(selector).matches(labels))
    except ValueError:
        return None


def template_labels(spec: Object) -> dict[str, str]:
    """Labels are in the order in which errors print them."""
    labels: dict[str, str] = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return dict(sorted(labels.items()))


def shown_labels(spec: Object) -> Any:
    """Returns the template's labels as an error prints them, where none are not the same as an empty map."""
    metadata = (spec.get("template") or {}).get("metadata")
    return template_labels(spec) or (given(metadata, "labels") if metadata is not None else None)


def matching_template_errors(spec: Object, kind: str, options: PodOptions) -> list[FieldError]:
    """The template must fit the selector, be valid, and always restart."""
    selector, labels = spec.get("selector"), template_labels(spec)
    errors: list[FieldError] = []
    fits = matches(selector, labels)
    if fits is None:
        return [invalid("spec.selector", selector, "invalid label selector")]
    if not fits and not selectors.takes_all(selector):
        errors.append(invalid("spec.template.metadata.labels", shown_labels(spec), NOT_MATCHING))
    errors += template_errors(spec.get("template") or {}, "spec.template", options)
    return [*errors, *restart_errors(spec, kind)]


NOT_MATCHING = "`selector` does not match template `labels`"


def restart_errors(spec: Object, kind: str) -> Iterator[FieldError]:
    inside = (spec.get("template") or {}).get("spec") or {}
    policy = inside.get("restartPolicy") or ""
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if inside.get("activeDeadlineSeconds") is not None:
        at = "spec.template.spec.activeDeadlineSeconds"
        yield forbidden(at, f"activeDeadlineSeconds in {kind} is not Supported")


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


# --- deployments and replica sets --------------------------------------------------------------------------


def deployment_errors(spec: Object, options: PodOptions) -> list[FieldError]:
    errors = list(not_negative(spec, "spec", "replicas"))
    errors += selector_errors(spec, "deployment")
    errors += matching_template_errors(spec, "ReplicaSet", options)
    errors += _strategy_errors(spec.get("strategy") or {})
    errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        at = "spec.progressDeadlineSeconds"
        errors.append(invalid(at, deadline, "must be greater than minReadySeconds"))
    return errors


def replica_set_errors(spec: Object, options: PodOptions) -> list[FieldError]:
    errors = list(not_negative(spec, "spec", "replicas", "minReadySeconds"))
    errors += selector_errors(spec, "deployment")  # so upstream
    errors += matching_template_errors(spec, "ReplicaSet", options)
    return errors


def _strategy_errors(strategy: Object) -> Iterator[FieldError]:
    kind, rolling, at = (
        strategy.get("type") or "",
        strategy.get("rollingUpdate"),
        "spec.strategy.rollingUpdate",
    )
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        yield not_supported(
            "spec.strategy", update_strategy(strategy, _ROLLING), ("Recreate", "RollingUpdate")
        )
    elif rolling is None:
        yield required(at, "this should be defaulted and never be nil")
    else:
        yield from _rolling_errors(rolling, at)


def _rolling_errors(rolling: Object, path: str) -> Iterator[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    at = child(path, "maxUnavailable")
    yield from amount_or_percent(unavailable, at)
    yield from amount_or_percent(surge, child(path, "maxSurge"))
    if amount(unavailable) == 0 and amount(surge) == 0:
        yield invalid(at, unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(unavailable, at)


def replication_controller_errors(spec: Object, options: PodOptions) -> list[FieldError]:
    errors = list(not_negative(spec, "spec", "minReadySeconds"))
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        errors.append(required("spec.selector"))
    errors += not_negative(spec, "spec", "replicas")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template_labels(spec)
    if any(labels.get(name) != value for name, value in selector.items()):
        errors.append(invalid("spec.template.metadata.labels", shown_labels(spec), NOT_MATCHING))
    errors += template_errors(template, "spec.template", options)
    return [*errors, *restart_errors(spec, "ReplicationController")]


# --- daemon sets -------------------------------------------------------------------------------------------


def daemon_set_errors(spec: Object, options: PodOptions) -> list[FieldError]:
    selector, labels = spec.get("selector"), template_labels(spec)
    errors: list[FieldError] = []
    if selector is not None:
        errors += selectors.selector_errors(selector, "spec.selector")
    if matches(selector, labels) is False:
        errors.append(invalid("spec.template.metadata.labels", shown_labels(spec), NOT_MATCHING))
    if selectors.takes_all(selector):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += template_errors(spec.get("template") or {}, "spec.template", options)
    errors += restart_errors(spec, "DaemonSet")
    errors += not_negative(spec, "spec", "minReadySeconds")
    errors += _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    errors += not_negative(spec, "spec", "revisionHistoryLimit")
    return errors


def _daemon_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    kind, rolling, at = (
        strategy.get("type") or "",
        strategy.get("rollingUpdate"),
        child(path, "rollingUpdate"),
    )
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield not_supported(path, update_strategy(strategy, _ROLLING), ("RollingUpdate", "OnDelete"))
        return
    if rolling is None:
        yield required(at)
        return
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for check in (amount_or_percent, at_most_all):
        yield from check(unavailable, child(at, "maxUnavailable"))
        yield from check(surge, child(at, "maxSurge"))
    if amount(unavailable) and amount(surge):
        yield invalid(child(at, "maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
    elif not amount(unavailable) and not amount(surge):
        yield required(child(at, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


# --- amounts -----------------------------------------------------------------------------------------------


def amount_or_percent(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        yield from (invalid(path, value, text) for text in names.percent(value))
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, NOT_NEGATIVE)


def at_most_all(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and not names.percent(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def amount(value: int | str | None) -> int:
    """Things or percents are counted; a text that is no percentage is read as Go reads it as a number."""
    if not isinstance(value, str):
        return value or 0
    if not names.percent(value):
        return int(value[:-1])
    return int(value) if value.isascii() and value.isdigit() else 0


def _counts(status: Object, *fields: str) -> Iterator[FieldError]:
    for name in fields:
        number = status.get(name) or 0
        if number < 0:
            yield invalid(child(_PATH, name), number, NOT_NEGATIVE)


def _at_most(status: Object, most: str, text: str, *fields: str) -> Iterator[FieldError]:
    limit = status.get(most) or 0
    for name in fields:
        number = status.get(name) or 0
        if number > limit:
            yield invalid(child(_PATH, name), number, text)


def _collisions(new: Object, old: Object) -> Iterator[FieldError]:
    now, before = new.get("collisionCount"), old.get("collisionCount")
    if before is not None and (now is None or now < before):
        yield invalid(child(_PATH, "collisionCount"), now or 0, "cannot be decremented")


def replica_status_errors(new: Object, _old: Object) -> Iterator[FieldError]:
    counted = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from _counts(new, *counted, "terminatingReplicas", "observedGeneration")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *counted[1:])
    yield from _at_most(new, "readyReplicas", "cannot be greater than readyReplicas", "availableReplicas")


def deployment_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    yield from _counts(
        new, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    limited = ("updatedReplicas", "readyReplicas", "availableReplicas")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *limited)
    yield from _at_most(new, "readyReplicas", "cannot be greater than readyReplicas", "availableReplicas")
    yield from _collisions(new, old)


def stateful_set_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from _counts(new, "replicas", *limited, "observedGeneration", "collisionCount")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *limited)
    text = "cannot be greater than status.readyReplicas"
    yield from _at_most(new, "readyReplicas", text, "availableReplicas")
    yield from _collisions(new, old)


def daemon_set_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    yield from _counts(
        new, "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
        "collisionCount",
    )  # fmt: skip
    yield from _collisions(new, old)


class ReplicaStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(replica_status_errors(new.get("status") or {}, old.get("status") or {}))


# What upstream checks as new, and then its spec again: some workloads of older releases.
CHECKED_TWICE = (
    Check.METADATA,
    Check.METADATA_CHANGE,
    Check.STRUCTURE,
    Check.OWN_RULES,
    Check.OWN_RULES,
    Check.CHANGE,
)


class WorkloadStrategy(WithGeneration):
    """All workloads share the warnings about the template when the spec changed."""

    update_checks: ClassVar[Checks] = (
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.OWN_RULES,
        Check.CHANGE,
    )
    spec_errors: "ClassVar[staticmethod[[Object, PodOptions], list[FieldError]]]"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(obj["spec"], template_options(ctx))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(new["spec"], template_options(ctx, new["spec"], old["spec"]))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Only the change is checked here: `update_checks` names the rules of the spec."""
        return []

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [*host_name_warnings(obj), *self.template_warnings(obj, ctx)]

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        template = obj["spec"].get("template") or {}
        return template_warnings(template, "spec.template", ctx.features.pods)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return self.template_warnings(new, ctx)


class SelectingStrategy(WorkloadStrategy):
    """The selector never changes; the template may."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        after, before = (selectors.shown(workload["spec"].get("selector")) for workload in (new, old))
        return list(immutable(after, before, "spec.selector"))
