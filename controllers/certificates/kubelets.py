"""Checks that a signing request is one of a kubelet.

Source: k8s.io/kubernetes/pkg/apis/certificates/helpers.go, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.security.certificate_requests import CertificateRequest

_SIGNATURE, _ENCIPHERMENT = "digital signature", "key encipherment"


def client_fault(request: CertificateRequest, usages: Sequence[str]) -> str:
    """Returns the fault of a request for a client certificate, empty if it has none."""
    return next(_client_faults(request, set(usages)), "")


def _client_faults(request: CertificateRequest, usages: set[str]) -> Iterator[str]:
    yield from _organization(request)
    for kind, shown in (("dns", "DNS"), ("email", "Email"), ("ip", "IP"), ("uri", "URI")):
        if kind in request.alternatives:
            yield f"{shown} subjectAltNames are not allowed"
    yield from _usages(usages, "client auth")
    yield from _common_name(request)


def serving_fault(request: CertificateRequest, usages: Sequence[str]) -> str:
    """Returns the fault of a request for a serving certificate, empty if it has none."""
    return next(_serving_faults(request, set(usages)), "")


def _serving_faults(request: CertificateRequest, usages: set[str]) -> Iterator[str]:
    yield from _organization(request)
    if not request.alternatives & {"dns", "ip"}:
        yield "DNS or IP subjectAltName is required"
    for kind, shown in (("email", "Email"), ("uri", "URI")):
        if kind in request.alternatives:
            yield f"{shown} subjectAltNames are not allowed"
    yield from _usages(usages, "server auth")
    yield from _common_name(request)


def _organization(request: CertificateRequest) -> Iterator[str]:
    if request.organizations != ("system:nodes",):
        yield "subject organization is not system:nodes"


def _usages(usages: set[str], purpose: str) -> Iterator[str]:
    required = {_SIGNATURE, purpose}
    if usages - {_ENCIPHERMENT} != required:
        wanted = sorted({*required, _ENCIPHERMENT} if purpose == "client auth" else required)
        yield f"usages did not match [{' '.join(wanted)}]"


def _common_name(request: CertificateRequest) -> Iterator[str]:
    if not request.common_name.startswith("system:node:"):
        yield "subject common name does not begin with system:node:"
