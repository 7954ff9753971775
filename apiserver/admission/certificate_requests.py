"""Reads the request in a CertificateSigningRequest that plugins look at."""

from typing import TYPE_CHECKING

from kubeskew.apiserver.admission import Attributes

if TYPE_CHECKING:
    from kubeskew.apimachinery.security.certificate_requests import CertificateRequest


def requested_certificate(attributes: Attributes, failure: str) -> "CertificateRequest":
    """Returns the request of a CertificateSigningRequest; refuses the write with `failure` if it has none."""
    from kubeskew.apimachinery.security.certificate_requests import (  # cryptography is slow
        RequestError,
        parse_request,
    )

    spec = (attributes.object or {}).get("spec") or {}
    try:
        return parse_request(spec.get("request") or "")
    except RequestError as error:
        raise attributes.refuse(f"{failure}: {error}") from None
