"""Sets the defaults of Namespace objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    struct,
)


def namespace(obj: Object, _: DefaultingContext) -> None:
    metadata = struct(obj, "metadata")
    if metadata.get("name"):
        struct(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    fill(struct(obj, "status"), phase="Active")
