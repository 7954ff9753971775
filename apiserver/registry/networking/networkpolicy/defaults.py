"""Sets the defaults of NetworkPolicy objects.

Source: pkg/apis/networking/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)


def network_policy(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    for rule in each(spec, "ingress", "egress"):
        for port in each(rule, "ports"):
            fill_null(port, protocol="TCP")
    fill(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
