"""Asks each metric of an autoscaler how many replicas it wants.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetrics), 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.label_requirements import SelectorError
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.autoscaling import replicas, status
from kubeskew.controllers.autoscaling.features import AutoscalerFeatures
from kubeskew.controllers.autoscaling.measuring import MetricError, resource_metrics
from kubeskew.controllers.framework.base import Key, key_of

Event = tuple[str, str]  # reason and message of a warning


@dataclass(slots=True)
class Proposals:
    """Holds what an autoscaler's metrics came to: how many replicas, by which metric, None if nothing did.

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
    """Measures for the autoscalers of one cluster."""

    def __init__(self, client: APIClient, pods: Informer, clock: Clock, features: AutoscalerFeatures) -> None:
        self._client = client
        self._pods = pods
        self._clock = clock
        self._features = features
        self._selectors: dict[Key, LabelSelector] = {}  # of the autoscalers that have been looked at

    def forget(self, key: Key) -> None:
        self._selectors.pop(key, None)

    async def propose(self, autoscaler: Object, scale: Object) -> Proposals:
        """Returns what an autoscaler's metrics want for the scale of its target."""
        found = Proposals()
        text = (scale.get("status") or {}).get("selector") or ""
        pods = self._selected(autoscaler, text, found)
        if pods is None:
            return found
        metrics = autoscaler["spec"].get("metrics") or []
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        found.statuses = status.unmeasured(metrics)
        failures = []
        for position, metric in enumerate(metrics):
            proposal = await self._one(autoscaler, metric, current, text, pods)
            if isinstance(proposal, _Failed):
                failures.append(proposal)
                found.warnings.append((proposal.reason, proposal.message))
                continue
            binary = self._features.binary_memory
            found.statuses[position] = status.measured(metric, proposal, binary_memory=binary)
            if not found.replicas or proposal.replicas > found.replicas:
                found.replicas, found.metric = proposal.replicas, status.metric_name(metric)
        self._conclude(found, failures, len(metrics), current)
        return found

    def _conclude(self, found: Proposals, failures: list[_Failed], count: int, current: int) -> None:
        """Sets condition and error: with some metrics missing there are never fewer replicas."""
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
        """Returns the pods behind a target; None if its selector cannot be used, which `found` then tells."""
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
        """Returns the autoscalers that select any of the pods."""
        labels: list[Mapping[str, str]] = [pod["metadata"].get("labels") or {} for pod in pods]
        return sorted(
            key
            for key, selector in self._selectors.items()
            if key.namespace == namespace and any(selector.matches(each) for each in labels)
        )

    async def _one(
        self, autoscaler: Object, metric: Object, current: int, selector: str, pods: list[Object]
    ) -> replicas.Proposal | _Failed:
        source = status.source_of(metric)
        if source is None:
            return _Failed(*status.unserved(metric))
        try:
            return await self._of_resource(autoscaler, source, current, selector, pods)
        except MetricError as error:
            return _Failed(*status.failure(metric, str(error)))

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
