"""Sets the defaults of ResourceClaim objects of cdi.k8s.io.

Source: KEP-3063 as drafted, section API. The phase of a new claim is a default, as that of a
PersistentVolumeClaim.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.shared.inline_claims import claim_spec_defaults


def claim(obj: Object, _: DefaultingContext) -> None:
    claim_spec_defaults(struct(obj, "spec"))
    status = struct(obj, "status")
    fill(status, phase="Pending")
    fill_null(status, userLimit=1)
