"""Makes the cells that `kubectl get` shows of LeaseCandidate objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def lease_candidate(subject: Subject) -> Cells:
    return {
        "LeaseName": subject.text("spec", "leaseName"),
        "BinaryVersion": subject.text("spec", "binaryVersion"),
        "EmulationVersion": subject.text("spec", "emulationVersion"),
    }
