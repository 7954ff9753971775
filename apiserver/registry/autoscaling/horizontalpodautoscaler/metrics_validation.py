"""Holds the rules of the metrics of autoscalers.

Source: k8s.io/kubernetes/pkg/apis/autoscaling/validation/validation.go, 1.36.
"""

from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.shared.amounts import container_name_errors

References = Callable[[Object, str], Iterator[FieldError]]

_SOURCES = ("object", "external", "pods", "resource", "containerResource")  # in the order of the checks
_TYPES = {name[:1].upper() + name[1:]: name for name in _SOURCES}
_TARGETS = ("Utilization", "Value", "AverageValue")
_NO_AMOUNT = "must set either a target raw value or a target utilization"
_TWO_AMOUNTS = "may not set both a target raw value and a target utilization"


def metrics_errors(
    metrics: list[Object], path: str, described: References, *, to_zero: bool
) -> Iterator[FieldError]:
    """Checks metrics; `described` checks what an object metric is about; `to_zero`: there may be no replicas
    at all.
    """
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
        yield invalid(at, kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and Quantity.parse(amount).sign() != 1:
            yield invalid(child(path, name), amount, "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        yield invalid(child(path, "averageUtilization"), percent, "must be greater than 0")
