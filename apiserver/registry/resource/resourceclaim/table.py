"""Makes the cells that `kubectl get` shows of ResourceClaim objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.subjects import Cells, Subject, at

_CLASSIC = ("resource.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2")  # claims with resource classes


def resource_claim(subject: Subject) -> Cells:
    return {**classic_claim_cells(subject.at("spec")), "State": ",".join(_claim_states(subject))}


def classic_claim_cells(spec: Object | None) -> Cells:
    """Returns the cells that claims and their templates had while there were resource classes."""
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
    elif subject.at("status", "deallocationRequested") or (
        subject.deleted and subject.obj.get("apiVersion") in _CLASSIC
    ):
        states.append("deallocating")
    return states
