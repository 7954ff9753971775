"""Makes NodeMetrics and PodMetrics of the API version metrics.k8s.io/v1beta1, their lists and tables.

Source: metrics-server, pkg/api/{node,pod,table}.go; k8s.io/metrics, pkg/apis/metrics/v1beta1/types.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.go_durations import duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import ZERO, Format, Quantity
from kubeskew.metricsserver.points import Usage
from kubeskew.metricsserver.storage import PodUsage

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"


class Kind(NamedTuple):
    """A resource of the group. `source` is the core resource of the same name, `metrics` what is missing
    where there is no usage yet."""

    kind: str
    plural: str
    namespaced: bool
    source: GroupResource
    metrics: GroupResource


# What is not found is named as upstream's listers name it: of nodes in the singular.
NODES = Kind("NodeMetrics", "nodes", False, GroupResource("", "node"), GroupResource(GROUP, "nodemetrics"))
PODS = Kind("PodMetrics", "pods", True, GroupResource("", "pods"), GroupResource(GROUP, "podmetrics"))
KINDS = {kind.plural: kind for kind in (NODES, PODS)}


def node_metrics(node: Object, usage: Usage, now: datetime) -> Object:
    """Returns the metrics of a node, without apiVersion and kind, as lists have them."""
    return {
        "metadata": _metadata(node, now),
        "timestamp": _moment(usage.at),
        "window": duration_text(usage.window),
        "usage": _amounts(usage),
    }


def pod_metrics(pod: Object, usage: PodUsage, now: datetime) -> Object:
    """Returns the metrics of a pod, without apiVersion and kind, as lists have them."""
    containers = [{"name": name, "usage": _amounts(each)} for name, each in usage.containers.items()]
    return {
        "metadata": _metadata(pod, now),
        "timestamp": _moment(usage.at) if usage.at else None,
        "window": duration_text(usage.window),
        "containers": containers,
    }


def single(kind: Kind, obj: Object) -> Object:
    return {"kind": kind.kind, "apiVersion": API_VERSION, **obj}


def listed(kind: Kind, items: Sequence[Object]) -> Object:
    return {"kind": f"{kind.kind}List", "apiVersion": API_VERSION, "metadata": {}, "items": [*items]}


def table(kind: Kind, items: Sequence[Object], version: str, include: str) -> Object:
    """Returns a Table of meta.k8s.io's `version`; rows hold an object's metadata, or all or nothing of it as
    `include` has it. Without items it has no columns."""
    amounts = [_sum(item) for item in items]
    names = sorted(amounts[0]) if amounts else []
    columns: list[Object] | None = None
    if amounts:
        columns = [_column("Name", "name", "Name of the resource")]
        columns += [_column(name, "quantity") for name in names]
        columns.append(_column("Window", "duration"))
    rows = [
        {
            "cells": [
                item["metadata"]["name"],
                *(each.get(name, ZERO).canonical() for name in names),
                item["window"],
            ],
            "object": _row_object(kind, item, version, include),
        }
        for item, each in zip(items, amounts, strict=True)
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {},
        "columnDefinitions": columns,
        "rows": rows or None,
    }


def metadata_only(item: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": item["metadata"],
    }


def metadata_list(items: Iterable[Object], version: str) -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {},
        "items": [metadata_only(item, version) for item in items],
    }


def _row_object(kind: Kind, item: Object, version: str, include: str) -> Object | None:
    if include == "None":
        return None
    return single(kind, item) if include == "Object" else metadata_only(item, version)


def _column(name: str, form: str, description: str = "") -> Object:
    return {"name": name, "type": "string", "format": form, "description": description, "priority": 0}


def _sum(item: Object) -> dict[str, Quantity]:
    """Returns the usage of a node, or of all containers of a pod."""
    parts: list[Mapping[str, Any]] = [container["usage"] for container in item.get("containers") or ()]
    found: dict[str, Quantity] = {}
    for part in parts if "containers" in item else [item["usage"]]:
        for name, amount in part.items():
            found[name] = found.get(name, ZERO) + Quantity.parse(amount)
    return found


def _metadata(source: Object, now: datetime) -> Object:
    metadata = source["metadata"]
    found: Object = {"name": metadata["name"]}
    if metadata.get("namespace"):
        found["namespace"] = metadata["namespace"]
    found["creationTimestamp"] = timestamp(now)
    if metadata.get("labels"):
        found["labels"] = metadata["labels"]
    return found


def _amounts(usage: Usage) -> Object:
    return {
        "cpu": Quantity(usage.cpu, -9).canonical(),
        "memory": Quantity(usage.memory, 0, Format.BINARY_SI).canonical(),
    }


def _moment(nanos: int) -> str:
    return timestamp(datetime.fromtimestamp(nanos / 1e9, UTC))
