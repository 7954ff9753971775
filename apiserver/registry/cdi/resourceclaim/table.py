"""Makes the cells that `kubectl get` shows of ResourceClaim objects of cdi.k8s.io."""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_claim(subject: Subject) -> Cells:
    """Returns class, mode and phase; a claim that is deleted is Terminating, as a persistent volume's."""
    return {
        "ResourceClassName": subject.text("spec", "resourceClassName"),
        "AllocationMode": subject.text("spec", "allocationMode"),
        "Phase": "Terminating" if subject.deleted else subject.text("status", "phase"),
    }
