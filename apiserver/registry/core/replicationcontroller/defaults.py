"""Sets the defaults of ReplicationController objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template


def replication_controller(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill(spec, selector=dict(labels))
        fill(struct(obj, "metadata"), labels=dict(labels))
    fill_null(spec, replicas=1)
    if spec.get("template") is not None:
        template(spec, ctx)
