"""Approves requests of kubelets that are allowed to make them.

Source: k8s.io/kubernetes/pkg/controller/certificates/approver/sarapprove.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.certificates.base import REQUESTS, RequestController, has, with_added_condition
from kubeskew.controllers.framework.base import SyncError

_CLIENT_KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


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
        """Returns whether the requesting user may have such a certificate."""
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
    """Returns (subresource to check, message) for each kind of certificate that the request could be."""
    from kubeskew.apimachinery.security.certificate_requests import (  # cryptography is slow
        RequestError,
        parse_request,
    )
    from kubeskew.controllers.certificates.kubelets import client_fault

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
