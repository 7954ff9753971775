"""The controller of horizontal pod autoscalers: every 15 seconds it scales their targets by the usage of
pods. Each metric proposes a number of replicas, limits bound the change (the autoscaler's, its behaviour's,
recent recommendations), and the status has the reason.

A new autoscaler, or a changed one, is processed at once at first.

Sources: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, 1.36;
k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go (normalizeDesiredReplicas…), 1.36;
k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetrics), 1.36.
"""

import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import HORIZONTAL_POD_AUTOSCALERS, PODS, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import new_condition, with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import label_selector_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Format, Quantity
from kubeskew.apimachinery.selectors.label_requirements import SelectorError
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.autoscaling import replicas
from kubeskew.controllers.autoscaling.features import AutoscalerFeatures
from kubeskew.controllers.autoscaling.metrics_client import MetricError, resource_metrics
from kubeskew.controllers.autoscaling.replicas import Proposal
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError, key_of
from kubeskew.controllers.framework.discovery import served_resources

ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
GOT_SCALE = ("SucceededGetScale", "the HPA controller was able to get the target's current scale")
_SOURCES = {"Resource": "resource", "ContainerResource": "containerResource"}
STABILIZATION_SECONDS = 300  # highest recommendation of this time counts before fewer replicas do
_FACTOR, _AT_LEAST = 2.0, 4.0  # replicas that may be added at once without a behaviour
_READY = ("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")

Why = tuple[str, str]  # reason and message of a condition
Event = tuple[str, str]  # reason and message of a warning


def rescaling(current: int, least: int, most: int) -> tuple[int, str] | None:
    """(new size, why) if the limits decide alone, else None."""
    if current > most:
        return most, "Current number of replicas above Spec.MaxReplicas"
    if current < least:
        return least, "Current number of replicas below Spec.MinReplicas"
    return None


def source_of(metric: Object) -> Object | None:
    """Only the kinds Resource and ContainerResource measure a resource; None for the others."""
    kind = _SOURCES.get(metric["type"])
    return metric.get(kind) if kind is not None else None


def metric_name(metric: Object) -> str:
    source = source_of(metric) or {}
    if source["target"].get("averageValue") is not None:
        return f"{source['name']} resource"
    what = "container resource" if metric["type"] == "ContainerResource" else "resource"
    return f"{source['name']} {what} utilization (percentage of request)"


def measured(metric: Object, proposal: Proposal, *, binary_memory: bool) -> Object:
    kind, source = _SOURCES[metric["type"]], source_of(metric) or {}
    is_binary = binary_memory and source["name"] == "memory"
    quantity = Quantity(proposal.average, -3, Format.BINARY_SI if is_binary else Format.DECIMAL_SI)
    current: dict[str, Any] = {"averageValue": quantity.canonical()}
    if proposal.utilization is not None:
        current = {"averageUtilization": proposal.utilization, **current}
    names = {key: source[key] for key in ("name", "container") if key in source}
    return {"type": metric["type"], kind: {**names, "current": current}}


def unmeasured(metrics: Sequence[Object]) -> list[Object]:
    return [{"type": ""} for _ in metrics]


def failure(metric: Object, why: str) -> tuple[str, str, str]:
    """A metric without a value has (reason, message, summary of all metrics)."""
    source = source_of(metric) or {}
    what = "utilization" if source["target"].get("averageValue") is None else "usage"
    message = f"failed to get {source['name']} {what}: {why}"
    if metric["type"] == "ContainerResource":
        return (
            "FailedGetContainerResourceMetric",
            message,
            f"failed to get {source['container']} container metric value: {message}",
        )
    return (
        "FailedGetResourceMetric",
        message,
        f"failed to get {source['name']} resource metric value: {message}",
    )


