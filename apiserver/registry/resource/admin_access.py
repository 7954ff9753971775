"""Decides whether a namespace may use devices with administrator access (KEP-5018)."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


def admin_label(ctx: StrategyContext) -> str:
    domain = "resource.kubernetes.io" if ctx.version.minor >= 34 else "resource.k8s.io"
    return f"{domain}/admin-access"


def may_administer(obj: Object, ctx: StrategyContext) -> bool:
    """Decides whether the claim's namespace carries the label (checked from 1.33 on)."""
    if ctx.version.minor < 33:
        return True
    namespace = ctx.get_entry("namespaces", "", obj["metadata"].get("namespace") or "") or {}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(admin_label(ctx)) == "true")
