"""Rules of deployments, replica sets and the other workloads.

Source: pkg/apis/apps/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, invalid, not_supported, required
from apimachinery.labels import LabelSelector
from apimachinery.validation import names
from apimachinery.validation.object_meta import IMMUTABLE
from apiserver.registry.validation import selectors
from apiserver.registry.validation.amounts import NOT_NEGATIVE
from apiserver.registry.validation.pod_spec import template_errors


def not_negative(obj: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for name in fields:
        number = obj.get(name)
        if isinstance(number, int) and number < 0:
            yield invalid(child(path, name), number, NOT_NEGATIVE)


def selector_errors(spec: Object, what: str) -> Iterator[FieldError]:
    """The selector of a workload: given, and not so wide that it takes every pod."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from selectors.selector_errors(selector, "spec.selector")
    if selectors.is_empty(selector):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {what}")


def matching_template_errors(spec: Object, *, restart: tuple[str, ...] = ("Always",)) -> list[FieldError]:
    """The template: fit for the selector, valid as a pod, with a restart policy that the workload allows."""
    template = spec.get("template") or {}
    errors: list[FieldError] = []
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if not selectors.is_empty(selector) and not _matches(selector or {}, labels):
        text = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, text))
    errors += template_errors(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy") or ""
    if policy not in restart:
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, restart))
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None and restart == ("Always",):
        at = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden(at, "activeDeadlineSeconds in ReplicaSet is not Supported"))
    return errors


def _matches(selector: Object, labels: dict[str, str]) -> bool:
    try:
        return bool(LabelSelector.from_object(selector).matches(labels))
    except ValueError:
        return True  # the selector's own error says it


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def deployment_errors(spec: Object) -> list[FieldError]:
    errors = list(not_negative(spec, "spec", "replicas"))
    errors += selector_errors(spec, "deployment")
    errors += matching_template_errors(spec)
    errors += _strategy_errors(spec.get("strategy") or {})
    errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(
            invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
        )
    return errors


def _strategy_errors(strategy: Object) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden("spec.strategy.rollingUpdate", text)
    elif kind == "RollingUpdate":
        if rolling is None:
            yield required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil")
            return
        yield from _rolling_errors(rolling, "spec.strategy.rollingUpdate")
    else:
        yield not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))


def _rolling_errors(rolling: Object, path: str) -> Iterator[FieldError]:
    for name in ("maxUnavailable", "maxSurge"):
        yield from amount_or_percent(rolling.get(name), child(path, name))
    if _amount(rolling.get("maxUnavailable")) == 0 and _amount(rolling.get("maxSurge")) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        yield invalid(child(path, "maxUnavailable"), rolling.get("maxUnavailable"), text)
    share = rolling.get("maxUnavailable")
    if isinstance(share, str) and not names.percent(share) and int(share[:-1]) > 100:
        yield invalid(child(path, "maxUnavailable"), share, "must not be greater than 100%")


def amount_or_percent(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        if names.percent(value):
            yield invalid(path, value, "must be an integer or percentage (e.g '5%%')")
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, NOT_NEGATIVE)


def _amount(value: int | str | None) -> int:
    if isinstance(value, str):
        return 1 if names.percent(value) else int(value[:-1])
    return value or 0


def replica_set_errors(spec: Object, what: str = "replicaset") -> list[FieldError]:
    errors = list(not_negative(spec, "spec", "replicas", "minReadySeconds"))
    errors += selector_errors(spec, what)
    errors += matching_template_errors(spec)
    return errors
