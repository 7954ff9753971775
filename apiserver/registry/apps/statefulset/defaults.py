"""Sets the defaults of StatefulSet objects.

Source: pkg/apis/apps/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.apps.defaults import HISTORY
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.volumes.defaults import persistent_volume_claim


def stateful_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, podManagementPolicy="OrderedReady")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY)
    _stateful_strategy(struct(spec, "updateStrategy"), ctx)
    if ctx.features.workloads.claim_retention:
        fill(struct(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    for claim in each(spec, "volumeClaimTemplates"):
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")  # whatever was sent
        persistent_volume_claim(claim, ctx)
    template(spec, ctx)


def _stateful_strategy(strategy: Object, ctx: DefaultingContext) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        struct(strategy, "rollingUpdate")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        fill_null(rolling, partition=0)
        if ctx.features.workloads.max_unavailable:
            fill_null(rolling, maxUnavailable=1)
