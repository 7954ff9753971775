"""Sets the defaults of Deployment objects.

Source: pkg/apis/apps/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.apps.defaults import HISTORY, default_rolling_update
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template

PROGRESS_SECONDS = 600


def deployment(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY, progressDeadlineSeconds=PROGRESS_SECONDS)
    default_rolling_update(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    template(spec, ctx)
