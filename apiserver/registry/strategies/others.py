"""Kinds whose behaviour differs only in what the base class has a switch for.

Generations: facts of defaults; what a DELETE answers and who may create by PUT: pkg/registry/*/strategy.go.
"""

from apimachinery.errors import GroupResource
from apiserver.registry.strategies.shared import (
    BuiltIn,
    Counted,
    CountedConditional,
    Returned,
    SpecKeptStatus,
)
from apiserver.registry.strategy import Strategy

_STORAGE = "storage.k8s.io"


class AutoscalerStrategy(BuiltIn):
    status = SpecKeptStatus


class SignerNamed(BuiltIn):
    status = SpecKeptStatus
    field_labels = ("spec.signerName",)


class PodCertificateStrategy(BuiltIn):
    status = SpecKeptStatus
    field_labels = ("spec.signerName", "spec.podName", "spec.nodeName")


def _all(group: str, strategy: type[Strategy], *plurals: str) -> dict[GroupResource, type[Strategy]]:
    return {GroupResource(group, plural): strategy for plural in plurals}


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    **_all("networking.k8s.io", Counted, "ingresses", "networkpolicies", "ingressclasses"),
    **_all("policy", CountedConditional, "poddisruptionbudgets"),
    **_all("autoscaling", AutoscalerStrategy, "horizontalpodautoscalers"),
    **_all(_STORAGE, Returned, "csinodes", "csidrivers", "volumeattachments"),
    **_all(_STORAGE, Returned, "csistoragecapacities", "volumeattributesclasses"),
    **_all("discovery.k8s.io", Counted, "endpointslices"),
    **_all("certificates.k8s.io", SignerNamed, "clustertrustbundles"),
    **_all("certificates.k8s.io", PodCertificateStrategy, "podcertificaterequests"),
}
