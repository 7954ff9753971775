"""Defaults of the apps group.

Source: pkg/apis/apps/v1/defaults.go.
"""

from typing import Any

from kubeskew.apimachinery.defaulting.context import (
    Defaulter,
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apimachinery.defaulting.core import persistent_volume_claim
from kubeskew.apimachinery.defaulting.pods import template
from kubeskew.apimachinery.errors import Object

HISTORY = 10
PROGRESS_SECONDS = 600
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _rolling(spec: Object, name: str, **values: Any) -> None:
    strategy = struct(spec, name)
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill_null(struct(strategy, "rollingUpdate"), **values)


def deployment(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY, progressDeadlineSeconds=PROGRESS_SECONDS)
    _rolling(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    template(spec, ctx)


def replica_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, replicas=1)
    template(spec, ctx)


def daemon_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, revisionHistoryLimit=HISTORY)
    _rolling(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    template(spec, ctx)
    # No default upstream, but what its conversion makes of a field that v1 does not have.
    fill(struct(struct(obj, "metadata"), "annotations"), **{TEMPLATE_GENERATION: "0"})


def stateful_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, podManagementPolicy="OrderedReady")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY)
    _stateful_strategy(struct(spec, "updateStrategy"), ctx)
    if ctx.version.minor >= 27 or ctx.gates.enabled("StatefulSetAutoDeletePVC"):
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
        if ctx.gates.enabled("MaxUnavailableStatefulSet"):
            fill_null(rolling, maxUnavailable=1)


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.apps.v1.Deployment": deployment,
    "io.k8s.api.apps.v1.ReplicaSet": replica_set,
    "io.k8s.api.apps.v1.DaemonSet": daemon_set,
    "io.k8s.api.apps.v1.StatefulSet": stateful_set,
}
