"""Defaults of rbac.authorization.k8s.io and flowcontrol.apiserver.k8s.io.

Source: field documentation and default marks of the API, 1.28 to 1.37.
"""

from kubeskew.apimachinery.defaulting.context import (
    Defaulter,
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apimachinery.errors import Object

RBAC = "rbac.authorization.k8s.io"
_PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_EXEMPT_SINCE = 28
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def binding(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "roleRef"), apiGroup=RBAC)
    for subject in each(obj, "subjects"):
        if subject.get("kind") in {"User", "Group"}:
            fill(subject, apiGroup=RBAC)


def flow_schema(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "spec"), matchingPrecedence=1000)


def priority_level(obj: Object, ctx: DefaultingContext) -> None:
    _priority_level(obj, ctx, preserve_zero=True)


def priority_level_beta(obj: Object, ctx: DefaultingContext) -> None:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    _priority_level(obj, ctx, preserve_zero=_PRESERVE_ZERO in annotations)


def priority_level_assured(obj: Object, ctx: DefaultingContext) -> None:
    _priority_level(obj, ctx, preserve_zero=False, shares="assuredConcurrencyShares")


def _priority_level(
    obj: Object, ctx: DefaultingContext, *, preserve_zero: bool, shares: str = "nominalConcurrencyShares"
) -> None:
    spec = struct(obj, "spec")
    if spec.get("type") == "Exempt" and ctx.version.minor >= _EXEMPT_SINCE:
        fill_null(struct(spec, "exempt"), nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if limited is None:
        return
    (fill_null if preserve_zero else fill)(limited, **{shares: 30})
    fill_null(limited, lendablePercent=0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        fill(queuing, **_QUEUING)


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.rbac.v1.RoleBinding": binding,
    "io.k8s.api.rbac.v1.ClusterRoleBinding": binding,
    "io.k8s.api.flowcontrol.v1.FlowSchema": flow_schema,
    "io.k8s.api.flowcontrol.v1beta3.FlowSchema": flow_schema,
    "io.k8s.api.flowcontrol.v1beta2.FlowSchema": flow_schema,
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration": priority_level,
    "io.k8s.api.flowcontrol.v1beta3.PriorityLevelConfiguration": priority_level_beta,
    "io.k8s.api.flowcontrol.v1beta2.PriorityLevelConfiguration": priority_level_assured,
}
