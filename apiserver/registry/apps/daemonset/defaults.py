"""Sets the defaults of DaemonSet objects.

Source: pkg/apis/apps/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.apps.defaults import HISTORY, default_rolling_update
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def daemon_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, revisionHistoryLimit=HISTORY)
    default_rolling_update(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    template(spec, ctx)
    # No default upstream, but what its conversion makes of a field that v1 does not have.
    fill(struct(struct(obj, "metadata"), "annotations"), **{TEMPLATE_GENERATION: "0"})