def unserved(metric: Object, namespace: str) -> tuple[str, str, str]:
    """(reason, message, summary) where no server has the API of the metric (replica_calculator.go, 1.36)."""
    kind = metric["type"]
    source = metric[kind[0].lower() + kind[1:]]
    name = source["metric"]["name"]
    averaged = (source.get("target") or {}).get("averageValue") is not None
    if kind == "External":
        selector = source["metric"].get("selector")
        shown = label_selector_text(selector) if selector is not None else "nil"
        why = f"unable to get external metric {namespace}/{name}/{shown}: unable to fetch metrics from "
        why += "external metrics API: the server could not find the requested resource "
        why += f"(get {name}.external.metrics.k8s.io)"
        failed = f"failed to get {name} external metric"
        if not averaged:
            failed = f"failed to get external metric {name}"
        return "FailedGetExternalMetric", why, f"failed to get {name} external metric value: {failed}: {why}"
    why = f"unable to get metric {name}: unable to fetch metrics from custom metrics API: "
    why += "no custom metrics API (custom.metrics.k8s.io) registered"
    summary = why
    if kind == "Object":
        described = source["describedObject"]
        why += f" on {described['kind']} {namespace}/{described['name']}"
        summary = f"failed to get {name} object metric: {why}" if averaged else why
    return f"FailedGet{kind}Metric", why, f"failed to get {kind.lower()} metric value: {summary}"


class Limited(NamedTuple):
    replicas: int
    able: Why
    is_limited: bool
    limit: Why


@dataclass(slots=True)
class History:
    """Holds what the controller recommended for one autoscaler and how it was scaled, each with its time."""

    recommendations: list[tuple[int, datetime]] = field(default_factory=list)
    ups: list[tuple[int, datetime]] = field(default_factory=list)
    downs: list[tuple[int, datetime]] = field(default_factory=list)

    def begin(self, current: int, now: datetime) -> None:
        if not self.recommendations:
            self.recommendations = [(current, now)]

    def scaled(self, behaviour: Object | None, before: int, after: int, now: datetime) -> None:
        """Changes are recorded only under a behaviour: nothing else looks at them."""
        if behaviour is None:
            return
        rules = behaviour["scaleUp" if after > before else "scaleDown"]
        oldest = now - timedelta(seconds=max(policy["periodSeconds"] for policy in rules["policies"]))
        if after > before:
            self.ups = [*_since(self.ups, oldest), (after - before, now)]
        else:
            self.downs = [*_since(self.downs, oldest), (before - after, now)]

    def limit(self, spec: Object, current: int, wanted: int, least: int, now: datetime) -> Limited:
        """Limits `wanted` by recent recommendations and by the behaviour's or the default rules; it is
        recorded.
        """
        behaviour = spec.get("behavior")
        if behaviour is None:
            stable, able = self._stabilized(wanted, now)
            replicas, limit = _by_rules(current, stable, least, spec["maxReplicas"])
        else:
            stable, able = self._stabilized_as_wanted(behaviour, current, wanted, now)
            replicas, limit = self._by_behaviour(behaviour, current, stable, least, spec["maxReplicas"], now)
        return Limited(replicas, able, replicas != stable, limit)

    def _stabilized(self, wanted: int, now: datetime) -> tuple[int, Why]:
        """Without a behaviour the highest recommendation of the last STABILIZATION_SECONDS counts."""
        recent = _since(self.recommendations, now - timedelta(seconds=STABILIZATION_SECONDS), inclusive=True)
        stable = max([wanted, *(count for count, _ in recent)])
        self.recommendations = [*recent, (wanted, now)]
        return stable, _READY if stable == wanted else _DOWN_STABILIZED

    def _stabilized_as_wanted(
        self, behaviour: Object, current: int, wanted: int, now: datetime
    ) -> tuple[int, Why]:
        """Keeps the replicas between the lowest and the highest recent recommendation, within the behaviour's
        windows.
        """
        window = behaviour["scaleDown"].get("stabilizationWindowSeconds")
        down = timedelta(seconds=STABILIZATION_SECONDS if window is None else window)
        up = timedelta(seconds=behaviour["scaleUp"]["stabilizationWindowSeconds"])
        lowest = min([wanted, *(count for count, at in self.recommendations if at > now - up)])
        highest = max([wanted, *(count for count, at in self.recommendations if at > now - down)])
        stable = min(max(current, lowest), highest)
        kept = _since(self.recommendations, now - max(up, down), inclusive=True)
        self.recommendations = [*kept, (wanted, now)]
        if stable == wanted:
            return stable, _READY
        return stable, _UP_STABILIZED if wanted >= current else _DOWN_STABILIZED

    def _by_behaviour(
        self, behaviour: Object, current: int, wanted: int, least: int, most: int, now: datetime
    ) -> tuple[int, Why]:
        if wanted > current:
            rate = max(self._most_by_rules(behaviour["scaleUp"], current, now), current)
            limit, why = (rate, _TOO_FAST_UP) if most > rate else (most, _TOO_MANY)
            if wanted > limit:
                return limit, why
        elif wanted < current:
            rate = min(self._least_by_rules(behaviour["scaleDown"], current, now), current)
            limit, why = (rate, _TOO_FAST_DOWN) if least < rate else (least, _TOO_FEW)
            if wanted < limit:
                return limit, why
        return wanted, _WITHIN

    def _most_by_rules(self, rules: Object, current: int, now: datetime) -> int:
        def proposed(policy: Object, before: int) -> int:
            value = int(policy["value"])
            return before + value if policy["type"] == "Pods" else math.ceil(before * (1 + value / 100))

        return self._by_policies(rules, current, now, proposed, max)

    def _least_by_rules(self, rules: Object, current: int, now: datetime) -> int:
        def proposed(policy: Object, before: int) -> int:
            value = int(policy["value"])
            return before - value if policy["type"] == "Pods" else int(before * (1 - value / 100))

        return self._by_policies(rules, current, now, proposed, min)

    def _by_policies(
        self,
        rules: Object,
        current: int,
        now: datetime,
        proposed: Callable[[Object, int], int],
        furthest: Callable[[list[int]], Any],
    ) -> int:
        """The policy with the largest change counts, with `Min` the one with the smallest."""
        if rules["selectPolicy"] == "Disabled":
            return current
        nearest = min if furthest is max else max
        select = nearest if rules["selectPolicy"] == "Min" else furthest
        found = []
        for policy in rules["policies"]:
            since = now - timedelta(seconds=policy["periodSeconds"])
            added = sum(count for count, _ in _since(self.ups, since))
            removed = sum(count for count, _ in _since(self.downs, since))
            found.append(proposed(policy, current - added + removed))
        return int(select(found))


