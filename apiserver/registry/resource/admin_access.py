"""Decides whether a namespace may use devices with administrator access (KEP-5018)."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


def admin_label(ctx: StrategyContext) -> str:
    return ctx.features.devices.admin_label


def may_administer(obj: Object, ctx: StrategyContext) -> bool:
    """Decides whether the claim's namespace carries the label (where the release checks it)."""
    if not ctx.features.devices.checks_admin_label:
        return True
    namespace = ctx.get_entry("namespaces", "", obj["metadata"].get("namespace") or "") or {}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(admin_label(ctx)) == "true")
