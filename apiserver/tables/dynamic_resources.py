"""The rows of resource.k8s.io in all its versions, and of scheduling.k8s.io.

Source: pkg/printers/internalversion/printers.go.
"""

from types import MappingProxyType

from kubeskew.apimachinery.errors import GroupKind, Object
from kubeskew.apiserver.tables.subjects import NONE, Cells, CellTable, Subject, ago, at, kind_name

_CLASSIC = ("resource.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2")  # claims with resource classes


def resource_claim(subject: Subject) -> Cells:
    return {**_classic_claim(subject.at("spec")), "State": ",".join(_claim_states(subject))}


def resource_claim_template(subject: Subject) -> Cells:
    return _classic_claim(subject.at("spec", "spec"))


def resource_slice(subject: Subject) -> Cells:
    return {
        # v1alpha2 has no spec
        "Node": subject.text("spec", "nodeName", default=subject.text("nodeName")),
        "Driver": subject.text("spec", "driver", default=subject.text("driverName")),
        "Pool": subject.text("spec", "pool", "name"),
    }


def resource_pool_status_request(subject: Subject) -> Cells:
    state, pools = _request_state(subject), subject.items("status", "pools")
    known = subject.at("status") is not None and state != "Failed"

    def total(name: str) -> str:
        return str(sum(pool.get(name) or 0 for pool in pools)) if known else "-"

    count = subject.number("status", "poolCount")
    partial = state == "Complete" and count > len(pools)
    complete = subject.condition("Complete") or {}
    return {
        "Driver": subject.text("spec", "driver"),
        "Total": total("totalDevices"),
        "Available": total("availableDevices"),
        "Allocated": total("allocatedDevices"),
        "Unavailable": total("unavailableDevices"),
        "Errors": str(sum(bool(pool.get("validationError")) for pool in pools)) if known else "-",
        "Pools": count,
        "Status": f"Complete ({len(pools)}/{count} pools)" if partial else state,
        "Completed": ago(complete.get("lastTransitionTime"), subject.now, NONE),
    }


def device_taint_rule(subject: Subject) -> Cells:
    taint = ("spec", "taint")
    return {
        "Key": subject.text(*taint, "key"),
        "Value": subject.text(*taint, "value"),
        "Effect": subject.text(*taint, "effect"),
        "TimeAdded": subject.since(*taint, "timeAdded", default=""),
    }


def resource_class(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}


def pod_scheduling_context(subject: Subject) -> Cells:
    return {"SelectedNode": subject.text("spec", "selectedNode")}


def generated_parameters(subject: Subject) -> Cells:
    """Of claims and classes alike; the form of the reference is a guess."""
    source = subject.at("generatedFrom")
    if source is None:
        return {"GeneratedFrom": ""}
    kind = kind_name(source.get("kind", ""), source.get("apiGroup", ""))
    return {"GeneratedFrom": f"{kind}/{source.get('name', '')}"}


def priority_class(subject: Subject) -> Cells:
    return {
        "Value": subject.number("value"),
        "Global-Default": bool(subject.at("globalDefault")),
        "PreemptionPolicy": subject.text("preemptionPolicy"),
    }


def pod_group(subject: Subject) -> Cells:
    return {
        "Policy": "Basic" if subject.at("spec", "schedulingPolicy", "gang") is None else "Gang",
        # 1.36 names the workload inside the reference to the template
        "Workload": subject.text("spec", "workloadRef", "workloadName")
        or subject.text("spec", "podGroupTemplateRef", "workload", "workloadName", default=NONE),
        "Status": _group_state(subject),
    }


def _classic_claim(spec: Object | None) -> Cells:
    """The cells that claims and their templates had while there were resource classes."""
    return {
        "ResourceClassName": at(spec, "resourceClassName") or "",
        "AllocationMode": at(spec, "allocationMode") or "",
    }


def _claim_states(subject: Subject) -> list[str]:
    states = ["deleted"] if subject.deleted else []
    if subject.at("status", "allocation") is None:
        return states or ["pending"]
    states.append("allocated")
    if subject.count("status", "reservedFor"):
        states.append("reserved")
    elif subject.obj.get("apiVersion") in _CLASSIC and (
        subject.deleted or subject.at("status", "deallocationRequested")
    ):
        states.append("deallocating")
    return states


def _request_state(subject: Subject) -> str:
    for one in subject.items("status", "conditions"):
        if one.get("type") in ("Complete", "Failed") and one.get("status") == "True":
            return str(one["type"])
    return "Pending"


def _group_state(subject: Subject) -> str:
    disrupted = subject.condition("DisruptionTarget")
    if disrupted is not None:
        return str(disrupted.get("reason", ""))
    scheduled = subject.condition("PodGroupInitiallyScheduled") or subject.condition("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("resource.k8s.io", "DeviceTaintRule"): device_taint_rule,
        GroupKind("resource.k8s.io", "PodScheduling"): pod_scheduling_context,
        GroupKind("resource.k8s.io", "PodSchedulingContext"): pod_scheduling_context,
        GroupKind("resource.k8s.io", "ResourceClaim"): resource_claim,
        GroupKind("resource.k8s.io", "ResourceClaimParameters"): generated_parameters,
        GroupKind("resource.k8s.io", "ResourceClaimTemplate"): resource_claim_template,
        GroupKind("resource.k8s.io", "ResourceClass"): resource_class,
        GroupKind("resource.k8s.io", "ResourceClassParameters"): generated_parameters,
        GroupKind("resource.k8s.io", "ResourcePoolStatusRequest"): resource_pool_status_request,
        GroupKind("resource.k8s.io", "ResourceSlice"): resource_slice,
        GroupKind("scheduling.k8s.io", "CompositePodGroup"): pod_group,
        GroupKind("scheduling.k8s.io", "PodGroup"): pod_group,
        GroupKind("scheduling.k8s.io", "PriorityClass"): priority_class,
    }
)
