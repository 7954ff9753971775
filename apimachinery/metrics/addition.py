"""Adds up the metrics of processes that are one component to those that see only the sum."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.samples import Sample

_Series = tuple[str, tuple[tuple[str, str], ...]]
# Beginnings of names: what all processes see alike, because it is of what they share or is a setting.
_ALIKE = (
    "aggregator_unavailable_apiservice", "apiserver_resource_objects", "apiserver_storage_",
    "apiserver_flowcontrol_priority_level_", "etcd_", "kubernetes_", "process_max_fds", "process_start_time",
    "process_virtual_memory_max", "version_info",
)  # fmt: skip
_ALIKE_COUNTER = "registered_metrics"
_ALIKE_TYPES = ("gauge", "unknown")


def added_up(processes: Sequence[Iterable["Metric"]]) -> "Iterable[Metric]":
    """The first process' families, with the sums of all; what is no sum, such as the number of stored
    objects, is the greatest of what they see.
    """
    first, *others = processes
    if not others:
        return first
    families = {metric.name: metric for metric in first}
    values = {
        name: {_series(sample): sample for sample in metric.samples} for name, metric in families.items()
    }
    for other in others:
        for metric in other:
            known = values.setdefault(families.setdefault(metric.name, metric).name, {})
            for sample in metric.samples:
                series = _series(sample)
                before = known.get(series)
                known[series] = sample if before is None else _together(metric, before, sample)
    for name, metric in families.items():
        metric.samples = [*values[name].values()]
    return families.values()


def _series(sample: "Sample") -> _Series:
    return sample.name, tuple(sorted(sample.labels.items()))


def _together(metric: "Metric", one: "Sample", other: "Sample") -> "Sample":
    shared = metric.type in _ALIKE_TYPES and metric.name.startswith(_ALIKE)
    if shared or metric.name.startswith(_ALIKE_COUNTER) or "quantile" in one.labels:
        return one._replace(value=max(one.value, other.value))
    return one._replace(value=one.value + other.value)
