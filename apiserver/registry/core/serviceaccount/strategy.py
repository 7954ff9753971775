"""Decides how ServiceAccounts are written.

Source: pkg/registry/core/serviceaccount/strategy.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import UPDATE, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext

_ENFORCE = "kubernetes.io/enforce-mountable-secrets"

_ENFORCED = (
    f"metadata.annotations[{_ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access "
    "to mounted secrets"
)


class ServiceAccountStrategy(BuiltIn):
    """Of the secrets that it may mount, only names are kept."""

    update_checks = (Check.METADATA, *UPDATE)
    returns_deleted_object = True

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        self._keep_names(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        self._keep_names(new)

    def _keep_names(self, obj: Object) -> None:
        if obj.get("secrets"):
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]
            ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        warns = ctx.features.accounts.enforcing_deprecated
        return [_ENFORCED] if warns and _ENFORCE in (obj["metadata"].get("annotations") or {}) else []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        had = _ENFORCE in (old["metadata"].get("annotations") or {})
        return [] if had else self.warnings(new, ctx)
