"""The number of replicas that follows from the usage of pods. Pure functions.

Pods that are not ready, or have no metrics, count so that they slow down a change and never reverse it.
Source: k8s.io/kubernetes/pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go, 1.36.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, is_terminal, needed_at_once
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.controllers.autoscaling.metrics_client import MetricError, PodMetric
from kubeskew.controllers.framework import pods as about_pods

TOLERANCE = 0.1
CPU_INITIALIZATION = timedelta(minutes=5)
INITIAL_READINESS_DELAY = timedelta(seconds=30)
_NO_PODS = "no pods returned by selector while calculating replica count"
_NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"

Values = dict[str, int]  # pod → thousandths


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Usage may be this far from its target, as a share of it, before anything changes."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def allow(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """A metric proposes replicas; `utilization` is in percent of the request, `average` in thousandths per
    pod.
    """

    replicas: int
    utilization: int | None
    average: int


@dataclass(slots=True)
class Groups:
    """Sorts the pods behind a target by how far their usage can be relied on."""

    ready: int = 0
    unready: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def by_utilization(
    current: int,
    target: int,
    metrics: Mapping[str, PodMetric],
    pods: Sequence[Object],
    requested: Callable[[], Mapping[str, int]],
    groups: Groups,
    tolerances: Tolerances,
) -> Proposal:
    """`target` is in percent of what pods request. Raises MetricError."""
    values = _counted(metrics, pods, groups)
    requests = requested()
    ratio, utilization, average = _utilization(values, requests, target)
    proposal = Proposal(current, utilization, average)
    if groups.missing and ratio < 1.0:
        share = max(100, target)
        fill = {name: requests[name] * share // 100 for name in groups.missing}
    else:
        fill = dict.fromkeys(groups.missing, 0)
    steps = _Steps(current, ratio, groups, tolerances)
    if (done := steps.without_doubt()) is not None:
        return proposal._replace(replicas=done)
    steps.fill(values, fill)
    again, _, _ = _utilization(values, requests, target)
    return proposal._replace(replicas=steps.with_doubt(again, len(values)))


def by_value(
    current: int,
    target: int,
    metrics: Mapping[str, PodMetric],
    pods: Sequence[Object],
    groups: Groups,
    tolerances: Tolerances,
) -> Proposal:
    """`target` is in thousandths per pod. Raises MetricError."""
    values = _counted(metrics, pods, groups)
    ratio, average = _average(values, target)
    proposal = Proposal(current, None, average)
    steps = _Steps(current, ratio, groups, tolerances)
    if (done := steps.without_doubt()) is not None:
        return proposal._replace(replicas=done)
    steps.fill(values, dict.fromkeys(groups.missing, target if ratio < 1.0 else 0))
    again, _ = _average(values, target)
    return proposal._replace(replicas=steps.with_doubt(again, len(values)))


class _Steps:
    def __init__(self, current: int, ratio: float, groups: Groups, tolerances: Tolerances) -> None:
        self._current = current
        self._ratio = ratio
        self._groups = groups
        self._tolerances = tolerances
        self._counts_unready = bool(groups.unready) and ratio > 1.0

    def without_doubt(self) -> int | None:
        """Unready pods and missing metrics require assumptions, and give None."""
        if self._counts_unready or self._groups.missing:
            return None
        if self._tolerances.allow(self._ratio):
            return self._current
        return math.ceil(self._ratio * self._groups.ready)

    def fill(self, values: Values, missing: Mapping[str, int]) -> None:
        """Adds assumed values for pods without any, unless the ratio is exactly 1."""
        if self._ratio != 1.0:
            values |= missing
        if self._counts_unready:
            values |= dict.fromkeys(self._groups.unready, 0)

    def with_doubt(self, ratio: float, counted: int) -> int:
        """Assumed values may not reverse the direction of the change; the present number stays then."""
        turned = (self._ratio < 1.0 < ratio) or (self._ratio > 1.0 > ratio)
        if self._tolerances.allow(ratio) or turned:
            return self._current
        wanted = math.ceil(ratio * counted)
        if (ratio < 1.0 and wanted > self._current) or (ratio > 1.0 and wanted < self._current):
            return self._current
        return wanted


def _counted(metrics: Mapping[str, PodMetric], pods: Sequence[Object], groups: Groups) -> Values:
    if not pods:
        raise MetricError(_NO_PODS)
    left_out = {*groups.ignored, *groups.unready}
    values = {name: metric.value for name, metric in metrics.items() if name not in left_out}
    if not values:
        raise MetricError(_NO_METRICS)
    return values


def _utilization(values: Values, requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    known = [name for name in values if name in requests]
    requested = sum(requests[name] for name in known)
    if not requested:
        raise MetricError("no metrics returned matched known pods")
    used = sum(values[name] for name in known)
    percent = used * 100 // requested
    return percent / target, percent, used // len(known)


def _average(values: Values, target: int) -> tuple[float, int]:
    average = sum(values.values()) // len(values)
    return average / target, average


# -- pods


def grouped(pods: Iterable[Object], metrics: Mapping[str, PodMetric], resource: str, now: datetime) -> Groups:
    """Pods that end are ignored; unready are pending pods and, for cpu, those that are starting."""
    groups = Groups()
    for pod in pods:
        name: str = pod["metadata"]["name"]
        if about_pods.is_terminating(pod) or is_terminal(pod):
            groups.ignored.append(name)
        elif about_pods.phase(pod) == "Pending":
            groups.unready.append(name)
        elif name not in metrics:
            groups.missing.append(name)
        elif resource == "cpu" and _starts_up(pod, metrics[name], now):
            groups.unready.append(name)
        else:
            groups.ready += 1
    return groups


def _starts_up(pod: Object, metric: PodMetric, now: datetime) -> bool:
    """Usage of a pod that is starting says nothing about its load; these pods count as unready."""
    condition, start = find_condition(pod, "Ready"), pod["status"].get("startTime")
    if condition is None or not start:
        return True
    started, is_unready = parse_timestamp(start), condition["status"] == "False"
    changed = condition.get("lastTransitionTime")
    changed_at = parse_timestamp(changed) if changed else datetime.min.replace(tzinfo=now.tzinfo)
    if started + CPU_INITIALIZATION > now:
        return is_unready or metric.at < changed_at + metric.window
    return is_unready and started + INITIAL_READINESS_DELAY > changed_at


def requests_of(pods: Iterable[Object], container: str, resource: str, *, pod_level: bool) -> dict[str, int]:
    """Requests are in thousandths, of the pod or of its container of that name. Raises MetricError."""
    found = {}
    for pod in pods:
        own = (pod["spec"].get("resources") or {}).get("requests") or {}
        if pod_level and own and not container:
            found[pod["metadata"]["name"]] = _of_pod(pod, own, resource)
        else:
            found[pod["metadata"]["name"]] = _of_containers(pod, container, resource)
    return found


def _of_pod(pod: Object, own: Mapping[str, Any], resource: str) -> int:
    """`own` are the pod-level requests, which take precedence; raises MetricError without any."""
    if resource in own:
        return Quantity.of(own[resource]).milli_value()
    regular = [_amounts(container) for container in pod["spec"].get("containers") or ()]
    first = [(is_sidecar(each), _amounts(each)) for each in pod["spec"].get("initContainers") or ()]
    needed = needed_at_once(regular, first)
    if resource not in needed:
        raise MetricError(f"missing pod-level request for {resource} in Pod {pod['metadata']['name']}")
    return needed[resource].milli_value()


def _amounts(container: Object) -> dict[str, Quantity]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: Quantity.of(amount) for name, amount in requests.items()}


def _of_containers(pod: Object, container: str, resource: str) -> int:
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    sidecars = [each for each in spec.get("initContainers") or () if is_sidecar(each)]
    total = 0
    for each in [*(spec.get("containers") or ()), *sidecars]:
        if container not in {"", each["name"]}:
            continue
        requests = _amounts(each)
        if resource not in requests:
            raise MetricError(f"missing request for {resource} in container {each['name']} of Pod {pod_name}")
        total += requests[resource].milli_value()
        if container:
            return total
    if container:
        raise MetricError(f"container {container} not found in Pod {pod_name}")
    return total
