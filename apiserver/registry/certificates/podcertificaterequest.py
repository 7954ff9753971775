"""PodCertificateRequest: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/certificates/v1alpha1/defaults.go, pkg/apis/certificates/validation/validation.go,
pkg/registry/certificates/podcertificaterequest/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, required, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import conditions
from kubeskew.apiserver.registry.shared.signers import is_kubernetes_signer, signer_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, labels

CERTIFICATE_SECONDS = 86400
_MAX_UID = 128

_LEAST_SECONDS = 3600

_MOST_SECONDS = 91 * 86400

_MOST_OWN_SECONDS = 86400

_MAX_KEY = 10 * 1024


def default_pod_certificate_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), maxExpirationSeconds=CERTIFICATE_SECONDS)


def pod_request_errors(spec: Object) -> Iterator[FieldError]:
    """Key and proof of possession are only measured."""
    signer = spec.get("signerName") or ""
    yield from signer_errors(signer, "spec.signerName")
    for who in ("pod", "serviceAccount", "node"):
        at, name = f"spec.{who}Name", spec.get(f"{who}Name") or ""
        yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))
        at, uid = f"spec.{who}UID", spec.get(f"{who}UID") or ""
        if not uid:
            yield invalid(at, uid, "must not be empty")
        if len(uid) > _MAX_UID:
            yield too_long(at, _MAX_UID)
    seconds = spec.get("maxExpirationSeconds")
    if seconds is None:
        yield required("spec.maxExpirationSeconds", "must be set")
        return
    most = _MOST_OWN_SECONDS if is_kubernetes_signer(signer) else _MOST_SECONDS
    if not _LEAST_SECONDS <= seconds <= most:
        text = f"must be in the range [{_LEAST_SECONDS}, {most}]"
        yield invalid("spec.maxExpirationSeconds", seconds, text)
    for name in ("pkixPublicKey", "proofOfPossession"):
        if len(spec.get(name) or "") * 3 // 4 > _MAX_KEY:
            yield too_long(child("spec", name), _MAX_KEY)
            return


def pod_request_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("spec") != old.get("spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


class PodCertificateStatus(HandwrittenValidation, StatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found = (new.get("status") or {}).get("conditions") or []
        return list(conditions.condition_errors(found, "status.conditions"))


class PodCertificateStrategy(HandwrittenBuiltIn):
    """Nothing of a request changes but its metadata."""

    status: ClassVar[type[Strategy]] = PodCertificateStatus
    field_labels = ("spec.signerName", "spec.podName", "spec.nodeName")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_request_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_request_update_errors(new, old))


def pod_certificate_request_cells(subject: Subject) -> Cells:
    kinds = [condition.get("type") for condition in subject.items("status", "conditions")]
    states = [kind for kind in kinds if kind in ("Issued", "Denied", "Failed")]
    return {
        "PodName": subject.text("spec", "podName"),
        "ServiceAccountName": subject.text("spec", "serviceAccountName"),
        "NodeName": subject.text("spec", "nodeName"),
        "SignerName": subject.text("spec", "signerName"),
        "State": states[-1] if states else "Pending",
        "UnverifiedUserAnnotations": labels(subject.at("spec", "unverifiedUserAnnotations")),
    }
