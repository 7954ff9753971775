"""certificates.k8s.io but for signing requests: trust bundles, requests for pod certificates.

Source: k8s.io/kubernetes/pkg/registry/certificates/*/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.validation import object_meta
from kubeskew.apiserver.registry.strategies.checked import Checked, OwnRules
from kubeskew.apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import conditions, trust_bundles

_GROUP = "certificates.k8s.io"


class TrustBundleStrategy(Checked):
    """ClusterTrustBundle."""

    allow_unconditional_update = False
    field_labels = ("spec.signerName",)

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        signer = (obj.get("spec") or {}).get("signerName") or ""

        def check(name: str, prefix: bool) -> list[str]:
            return trust_bundles.bundle_name_texts(name, signer, prefix)

        return object_meta.validate_object_meta(obj["metadata"], ctx.resource.namespaced, check)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(trust_bundles.bundle_errors(obj.get("spec") or {}))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        parse = spec.get("trustBundle") != before.get("trustBundle")
        whole = [*self.metadata_errors(new, ctx), *trust_bundles.bundle_errors(spec, parse=parse)]
        return [*whole, *metadata, *trust_bundles.bundle_update_errors(new, old)]


class PodCertificateStatus(OwnRules, StatusStrategy):
    """What the signer answers."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found = (new.get("status") or {}).get("conditions") or []
        return list(conditions.condition_errors(found, "status.conditions"))


class PodCertificateStrategy(Checked):
    """PodCertificateRequest: nothing of it changes but its metadata."""

    status: ClassVar[type[Strategy]] = PodCertificateStatus
    field_labels = ("spec.signerName", "spec.podName", "spec.nodeName")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(trust_bundles.pod_request_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(trust_bundles.pod_request_update_errors(new, old))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "clustertrustbundles"): TrustBundleStrategy,
    GroupResource(_GROUP, "podcertificaterequests"): PodCertificateStrategy,
}