def _by_rules(current: int, wanted: int, least: int, most: int) -> tuple[int, Why]:
    fastest = int(max(_FACTOR * current, _AT_LEAST))
    limit, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
    if wanted < least:
        return least, _TOO_FEW
    if wanted > limit:
        return limit, why
    return wanted, _WITHIN


def _since(
    entries: Iterable[tuple[int, datetime]], moment: datetime, *, inclusive: bool = False
) -> list[tuple[int, datetime]]:
    return [(count, at) for count, at in entries if at > moment or (inclusive and at == moment)]


@dataclass(slots=True)
class Proposals:
    """Metrics propose `replicas`, the largest of them by `metric`; None if none has a value.

    `active` is the condition ScalingActive as (status, reason, message); `error` sums up what failed.
    """

    replicas: int | None = None
    metric: str = ""
    statuses: list[Object] | None = None
    active: tuple[str, str, str] = ("False", "", "")
    error: str = ""
    warnings: list[Event] = field(default_factory=list)


class _Failed(NamedTuple):
    reason: str
    message: str
    summary: str


class Proposer:
    def __init__(self, client: APIClient, pods: Informer, clock: Clock, features: AutoscalerFeatures) -> None:
        self._client = client
        self._pods = pods
        self._clock = clock
        self._features = features
        self._selectors: dict[Key, LabelSelector] = {}  # of the autoscalers that have been synced

    def forget(self, key: Key) -> None:
        self._selectors.pop(key, None)

    async def propose(self, autoscaler: Object, scale: Object) -> Proposals:
        found = Proposals()
        text = (scale.get("status") or {}).get("selector") or ""
        pods = self._selected(autoscaler, text, found)
        if pods is None:
            return found
        metrics = autoscaler["spec"].get("metrics") or []
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        found.statuses = unmeasured(metrics)
        failures = []
        for position, metric in enumerate(metrics):
            proposal = await self._one(autoscaler, metric, current, text, pods)
            if isinstance(proposal, _Failed):
                failures.append(proposal)
                found.warnings.append((proposal.reason, proposal.message))
                continue
            binary = self._features.binary_memory
            found.statuses[position] = measured(metric, proposal, binary_memory=binary)
            if not found.replicas or proposal.replicas > found.replicas:
                found.replicas, found.metric = proposal.replicas, metric_name(metric)
        self._conclude(found, failures, len(metrics), current)
        return found

    def _conclude(self, found: Proposals, failures: list[_Failed], count: int, current: int) -> None:
        """Sets condition and error; while some metrics are missing, replicas are never reduced."""
        if failures:
            summary = failures[0].summary
            found.error = (
                f"invalid metrics ({len(failures)} invalid out of {count}), first error is: {summary}"
            )
        if len(failures) >= count or (failures and (found.replicas or 0) < current):
            message = f"the HPA was unable to compute the replica count: {failures[0].message}"
            found.active = "False", failures[0].reason, message
            found.replicas = None
            return
        message = f"the HPA was able to successfully calculate a replica count from {found.metric}"
        found.active = "True", "ValidMetricFound", message

    def _selected(self, autoscaler: Object, text: str, found: Proposals) -> list[Object] | None:
        """An unusable selector gives None; `proposals` then has the reason."""
        invalid = "InvalidSelector"
        if not text:
            found.warnings.append(("SelectorRequired", "selector is required"))
            found.active = "False", invalid, "the HPA target's scale is missing a selector"
            found.error = "selector is required"
            return None
        try:
            selector = LabelSelector.parse(text)
        except SelectorError as error:
            found.error = f"couldn't convert selector into a corresponding internal selector object: {error}"
            found.warnings.append((invalid, found.error))
            found.active = "False", invalid, found.error
            return None
        key = key_of(autoscaler)
        self._selectors[key] = selector
        pods = [
            pod for pod in self._pods.list(key.namespace) if selector.matches(pod["metadata"].get("labels"))
        ]
        others = self._selecting(key.namespace, pods)
        if len(others) > 1:
            shown = " ".join(f"{{{each.name} {each.namespace}}}" for each in others)
            found.error = f"pods by selector {text} are controlled by multiple HPAs: [{shown}]"
            found.warnings.append(("AmbiguousSelector", found.error))
            found.active = "False", "AmbiguousSelector", found.error
            return None
        return pods

    def _selecting(self, namespace: str, pods: list[Object]) -> list[Key]:
        labels: list[Mapping[str, str]] = [pod["metadata"].get("labels") or {} for pod in pods]
        return sorted(
            key
            for key, selector in self._selectors.items()
            if key.namespace == namespace and any(selector.matches(each) for each in labels)
        )

    async def _one(
        self, autoscaler: Object, metric: Object, current: int, selector: str, pods: list[Object]
    ) -> replicas.Proposal | _Failed:
        source = source_of(metric)
        if source is None:
            return _Failed(*unserved(metric, autoscaler["metadata"]["namespace"]))
        try:
            return await self._of_resource(autoscaler, source, current, selector, pods)
        except MetricError as error:
            return _Failed(*failure(metric, str(error)))

    async def _of_resource(
        self, autoscaler: Object, source: Object, current: int, selector: str, pods: list[Object]
    ) -> replicas.Proposal:
        name, container = source["name"], source.get("container") or ""
        namespace, target = autoscaler["metadata"]["namespace"], source["target"]
        try:
            metrics = await resource_metrics(
                *(self._client, name, namespace, selector, container),
                needs_container=self._features.needs_container,
            )
        except MetricError as error:
            raise MetricError(f"unable to get metrics for resource {name}: {error}") from error
        groups = replicas.grouped(pods, metrics, name, self._clock.now())
        tolerances = self._tolerances(autoscaler["spec"].get("behavior"))
        if target.get("averageValue") is not None:
            wanted = Quantity.of(target["averageValue"]).milli_value()
            return replicas.by_value(current, wanted, metrics, pods, groups, tolerances)
        pod_level = self._features.pod_level_requests
        return replicas.by_utilization(
            *(current, target["averageUtilization"], metrics, pods),
            lambda: replicas.requests_of(pods, container, name, pod_level=pod_level),
            *(groups, tolerances),
        )

    def _tolerances(self, behaviour: Object | None) -> replicas.Tolerances:
        if behaviour is None or not self._features.configurable_tolerance:
            return replicas.Tolerances()
        found = [(behaviour.get(rules) or {}).get("tolerance") for rules in ("scaleDown", "scaleUp")]
        return replicas.Tolerances(
            *(replicas.TOLERANCE if each is None else float(Quantity.of(each).decimal()) for each in found)
        )


