"""Decides how ClusterTrustBundles are written.

Source: pkg/registry/certificates/clustertrustbundle/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.certificates.clustertrustbundle import (
    validation as clustertrustbundle_validation,
)
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class TrustBundleStrategy(ValidatedAsNew):
    """ClusterTrustBundle."""

    allow_unconditional_update = False
    field_labels = ("spec.signerName",)

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        signer = (obj.get("spec") or {}).get("signerName") or ""

        def check(name: str, prefix: bool) -> list[str]:
            return clustertrustbundle_validation.bundle_name_texts(name, signer, prefix)

        return object_meta.validate_object_meta(obj["metadata"], ctx.resource.namespaced, check)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(clustertrustbundle_validation.bundle_errors(obj.get("spec") or {}))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        parse = spec.get("trustBundle") != before.get("trustBundle")
        return list(clustertrustbundle_validation.bundle_errors(spec, parse=parse))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(clustertrustbundle_validation.bundle_update_errors(new, old))
