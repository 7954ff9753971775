"""Sets the defaults of CustomResourceDefinition objects.

Source: pkg/apis/apiextensions/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    struct,
)
from kubeskew.apiserver.registry.shared.service_references import default_service_port


def definition(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    names = struct(spec, "names")
    if names.get("kind"):
        fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    default_service_port(((spec["conversion"].get("webhook") or {}).get("clientConfig")) or {})
