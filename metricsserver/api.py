"""The API metrics.k8s.io/v1beta1: requests, discovery, and objects with their lists and tables.

Sources: metrics-server, pkg/api/{node,pod,table}.go; k8s.io/metrics, pkg/apis/metrics/v1beta1/types.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.go_formats import duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import ZERO, Format, Quantity
from kubeskew.apimachinery.selectors.label_requirements import SelectorError
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.metricsserver.storage import PodUsage, Usage

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
_SERVED = {"groupVersion": API_VERSION, "version": VERSION}
_JSON = frozenset({"application/json", "application/*", "*/*"})
_VERSIONS = ("v1", "v1beta1")
_PREFIX = f"/apis/{GROUP}/{VERSION}"


class Kind(NamedTuple):
    """A resource of the group. `source` is the core resource of the same name, `metrics` the one named as
    missing where there is no usage yet."""

    kind: str
    plural: str
    namespaced: bool
    source: GroupResource
    metrics: GroupResource


# Missing objects are named as upstream's listers name them: nodes in the singular.
NODES = Kind("NodeMetrics", "nodes", False, GroupResource("", "node"), GroupResource(GROUP, "nodemetrics"))
PODS = Kind("PodMetrics", "pods", True, GroupResource("", "pods"), GroupResource(GROUP, "podmetrics"))
KINDS = {kind.plural: kind for kind in (NODES, PODS)}


def node_metrics(node: Object, usage: Usage, now: datetime) -> Object:
    """The object has no apiVersion and kind, like items of lists."""
    return {
        "metadata": _metadata(node, now),
        "timestamp": _moment(usage.at),
        "window": duration_text(usage.window),
        "usage": _amounts(usage),
    }


def pod_metrics(pod: Object, usage: PodUsage, now: datetime) -> Object:
    """The object has no apiVersion and kind, like items of lists."""
    containers = [{"name": name, "usage": _amounts(each)} for name, each in usage.containers.items()]
    return {
        "metadata": _metadata(pod, now),
        "timestamp": _moment(usage.at) if usage.at else None,
        "window": duration_text(usage.window),
        "containers": containers,
    }


def single_object(kind: Kind, obj: Object) -> Object:
    return {"kind": kind.kind, "apiVersion": API_VERSION, **obj}


def object_list(kind: Kind, items: Sequence[Object]) -> Object:
    return {"kind": f"{kind.kind}List", "apiVersion": API_VERSION, "metadata": {}, "items": [*items]}


def table_of(kind: Kind, items: Sequence[Object], version: str, include: str) -> Object:
    """A Table of meta.k8s.io's `version`; `include` (None, Metadata or Object) is the part of an object in
    its row. Without items there are no columns."""
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
    return single_object(kind, item) if include == "Object" else metadata_only(item, version)


def _column(name: str, form: str, description: str = "") -> Object:
    return {"name": name, "type": "string", "format": form, "description": description, "priority": 0}


def _sum(item: Object) -> dict[str, Quantity]:
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


def group_document() -> Object:
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [_SERVED],
        "preferredVersion": _SERVED,
    }


def group_list() -> Object:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_without_kind(group_document())]}


def resource_list() -> Object:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": kind.plural,
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "list"],
            }
            for kind in KINDS.values()
        ],
    }


def health_text(path: str, checks: Mapping[str, bool]) -> tuple[int, str]:
    """Status and text of a health check, in the form of k8s.io/apiserver's healthz."""
    if all(checks.values()):
        return 200, "ok"
    lines = [
        f"[+]{name} ok" if fine else f"[-]{name} failed: reason withheld" for name, fine in checks.items()
    ]
    return 500, "".join(f"{line}\n" for line in lines) + f"{path.strip('/')} check failed\n"


def _without_kind(document: Object) -> Object:
    return {key: value for key, value in document.items() if key not in {"kind", "apiVersion"}}


class Asked(NamedTuple):
    """A resource of the API: all of a namespace (empty: of all), or the one of a name."""

    kind: Kind
    namespace: str
    name: str

    def attributes(self) -> dict[str, str]:
        found = {"group": GROUP, "version": VERSION, "resource": self.kind.plural}
        return found | {key: value for key in ("namespace", "name") if (value := getattr(self, key))}


class Shape(NamedTuple):
    """The form of an answer: `Table`, `PartialObjectMetadata` or empty, and the version of meta.k8s.io."""

    kind: str = ""
    version: str = ""


def asked_for(path: str) -> Asked | None:
    """None if the path names no resource of the group."""
    if not path.startswith(f"{_PREFIX}/"):
        return None
    parts = path.removeprefix(f"{_PREFIX}/").split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    kind = KINDS.get(parts[0])
    if kind is None or len(parts) > 2 or not all(parts) or (namespace and not kind.namespaced):
        return None
    name = parts[1] if len(parts) > 1 else ""
    return None if name and kind.namespaced and not namespace else Asked(kind, namespace, name)


def shape_of(accept: str) -> Shape:
    """The first clause that can be served counts. Raises StatusError if there is none."""
    for clause in accept.split(",") if accept.strip() else ("*/*",):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media_type not in _JSON:
            continue
        kind = parameters.get("as", "").removesuffix("List")
        if not kind:
            return Shape()
        known = parameters.get("g") == "meta.k8s.io" and parameters.get("v") in _VERSIONS
        if known and kind in {"Table", "PartialObjectMetadata"}:
            return Shape(kind, parameters["v"])
    raise errors.not_acceptable("only the following media types are accepted: application/json")


def chosen_by(query: Mapping[str, str]) -> Callable[[Object], bool]:
    """Selects objects of a list by labels and fields. Raises StatusError."""
    try:
        labels = LabelSelector.parse(query.get("labelSelector", ""))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    fields = _fields(query.get("fieldSelector", ""))

    def chosen(obj: Object) -> bool:
        metadata = obj["metadata"]
        values = (metadata.get(key.removeprefix("metadata."), "") == value for key, value, _ in fields)
        same = all(found == wanted for found, (_, _, wanted) in zip(values, fields, strict=True))
        return same and labels.matches(metadata.get("labels"))

    return chosen


def _fields(text: str) -> list[tuple[str, str, bool]]:
    """Terms of a field selector: field, value, True if the field must have it. Raises StatusError."""
    terms = []
    for term in filter(None, text.split(",")):
        for sign in ("!=", "==", "="):
            field, found, value = term.partition(sign)
            if found:
                break
        else:
            raise errors.bad_request(f"invalid field selector: '{text}'; can't understand '{term}'")
        if field not in {"metadata.name", "metadata.namespace"}:
            known = 'only "metadata.name", "metadata.namespace"'
            raise errors.bad_request(f'"{field}" is not a known field selector: {known}')
        terms.append((field, value, sign != "!="))
    return terms
