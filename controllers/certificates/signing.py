"""Signs approved requests, for Kubernetes' own signers.

Upstream runs one controller per signer under this name; here one handles all.

Source: k8s.io/kubernetes/pkg/controller/certificates/signer/signer.go, 1.36.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.certificates.base import REQUESTS, RequestController, has, with_added_condition
from kubeskew.controllers.framework.base import ControllerContext, SyncError

if TYPE_CHECKING:
    from kubeskew.apimachinery.security.certificate_requests import CertificateRequest
    from kubeskew.controllers.certificates.issuing import Issuer

_CLIENT, _LEGACY = "kubernetes.io/kube-apiserver-client", "kubernetes.io/legacy-unknown"
_CLIENT_KUBELET, _SERVING = f"{_CLIENT}-kubelet", "kubernetes.io/kubelet-serving"
_SIGNERS = frozenset({_CLIENT, _CLIENT_KUBELET, _SERVING, _LEGACY})
_LASTING = timedelta(days=365)  # --cluster-signing-duration


class SigningController(RequestController):
    """Signs requests; does nothing without the authority's certificate and key."""

    name = "certificatesigningrequest-signing-controller"
    component = "certificatesigningrequest-signing-controller"
    queue_name = "certificate"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._authority = context.authority
        self._issuer: Issuer | None = None

    async def handle(self, request: Object) -> None:
        spec = request["spec"]
        if not has(request, "Approved") or has(request, "Failed") or spec.get("signerName") not in _SIGNERS:
            return
        if self._authority is None:
            return
        fault = self._fault(request)
        if fault:
            failed = with_added_condition(request, "Failed", "SignerValidationFailure", fault)
            await self.client.update(REQUESTS, failed, "status")
            return
        certificate = self._ready().issue(
            spec["request"], spec.get("usages") or (), spec.get("expirationSeconds"), self.clock.now()
        )
        status = {**(request.get("status") or {}), "certificate": certificate}
        await self.client.update(REQUESTS, {**request, "status": status}, "status")

    def _ready(self) -> "Issuer":
        from kubeskew.controllers.certificates.issuing import Issuer  # cryptography is slow to import

        if self._issuer is None:
            if self._authority is None:
                raise SyncError("there is no authority to sign with")
            self._issuer = Issuer(*self._authority, _LASTING)
        return self._issuer

    def _fault(self, request: Object) -> str:
        """Returns why the signer does not sign, empty if it does."""
        from kubeskew.apimachinery.security.certificate_requests import RequestError, parse_request
        from kubeskew.controllers.certificates import kubelets

        spec = request["spec"]
        try:
            parsed: CertificateRequest = parse_request(spec.get("request") or "")
        except RequestError as error:
            raise SyncError(f'unable to parse csr "{request["metadata"]["name"]}": {error}') from None
        signer, usages = spec["signerName"], spec.get("usages") or ()
        if signer == _CLIENT:
            return _client_fault(usages)
        if signer == _CLIENT_KUBELET:
            return kubelets.client_fault(parsed, usages)
        return kubelets.serving_fault(parsed, usages) if signer == _SERVING else ""


def _client_fault(usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in {"client auth", "digital signature", "key encipherment"}:
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""
