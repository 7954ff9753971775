"""Sets the defaults of PriorityLevelConfiguration objects.

Source: pkg/apis/flowcontrol/v1beta2/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)

_PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


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
    if spec.get("type") == "Exempt" and ctx.features.requests.exempt_levels:
        fill_null(struct(spec, "exempt"), nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if limited is None:
        return
    (fill_null if preserve_zero else fill)(limited, **{shares: 30})
    fill_null(limited, lendablePercent=0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        fill(queuing, **_QUEUING)
