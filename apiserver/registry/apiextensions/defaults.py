"""Sets the defaults of CustomResourceDefinition objects.

Source: pkg/apis/apiextensions/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)

_PORT = 443


def _service(client: Object) -> None:
    if client.get("service") is not None:
        fill_null(client["service"], port=_PORT)


def definition(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    names = struct(spec, "names")
    if names.get("kind"):
        fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    _service(((spec["conversion"].get("webhook") or {}).get("clientConfig")) or {})
