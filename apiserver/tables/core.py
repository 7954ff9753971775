"""The rows of the core group's small kinds, and of events.

Source: pkg/printers/internalversion/printers.go.
"""

from collections.abc import Iterator
from types import MappingProxyType

from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import GroupKind, Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.tables.nodes import node
from kubeskew.apiserver.tables.pods import pod
from kubeskew.apiserver.tables.subjects import Cells, CellTable, Subject, at, containers, labels, quantity

_CORE_EVENT = GroupVersionKind("", "v1", "Event")


def pod_template(subject: Subject) -> Cells:
    template = subject.at("template")
    return {**containers(template), "Pod Labels": labels(at(template, "metadata", "labels"))}


def replication_controller(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": labels(subject.at("spec", "selector")),
    }


def namespace(subject: Subject) -> Cells:
    return {"Status": subject.text("status", "phase")}


def secret(subject: Subject) -> Cells:
    return {"Type": subject.text("type"), "Data": subject.count("data")}


def config_map(subject: Subject) -> Cells:
    return {"Data": subject.count("data") + subject.count("binaryData")}


def service_account(subject: Subject) -> Cells:
    return {"Secrets": subject.count("secrets")}


def component_status(subject: Subject) -> Cells:
    healthy = next((one for one in subject.items("conditions") if one.get("type") == "Healthy"), None)
    if healthy is None:
        return {"Status": "Unknown", "Message": "", "Error": ""}
    return {
        "Status": "Healthy" if healthy.get("status") == "True" else "Unhealthy",
        "Message": healthy.get("message", ""),
        "Error": healthy.get("error", ""),
    }


def resource_quota(subject: Subject) -> Cells:
    hard, used = subject.at("status", "hard") or {}, subject.at("status", "used") or {}

    def amounts(*, limits: bool) -> Iterator[str]:
        for name, most in sorted(hard.items()):
            if name.startswith("limits.") is limits:
                yield f"{name}: {quantity(used.get(name))}/{quantity(most)}"

    return {"Request": ", ".join(amounts(limits=False)), "Limit": ", ".join(amounts(limits=True))}


def event(subject: Subject) -> Cells:
    seen = Subject(convert(subject.obj, _CORE_EVENT), subject.now)
    first = seen.since("firstTimestamp", default=seen.since("eventTime"))
    last, count = seen.since("lastTimestamp", default=first), seen.number("count") or 1
    if seen.at("series") is not None:
        last, count = seen.since("series", "lastObservedTime"), seen.number("series", "count")
    return {
        "Last Seen": last,
        "Type": seen.text("type"),
        "Reason": seen.text("reason"),
        "Object": _involved(seen.at("involvedObject") or {}),
        "Subobject": seen.text("involvedObject", "fieldPath"),
        "Source": _source(seen),
        "Message": seen.text("message").strip(),
        "First Seen": first,
        "Count": count,
    }


def _involved(reference: Object) -> str:
    kind, name = reference.get("kind", "").lower(), reference.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source(event: Subject) -> str:
    component = event.text("source", "component") or event.text("reportingComponent")
    instance = event.text("source", "host") or event.text("reportingInstance")
    return f"{component}, {instance}" if instance else component


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("", "ComponentStatus"): component_status,
        GroupKind("", "ConfigMap"): config_map,
        GroupKind("", "Event"): event,
        GroupKind("events.k8s.io", "Event"): event,
        GroupKind("", "Namespace"): namespace,
        GroupKind("", "Node"): node,
        GroupKind("", "Pod"): pod,
        GroupKind("", "PodTemplate"): pod_template,
        GroupKind("", "ReplicationController"): replication_controller,
        GroupKind("", "ResourceQuota"): resource_quota,
        GroupKind("", "Secret"): secret,
        GroupKind("", "ServiceAccount"): service_account,
    }
)
