"""Sets the defaults of Job objects.

Source: pkg/apis/batch/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template

BACKOFF_LIMIT = 6

UNLIMITED = 2**31 - 1


def failure_patterns(spec: Object) -> None:
    """Sets the status of the pod conditions that the failure policy of a job's spec is about."""
    for rule in each(spec.get("podFailurePolicy") or {}, "rules"):
        for pattern in each(rule, "onPodConditions"):
            fill(pattern, status="True")


def job(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    template(spec, ctx)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = UNLIMITED if spec.get("backoffLimitPerIndex") is not None else BACKOFF_LIMIT
    fill_null(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    if ctx.features.workloads.manual_selector_default:
        fill_null(spec, manualSelector=False)
    if ctx.features.workloads.pod_replacement_policy:
        policy = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
        fill_null(spec, podReplacementPolicy=policy)
    failure_patterns(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels:  # the same map, as upstream: what the strategy adds to the one is in the other, too
        fill(struct(obj, "metadata"), labels=labels)
