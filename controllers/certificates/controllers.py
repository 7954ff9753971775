"""The controllers of certificate signing requests: they approve requests of kubelets that are allowed to make
them, sign approved ones for Kubernetes' own signers, and remove those no longer needed.

Upstream runs one controller per signer under this name; here one handles all.

Sources: k8s.io/kubernetes/pkg/controller/certificates/certificate_controller.go, 1.36;
k8s.io/kubernetes/pkg/controller/certificates/approver/sarapprove.go, 1.36;
k8s.io/kubernetes/pkg/controller/certificates/signer/signer.go, 1.36;
k8s.io/kubernetes/pkg/controller/certificates/cleaner/cleaner.go, 1.36.
"""

import base64
from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError

if TYPE_CHECKING:
    from kubeskew.apimachinery.security.certificate_requests import CertificateRequest
    from kubeskew.controllers.certificates.authority import Issuer

REQUESTS = Ref("certificates.k8s.io", "v1", "certificatesigningrequests", False, "CertificateSigningRequest")
_CLIENT_KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CLIENT, _LEGACY = "kubernetes.io/kube-apiserver-client", "kubernetes.io/legacy-unknown"
_KUBELET_CLIENT_SIGNER, _SERVING = f"{_CLIENT}-kubelet", "kubernetes.io/kubelet-serving"
_SIGNERS = frozenset({_CLIENT, _KUBELET_CLIENT_SIGNER, _SERVING, _LEGACY})
_LASTING = timedelta(days=365)  # --cluster-signing-duration
_PERIOD_SECONDS = 3600.0
_DECIDED = timedelta(hours=1)
_PENDING = timedelta(hours=24)


class RequestController(Controller):
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informer(REQUESTS)
        self._requests.add_handler(self.enqueue, lambda _, new: self.enqueue(new))

    async def sync(self, key: Key) -> None:
        request = self._requests.get("", key.name)
        if request is not None and not (request.get("status") or {}).get("certificate"):
            await self.handle(request)

    @abstractmethod
    async def handle(self, request: Object) -> None: ...


def conditions(request: Object) -> list[Object]:
    return (request.get("status") or {}).get("conditions") or []


def has(request: Object, kind: str) -> bool:
    """Conditions of old requests have an empty status, which counts as true."""
    return any(
        condition["type"] == kind and condition.get("status") in {None, "", "True"}
        for condition in conditions(request)
    )


def with_added_condition(request: Object, kind: str, reason: str, message: str) -> Object:
    """Present conditions stay, even one of the same type."""
    added = {"type": kind, "status": "True", "reason": reason, "message": message}
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*conditions(request), added]}}


class ApprovingController(RequestController):
    name = "certificatesigningrequest-approving-controller"
    component = "certificatesigningrequest-approving-controller"
    queue_name = "certificate"

    async def handle(self, request: Object) -> None:
        if has(request, "Approved") or has(request, "Denied"):
            return
        tried = []
        for subresource, message in _kinds(request):
            tried.append(subresource)
            if await self._may(request["spec"], subresource):
                approved = with_added_condition(request, "Approved", "AutoApproved", message)
                await self.client.update(REQUESTS, approved, "approval")
                return
        if tried:
            name = request["metadata"]["name"]
            what = f'recognized csr "{name}" as [{" ".join(tried)}]'
            raise SyncError(f"{what} but subject access review was not approved")

    async def _may(self, spec: Object, subresource: str) -> bool:
        """A SubjectAccessReview decides, for the user who requested the certificate."""
        attributes = {
            "group": REQUESTS.group,
            "resource": REQUESTS.plural,
            "verb": "create",
            "subresource": subresource,
            "version": "*",
        }
        asked: dict[str, Any] = {"user": spec.get("username") or "", "resourceAttributes": attributes}
        asked |= {name: spec[name] for name in ("uid", "groups", "extra") if spec.get(name)}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": asked}
        answer = await self.client.request("POST", _REVIEWS, body=review)
        return bool(answer["status"]["allowed"])


def _kinds(request: Object) -> list[tuple[str, str]]:
    """The request could be a certificate of these kinds: (subresource to check, message).
    Raises SyncError.
    """
    from kubeskew.apimachinery.security.certificate_requests import (  # cryptography is slow
        RequestError,
        parse_request,
    )
    from kubeskew.controllers.certificates.authority import client_fault

    spec = request["spec"]
    try:
        parsed = parse_request(spec.get("request") or "")
    except RequestError as error:
        raise SyncError(f'unable to parse csr "{request["metadata"]["name"]}": {error}') from None
    if spec.get("signerName") != _CLIENT_KUBELET or client_fault(parsed, spec.get("usages") or ()):
        return []
    kinds = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
    if spec.get("username") == parsed.common_name:
        message = "Auto approving self kubelet client certificate after SubjectAccessReview."
        kinds.insert(0, ("selfnodeclient", message))
    return kinds


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
        from kubeskew.controllers.certificates.authority import Issuer  # cryptography is slow to import

        if self._issuer is None:
            if self._authority is None:
                raise SyncError("there is no authority to sign with")
            self._issuer = Issuer(*self._authority, _LASTING)
        return self._issuer

    def _fault(self, request: Object) -> str:
        """Empty if the signer signs the request. Raises SyncError."""
        from kubeskew.apimachinery.security.certificate_requests import RequestError, parse_request
        from kubeskew.controllers.certificates import authority

        spec = request["spec"]
        try:
            parsed: CertificateRequest = parse_request(spec.get("request") or "")
        except RequestError as error:
            raise SyncError(f'unable to parse csr "{request["metadata"]["name"]}": {error}') from None
        signer, usages = spec["signerName"], spec.get("usages") or ()
        if signer == _CLIENT:
            return _client_fault(usages)
        if signer == _KUBELET_CLIENT_SIGNER:
            return authority.client_fault(parsed, usages)
        return authority.serving_fault(parsed, usages) if signer == _SERVING else ""


def _client_fault(usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in {"client auth", "digital signature", "key encipherment"}:
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


class CleaningController(Controller):
    name = "certificatesigningrequest-cleaner-controller"
    component = "certificatesigningrequest-cleaner-controller"
    queue_name = None  # it has no queue: the cleaner goes through all requests
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informer(REQUESTS)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._rounds()]

    async def _rounds(self) -> None:
        while True:
            for request in self._requests.list():
                self.enqueue(request)
            await self.clock.sleep(_PERIOD_SECONDS)

    async def sync(self, key: Key) -> None:
        request = self._requests.get("", key.name)
        if request is None or not _is_old(request, self.clock.now()):
            return
        try:
            await self.client.delete(REQUESTS, key.name)
        except StatusError as error:
            if error.code != 404:
                raise


def _is_old(request: Object, now: datetime) -> bool:
    certificate = (request.get("status") or {}).get("certificate")
    if not conditions(request):
        return _before(request["metadata"].get("creationTimestamp"), now - _PENDING)
    for condition in conditions(request):
        kind = condition["type"]
        ended = kind in {"Denied", "Failed"} or (kind == "Approved" and bool(certificate))
        if ended and _before(condition.get("lastUpdateTime"), now - _DECIDED):
            return True
    return bool(certificate) and _has_expired(str(certificate), now)


def _before(time: str | None, moment: datetime) -> bool:
    return bool(time) and parse_timestamp(str(time)) < moment


def _has_expired(certificate: str, now: datetime) -> bool:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc < now
    except ValueError:
        return False
