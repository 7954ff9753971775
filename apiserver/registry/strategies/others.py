"""Kinds whose behaviour differs only in what the base class has a switch for.

Generations: facts of defaults; what a DELETE answers and who may create by PUT: pkg/registry/*/strategy.go.
"""

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError
from apimachinery.validation import names
from apiserver.registry.strategies.shared import (
    BuiltIn,
    Counted,
    CountedConditional,
    CreatedByUpdate,
    Returned,
    SpecKeptStatus,
)
from apiserver.registry.strategy import Strategy, StrategyContext

_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"


class RBACStrategy(CreatedByUpdate):
    """Names of roles need only be one segment of a path."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)


class AutoscalerStrategy(BuiltIn):
    status = SpecKeptStatus


class SigningRequestStrategy(BuiltIn):
    """Who asks is written down by the server."""

    status = SpecKeptStatus
    field_labels = ("spec.signerName",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec["username"] = ctx.user.name
        if ctx.user.uid:
            spec["uid"] = ctx.user.uid
        if ctx.user.groups:
            spec["groups"] = list(ctx.user.groups)
        if ctx.user.extra:
            spec["extra"] = {name: list(values) for name, values in ctx.user.extra.items()}

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["spec"], new["status"] = old.get("spec") or {}, old.get("status") or {}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


class SignerNamed(BuiltIn):
    status = SpecKeptStatus
    field_labels = ("spec.signerName",)


class PodCertificateStrategy(BuiltIn):
    status = SpecKeptStatus
    field_labels = ("spec.signerName", "spec.podName", "spec.nodeName")


def _all(group: str, strategy: type[Strategy], *plurals: str) -> dict[GroupResource, type[Strategy]]:
    return {GroupResource(group, plural): strategy for plural in plurals}


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    **_all(_RBAC, RBACStrategy, "roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    **_all("networking.k8s.io", Counted, "ingresses", "networkpolicies", "ingressclasses"),
    **_all("policy", CountedConditional, "poddisruptionbudgets"),
    **_all("autoscaling", AutoscalerStrategy, "horizontalpodautoscalers"),
    **_all("scheduling.k8s.io", Counted, "priorityclasses"),
    **_all(_STORAGE, Returned, "storageclasses", "csinodes", "csidrivers", "volumeattachments"),
    **_all(_STORAGE, Returned, "csistoragecapacities", "volumeattributesclasses"),
    **_all(_FLOW, CountedConditional, "flowschemas", "prioritylevelconfigurations"),
    **_all("discovery.k8s.io", Counted, "endpointslices"),
    **_all("certificates.k8s.io", SigningRequestStrategy, "certificatesigningrequests"),
    **_all("certificates.k8s.io", SignerNamed, "clustertrustbundles"),
    **_all("certificates.k8s.io", PodCertificateStrategy, "podcertificaterequests"),
}
