"""Makes the cells that `kubectl get` shows of ResourceClaimTemplate objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.resource.resourceclaim.table import classic_claim_cells
from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_claim_template(subject: Subject) -> Cells:
    return classic_claim_cells(subject.at("spec", "spec"))
