"""Checks who approves and signs certificate requests, and refuses subjects that no client certificate may
have.

Source: k8s.io/kubernetes/plugin/pkg/admission/certificates/{approval,signing,subjectrestriction}, 1.36.
"""

from typing import TYPE_CHECKING, ClassVar

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import UPDATE, Attributes, Plugin
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import MASTERS_GROUP, User

if TYPE_CHECKING:
    from kubeskew.apimachinery.security.certificate_requests import CertificateRequest

_GROUP = "certificates.k8s.io"
_REQUESTS = frozenset({f"certificatesigningrequests.{_GROUP}"})
_CLIENT = "kubernetes.io/kube-apiserver-client"


def requested_certificate(attributes: Attributes, failure: str) -> "CertificateRequest":
    """Refuses the write with `failure` if the CertificateSigningRequest has no request that can be parsed."""
    from kubeskew.apimachinery.security.certificate_requests import (  # cryptography is slow
        RequestError,
        parse_request,
    )

    spec = (attributes.object or {}).get("spec") or {}
    try:
        return parse_request(spec.get("request") or "")
    except RequestError as error:
        raise attributes.refuse(f"{failure}: {error}") from None


class _ForSigner(Plugin):
    """Asks the authorizer about a verb on a signer."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def may(self, user: User, verb: str, signer: str) -> bool:
        """Permission for all signers of the domain (`DOMAIN/*`) is enough."""
        names = (signer, f"{signer.split('/', maxsplit=1)[0]}/*")
        return any(
            self._authorizer.authorize(
                user, RequestInfo(True, "", verb, _GROUP, "*", "signers", name=name)
            ).allowed
            for name in names
        )


class CertificateApproval(_ForSigner):
    operations = frozenset({UPDATE})
    resources: ClassVar[frozenset[str]] = _REQUESTS
    subresources: ClassVar[frozenset[str]] = frozenset({"approval"})

    async def validate(self, attributes: Attributes) -> None:
        signer = _signer(attributes.old)
        if not self.may(attributes.user, "approve", signer):
            raise attributes.refuse(f'user not permitted to approve requests with signerName "{signer}"')


class CertificateSigning(_ForSigner):
    operations = frozenset({UPDATE})
    resources: ClassVar[frozenset[str]] = _REQUESTS
    subresources: ClassVar[frozenset[str]] = frozenset({"status"})

    async def validate(self, attributes: Attributes) -> None:
        new, old = ((obj or {}).get("status") or {} for obj in (attributes.object, attributes.old))
        if all((new.get(name) or None) == (old.get(name) or None) for name in ("certificate", "conditions")):
            return
        signer = _signer(attributes.old)
        if not self.may(attributes.user, "sign", signer):
            raise attributes.refuse(f'user not permitted to sign requests with signerName "{signer}"')


class CertificateSubjectRestriction(Plugin):
    resources: ClassVar[frozenset[str]] = _REQUESTS

    async def validate(self, attributes: Attributes) -> None:
        spec = (attributes.object or {}).get("spec") or {}
        if spec.get("signerName") != _CLIENT:
            return
        request = requested_certificate(attributes, "failed to parse CSR")
        if MASTERS_GROUP in request.organizations:
            why = f"use of {_CLIENT} signer with {MASTERS_GROUP} group is not allowed"
            raise attributes.refuse(why)


def _signer(obj: Object | None) -> str:
    return str(((obj or {}).get("spec") or {}).get("signerName") or "")
