"""Finds a pod's own fields and resources for the environment and volumes of its containers.

Source: pkg/fieldpath/fieldpath.go, pkg/api/v1/resource/helpers.go (ExtractContainerResourceValue), 1.36.
"""

import json
import re
from collections.abc import Mapping

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
# Allocatable of a node, for containers without a limit. Only seen through the downward API.
_NODE_CPU, _NODE_MEMORY = "8", "32Gi"


class DownwardError(Exception):
    """The pod has no such field."""


def field_value(pod: Object, path: str, host_ip: str, pod_ip: str) -> str:
    """Returns the value of a fieldRef. Raises DownwardError."""
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        return _formatted(metadata.get(path.partition(".")[2]) or {})
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": host_ip if spec.get("hostNetwork") else pod_ip,
        "status.podIPs": host_ip if spec.get("hostNetwork") else pod_ip,
    }
    if path not in values:
        raise DownwardError(f"unsupported fieldPath: {path}")
    return str(values[path] or "")


def _formatted(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={json.dumps(pairs[name], ensure_ascii=False)}" for name in sorted(pairs))


def resource_value(pod: Object, own: Object, reference: Object) -> str:
    """Returns the value of a resourceFieldRef: the amount in units of the divisor, rounded up."""
    name = reference.get("containerName") or own.get("name")
    found = next((container for container in pod_spec.all_containers(pod) if container["name"] == name), None)
    if found is None:
        raise DownwardError(f"container {name} not found")
    kind, _, resource = str(reference["resource"]).partition(".")
    amounts = (found.get("resources") or {}).get(kind) or {}
    default = {"cpu": _NODE_CPU, "memory": _NODE_MEMORY}.get(resource, "0") if kind == "limits" else "0"
    amount = Quantity.parse(str(amounts.get(resource, default)))
    divisor = Quantity.parse(str(reference.get("divisor") or "1"))
    if divisor.milli_value() == 0:
        divisor = Quantity.parse("1")
    return str(-(-amount.milli_value() // divisor.milli_value()))
