"""The rules of a webhook's `clientConfig`, whoever calls it.

Source: k8s.io/apiserver/pkg/util/webhook/validation.go, 1.36.
"""

import base64
import binascii
import re
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, invalid, required
from apimachinery.validation import names

_FORM = "; desired format: https://host[/path]"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def validate_url(path: str, url: str, *, force_https: bool = True) -> Iterator[FieldError]:
    """What is wrong with a webhook's `url`."""
    try:
        split = urlsplit(url)
    except ValueError as error:
        yield required(path, f'url must be a valid URL: parse "{url}": {error}{_FORM}')
        return
    if force_https and split.scheme != "https":
        yield invalid(path, split.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, _, host = split.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if "@" in split.netloc:
        yield invalid(path, user, "user information is not permitted in the URL")
    if split.fragment:
        yield invalid(path, split.fragment, "fragments are not permitted in the URL")
    if split.query:
        yield invalid(path, split.query, "query parameters are not permitted in the URL")


def validate_service(path: str, service: Object) -> Iterator[FieldError]:
    """What is wrong with a webhook's `service`."""
    for name in ("name", "namespace"):
        if not service.get(name):
            yield required(child(path, name), f"service {name} is required")
    port = service.get("port") or 0
    if problems := names.port(port):
        yield invalid(child(path, "port"), port, f"port is not valid: {','.join(problems)}")
    if service.get("path") is not None:
        yield from _url_path(child(path, "path"), service["path"])


def _url_path(path: str, given: str) -> Iterator[FieldError]:
    if given in {"", "/"}:
        return
    if given == "//":
        yield invalid(path, given, "segment[0] may not be empty")
        return
    if not given.startswith("/"):
        yield invalid(path, given, "must start with a '/'")
    for position, segment in enumerate(given[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, given, f"segment[{position}] may not be empty")
            continue
        for problem in names.dns1123_subdomain(segment):
            yield invalid(path, given, f"segment[{position}]: {problem}")


def validate_ca_bundle(path: str, bundle: str) -> Iterator[FieldError]:
    """What is wrong with a webhook's `caBundle`, base64 of PEM."""
    try:
        found = _CERTIFICATE.findall(base64.b64decode(bundle))
    except binascii.Error:
        found = []
    why = ""
    if not found:
        why = "data does not contain any valid RSA or ECDSA certificates"
    for block in found:
        try:
            ssl.PEM_cert_to_DER_cert(block.decode(errors="replace"))
        except (ValueError, binascii.Error):
            why = "x509: malformed certificate"
    if why:
        yield invalid(path, bundle, f"unable to load root certificates: {why}")
