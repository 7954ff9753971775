"""Makes the error texts of Go's HTTP client and of Kubernetes' REST client for a call that failed.

Source: Go's net/http, net, crypto/tls and crypto/x509; k8s.io/client-go/rest/request.go and
k8s.io/apimachinery/pkg/api/errors/errors.go (NewGenericServerResponse), 1.36. (from memory)
"""

import ast
import asyncio
import errno
import re
import ssl
from datetime import datetime
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError

if TYPE_CHECKING:
    from cryptography import x509

    from kubeskew.apiserver.webhooks.endpoints import Address

_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.ETIMEDOUT: "connection timed out",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ECONNRESET: "connection reset by peer",
}
_HOSTNAME_MISMATCH, _IP_MISMATCH = 62, 64
_EXPIRED, _NOT_YET = 10, 9
_PREFIX = "tls: failed to verify certificate: x509: "
_UNKNOWN_AUTHORITY = "certificate signed by unknown authority"

_MESSAGES = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    409: ("AlreadyExists", "the server reported a conflict"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        (
            "the server was unable to return a response in the time allotted, "
            "but may still be processing the request"
        ),
    ),
}


def unexpected_status(code: int, body: bytes, content_type: str) -> StatusError:
    """Returns the REST client's error for an answer that is neither a success nor a `Status`."""
    media_type = content_type.partition(";")[0].strip()
    is_text = not media_type or media_type.startswith("text/")
    said = body[:2048].decode(errors="replace").strip() if is_text else "unknown"
    reason, message = _MESSAGES.get(code, ("", ""))
    if code == 403:
        reason, message = "Forbidden", said
    elif code == 406:
        reason, message = "NotAcceptable", said
    elif code == 415:
        reason, message = "UnsupportedMediaType", said
    elif not message and code >= 500:
        reason = "InternalError"
        message = f"an error on the server ({_quoted(said)}) has prevented the request from succeeding"
    elif not message:
        message = f"the server responded with the status code {code} but did not return more information"
    cause = {"reason": "UnexpectedServerResponse", "message": said}
    return StatusError(code, reason, message, {"causes": [cause]})


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def of_connection(error: BaseException, address: "Address") -> str:
    """Returns the error if no connection came to be, or no answer over it, as Go's client tells after `Post
    "URL": `.
    """
    import aiohttp  # imported late, as elsewhere here: it takes 0.1 s, and most servers have no webhooks

    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {address.host}: no such host"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return of_handshake(error)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):  # what came is no HTTP
        return (
            f"net/http: HTTP/1.x transport connection broken: malformed HTTP response{_line(error.message)}"
        )
    number = getattr(getattr(error, "os_error", error), "errno", None)
    host = f"[{address.host}]" if ":" in address.host else address.host
    if isinstance(number, int) and number in _ERRNO:
        what = "dial" if isinstance(error, aiohttp.ClientConnectorError) else "read"
        call = "connect" if what == "dial" else "read"
        return f"{what} tcp {host}:{address.port}: {call}: {_ERRNO[number]}"
    return str(error)


def _line(text: str) -> str:
    """Returns the line that is no status line, as Go quotes it, from what the parser says of it."""
    found = re.search(r"^ *(b'.*'|b\".*\")$", text, re.MULTILINE)
    if found is None:
        return ""
    line: bytes = ast.literal_eval(found[1])
    escapes = {0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t"}
    plain = (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in line)
    return f' "{"".join(escapes.get(byte, shown) for byte, shown in zip(line, plain, strict=True))}"'


def of_body(error: BaseException) -> str:
    """Returns the REST client's error if an answer that had begun could not be read to its end."""
    why = "context deadline exceeded" if isinstance(error, TimeoutError) else "unexpected EOF"
    return f"unexpected error when reading response body. Please retry. Original error: {why}"


def of_handshake(error: BaseException) -> str:
    """Returns the error of a failed TLS handshake."""
    return "http: server gave HTTP response to HTTPS client" if _speaks_http(error) else _tls(error)


def _speaks_http(error: BaseException) -> bool:
    text = str(error)
    return "WRONG_VERSION_NUMBER" in text or "wrong version number" in text


def _tls(error: BaseException) -> str:
    text = str(error)
    if "EOF" in text:
        return "EOF"
    if "certificate required" in text.lower():
        return "remote error: tls: certificate required"
    return "remote error: tls: handshake failure" if "alert" in text.lower() else f"tls: {text}"


def of_certificate(
    error: ssl.SSLCertVerificationError, certificate: "x509.Certificate | None", name: str, now: datetime
) -> str:
    """Returns the error for an invalid server certificate; `certificate` is what it showed, if known."""
    if certificate is None:
        return _PREFIX + _UNKNOWN_AUTHORITY
    if error.verify_code in {_EXPIRED, _NOT_YET}:
        return _PREFIX + _outside_validity(certificate, now)
    if error.verify_code in {_HOSTNAME_MISMATCH, _IP_MISMATCH}:
        return _PREFIX + _other_name(certificate, name, ip=error.verify_code == _IP_MISMATCH)
    return _PREFIX + _UNKNOWN_AUTHORITY


def _outside_validity(certificate: "x509.Certificate", now: datetime) -> str:
    text = f"certificate has expired or is not yet valid: current time {timestamp(now)} is"
    if now > certificate.not_valid_after_utc:
        return f"{text} after {timestamp(certificate.not_valid_after_utc)}"
    return f"{text} before {timestamp(certificate.not_valid_before_utc)}"


def _other_name(certificate: "x509.Certificate", name: str, *, ip: bool) -> str:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        if ip:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
        return "certificate relies on legacy Common Name field, use SANs instead"
    if ip:
        addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        if not addresses:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
        return f"certificate is valid for {', '.join(addresses)}, not {name}"
    hosts = names.get_values_for_type(x509.DNSName)
    if not hosts:
        return f"certificate is not valid for any names, but wanted to match {name}"
    return f"certificate is valid for {', '.join(hosts)}, not {name}"
