"""Makes the cells that `kubectl get` shows of ResourceClaimTemplate objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.resource.resourceclaim.table import _classic_claim
from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_claim_template(subject: Subject) -> Cells:
    return _classic_claim(subject.at("spec", "spec"))