class HorizontalController(Controller):
    name = "horizontal-pod-autoscaler-controller"
    component = "horizontal-pod-autoscaler"
    queue_name = "horizontalpodautoscaler"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._autoscalers = context.informer(HORIZONTAL_POD_AUTOSCALERS)
        self._autoscalers.add_handler(self._look, self._changed, self._deleted)
        self._refs: dict[tuple[str, str], Ref] = {}
        self._features = AutoscalerFeatures.of(self.environment.gates)
        self._proposer = Proposer(self.client, context.informer(PODS), self.clock, self._features)
        self._histories: dict[Key, History] = {}

    def _changed(self, old: Object, new: Object) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"] or old["spec"] != new["spec"]:
            self._look(new)

    def _look(self, autoscaler: Object) -> None:
        self.queue.add_after(key_of(autoscaler), self.environment.periods.autoscaler_first)

    def _deleted(self, autoscaler: Object) -> None:
        self._histories.pop(key_of(autoscaler), None)
        self._proposer.forget(key_of(autoscaler))

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._resync()]

    async def _resync(self) -> None:
        while True:
            await self.clock.sleep(self.environment.periods.autoscaler_sync)
            for autoscaler in self._autoscalers.list():
                self._look(autoscaler)

    async def sync(self, key: Key) -> None:
        autoscaler = self._autoscalers.get(*key)
        if autoscaler is None:
            return
        found = dict(autoscaler.get("status") or {})
        found["conditions"] = list(found.get("conditions") or ())
        try:
            ref = await self._target(autoscaler)
            scale = await self._scale(ref, autoscaler)
        except (StatusError, SyncError) as error:
            why = str(error) if isinstance(error, SyncError) else error.message
            self.recorder.event(autoscaler, "Warning", "FailedGetScale", why)
            why = f"the HPA controller was unable to get the target's current scale: {why}"
            self._condition(found, ABLE_TO_SCALE, "False", "FailedGetScale", why)
            await self._write(autoscaler, found)
            return
        self._condition(found, ABLE_TO_SCALE, "True", *GOT_SCALE)
        await self._keep(autoscaler, ref, scale, found)
        await self._write(autoscaler, found)

    async def _keep(self, autoscaler: Object, ref: Ref, scale: Object, found: Object) -> None:
        spec = autoscaler["spec"]
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        least = 1 if spec.get("minReplicas") is None else spec["minReplicas"]
        history = self._histories.setdefault(key_of(autoscaler), History())
        history.begin(current, self.clock.now())
        self._set_status(autoscaler, found, current)
        if current == 0 and least != 0:
            why = "scaling is disabled since the replica count of the target is zero"
            self._condition(found, SCALING_ACTIVE, "False", "ScalingDisabled", why)
            found["desiredReplicas"] = 0
            return
        limited = rescaling(current, least, spec["maxReplicas"])
        if limited is not None:
            await self._rescale(autoscaler, ref, scale, found, *limited)
            return
        proposals = await self._proposer.propose(autoscaler, scale)
        self._report_metrics(autoscaler, found, proposals)
        if proposals.replicas is None:
            return
        wanted, why = proposals.replicas, "All metrics below target"
        if wanted > current:
            why = f"{proposals.metric} above target"
        within = history.limit(spec, current, wanted, least, self.clock.now())
        self._condition(found, ABLE_TO_SCALE, "True", *within.able)
        self._condition(found, SCALING_LIMITED, str(within.is_limited), *within.limit)
        if within.replicas == current:
            found["desiredReplicas"] = current
            return
        await self._rescale(autoscaler, ref, scale, found, within.replicas, why)

    def _set_status(self, autoscaler: Object, found: Object, current: int) -> None:
        found["currentReplicas"] = current
        found.setdefault("desiredReplicas", 0)
        found.pop("currentMetrics", None)
        if self._features.observed_generation:
            found["observedGeneration"] = autoscaler["metadata"].get("generation", 0)

    def _report_metrics(self, autoscaler: Object, found: Object, proposals: Proposals) -> None:
        for reason, message in proposals.warnings:
            self.recorder.event(autoscaler, "Warning", reason, message)
        if proposals.replicas is None:
            self.recorder.event(autoscaler, "Warning", "FailedComputeMetricsReplicas", proposals.error)
        self._condition(found, SCALING_ACTIVE, *proposals.active)
        if proposals.statuses is not None:
            found["currentMetrics"] = proposals.statuses

    async def _rescale(
        self, autoscaler: Object, ref: Ref, scale: Object, found: Object, size: int, why: str
    ) -> None:
        current = found["currentReplicas"]
        try:
            await self.client.update(ref, {**scale, "spec": {"replicas": size}}, "scale")
        except StatusError as error:
            message = f"New size: {size}; reason: {why}; error: {error.message}"
            self.recorder.event(autoscaler, "Warning", "FailedRescale", message)
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            self._condition(found, ABLE_TO_SCALE, "False", "FailedUpdateScale", message)
            await self._write(autoscaler, found)
            raise
        message = f"the HPA controller was able to update the target scale to {size}"
        self._condition(found, ABLE_TO_SCALE, "True", "SucceededRescale", message)
        self.recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {size}; reason: {why}")
        now = self.clock.now()
        self._histories[key_of(autoscaler)].scaled(autoscaler["spec"].get("behavior"), current, size, now)
        found |= {"desiredReplicas": size, "lastScaleTime": timestamp(now)}

    def _condition(self, found: Object, kind: str, value: str, reason: str, message: str) -> None:
        now = self.clock.now()
        found["conditions"] = with_condition(
            found["conditions"], new_condition(kind, value, reason, message, now)
        )

    async def _write(self, autoscaler: Object, found: Object) -> None:
        if found != (autoscaler.get("status") or {}):
            new = {**autoscaler, "status": found}
            await self.client.update(HORIZONTAL_POD_AUTOSCALERS, new, "status")

    async def _scale(self, ref: Ref, autoscaler: Object) -> Object:
        target = autoscaler["spec"]["scaleTargetRef"]
        namespace = autoscaler["metadata"]["namespace"]
        return await self.client.get(ref, target["name"], namespace, subresource="scale")

    async def _target(self, autoscaler: Object) -> Ref:
        """Discovery is asked once for each unknown kind. Raises SyncError."""
        target = autoscaler["spec"]["scaleTargetRef"]
        group = target.get("apiVersion", "").rpartition("/")[0]
        key = group, target["kind"]
        if key not in self._refs:
            served = await served_resources(self.client)
            self._refs = {
                (resource.ref.group, resource.ref.kind): resource.ref
                for resource in served
                if resource.preferred
            }
        if key not in self._refs:
            why = f'no matches for kind "{target["kind"]}" in group "{group}"'
            raise SyncError(f"unable to determine resource for scale target reference: {why}")
        return self._refs[key]
