"""Validates a webhook's `clientConfig`, for every caller.

Source: k8s.io/apiserver/pkg/util/webhook/validation.go, 1.36.
"""

import base64
import binascii
import re
import ssl
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any
from urllib.parse import urlsplit

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.pem import certificate_blocks

_FORM = "; desired format: https://host[/path]"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PORT = re.compile(r":[0-9]*")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_NOT_IN_HOSTS = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")


def validate_url(path: str, url: str, *, force_https: bool = True) -> Iterator[FieldError]:
    problem = _unreadable(url)
    if problem:
        yield required(path, f"url must be a valid URL: parse {dumps(url)}: {problem}{_FORM}")
        return
    split = urlsplit(url)
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


def _unreadable(url: str) -> str:
    """Empty if Go's url.Parse reads the URL, else its error (net/url, 1.25)."""
    if any(char < " " or char == "\x7f" for char in url):
        return "net/url: invalid control character in URL"
    if url.startswith(":"):
        return "missing protocol scheme"
    before = re.split(r"[?#]", url, maxsplit=1)[0]
    if _SCHEME.match(before) is None and ":" in before.partition("/")[0]:
        return "first path segment in URL cannot contain colon"
    _, found, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2] if found else ""
    if host.startswith("["):
        name, closed, port = host.rpartition("]")
        if not closed:
            return "missing ']' in host"
    else:
        name, colon, port = host.rpartition(":")
        name, port = (name, colon + port) if colon else (host, "")
    if port and not _PORT.fullmatch(port):
        return f"invalid port {dumps(port)} after host"
    odd = _NOT_IN_HOSTS.search(name)
    if odd and not _NO_ESCAPE.search(name):
        return f"invalid character {dumps(odd[0])} in host name"
    escape = _NO_ESCAPE.search(before)
    return f"invalid URL escape {dumps(escape[0])}" if escape else ""


def validate_service(path: str, service: Object) -> Iterator[FieldError]:
    for name, other in (("name", "namespace"), ("namespace", "name")):
        if not service.get(other):  # upstream mixes them up
            yield required(child(path, name))
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
    """`bundle` is base64 of PEM."""
    try:
        found = certificate_blocks(base64.b64decode(bundle).decode(errors="replace"))
    except binascii.Error:
        found = []
    why = ""
    if not found:
        why = "data does not contain any valid RSA or ECDSA certificates"
    for block in found:
        try:
            ssl.PEM_cert_to_DER_cert(block)
        except (ValueError, binascii.Error):
            why = "x509: malformed certificate"
    if why:
        yield invalid(path, bundle, f"unable to load root certificates: {why}")


def review_version_errors(versions: Sequence[Any], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, version in enumerate(versions):
        if version in seen:
            yield invalid(index(path, position), version, "duplicate version")
            continue
        seen.add(version)
        yield from (invalid(index(path, position), version, text) for text in names.dns1035_label(version))
