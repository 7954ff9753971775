"""Makes the options that pod templates of workloads are checked with."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, pod_options, widened


def template_options(
    ctx: StrategyContext, new: Object | None = None, old: Object | None = None
) -> PodOptions:
    """Makes the options of a template; `new` and `old` hold the template of an update, and held it."""
    options = pod_options(ctx.features.pods, False)
    if new is None or old is None:
        return options
    after, before = ((spec.get("template") or {}).get("spec") or {} for spec in (new, old))
    return widened(options, after, before)
