"""Makes the cells that `kubectl get` shows of ServiceCIDR objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    joined,
)


def service_cidr(subject: Subject) -> Cells:
    return {"CIDRs": joined(subject.items("spec", "cidrs"))}
