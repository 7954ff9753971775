"""Calls webhooks over HTTPS: trust in one bundle, one POST of a review, Go's error texts.

Sources: Go's net/http, net, crypto/tls and crypto/x509; k8s.io/client-go/rest/request.go and
k8s.io/apimachinery/pkg/api/errors/errors.go (NewGenericServerResponse), 1.36; what a program of Go 1.26 says
of such addresses; k8s.io/apiserver/pkg/util/webhook/client.go and k8s.io/client-go/rest/request.go, 1.36.
"""

import ast
import asyncio
import base64
import errno
import math
import re
import socket
import ssl
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.webhooks.endpoints import Address, ResolutionError, ServiceResolver

if TYPE_CHECKING:
    import aiohttp
    from cryptography import x509

Identity = tuple[str, str]  # files of a client certificate and its key
_SECONDS = 2.0  # to look at a certificate once more, for the message only
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
_HTTPS = 443
_MAX_ANSWER = 3 << 20
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
_NO_KIND = "couldn't get version/kind; json parse error: "
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}


def _showing(identity: Identity | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


@lru_cache(maxsize=256)
def trusting(bundle: str, identity: Identity | None = None) -> ssl.SSLContext:
    """With an empty `bundle` (PEM), the machine's certificates are trusted.

    `identity` is shown to servers that ask for a client certificate.
    """
    context = _showing(identity)
    if bundle:
        context.load_verify_locations(cadata=bundle)
    else:
        context.load_default_certs()
    return context


@lru_cache(maxsize=4)
def trusting_all(identity: Identity | None = None) -> ssl.SSLContext:
    context = _showing(identity)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shown_by(
    address: Address, name: str, network: NetworkAgent | None = None
) -> "x509.Certificate | None":
    """None if the server shows no certificate within two seconds. With a network the address is in that."""
    from cryptography import x509

    try:
        async with asyncio.timeout(_SECONDS):
            connected = None if network is None else await network.dial(None, address.host, address.port)
            host, port = (address.host, address.port) if connected is None else (None, None)
            _, writer = await asyncio.open_connection(
                host, port, sock=connected, ssl=trusting_all(), server_hostname=name
            )
    except (OSError, TimeoutError):
        return None
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown) if shown else None
    finally:
        writer.close()


def unexpected_status(code: int, body: bytes, content_type: str) -> StatusError:
    """The answer is neither a success nor a `Status`; the error is the REST client's."""
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
    """Go's client adds this to `Post "URL": ` if no connection came to be, or no answer over it."""
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
    """Go quotes the line that is no status line; it is taken from the parser's message."""
    found = re.search(r"^ *(b'.*'|b\".*\")$", text, re.MULTILINE)
    if found is None:
        return ""
    line: bytes = ast.literal_eval(found[1])
    escapes = {0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t"}
    plain = (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in line)
    return f' "{"".join(escapes.get(byte, shown) for byte, shown in zip(line, plain, strict=True))}"'


def of_body(error: BaseException) -> str:
    """An answer that had begun could not be read to its end; the text is the REST client's."""
    why = "context deadline exceeded" if isinstance(error, TimeoutError) else "unexpected EOF"
    return f"unexpected error when reading response body. Please retry. Original error: {why}"


def of_handshake(error: BaseException) -> str:
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
    """`certificate` is the one that the server showed, if known."""
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


class CallError(Exception):
    """No usable answer came; the text is in Go's words (`Post "https://…": dial tcp …`).

    `status` is what the webhook's server itself answered, if it did.
    """

    def __init__(self, message: str, status: StatusError | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ConfigError(CallError):
    """No call can be made with this clientConfig."""


class WebhookClient:
    """Calls webhooks by their `clientConfig` (url or service, caBundle). Connections are kept.

    `close` ends them; a client that was closed opens again when it is used.
    """

    def __init__(self, services: ServiceResolver, clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        """The webhook has to answer with a review within `seconds`; raises CallError."""
        import aiohttp

        url = url_of(config)
        context = _context(config.get("caBundle") or "")
        shown = _with_timeout(url, seconds)
        try:
            self._check_service(config)
            answer = await self._exchange(shown, dumps(review), context, seconds)
        except ResolutionError as error:
            raise CallError(f'Post "{shown}": {error}') from None
        except aiohttp.ClientConnectorCertificateError as error:
            why = await self._distrust(url, error.certificate_error)
            raise CallError(f'Post "{shown}": {why}') from None
        except aiohttp.InvalidURL:
            raise CallError(f'Post "{shown}": {_undialled(url)}') from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise CallError(f'Post "{shown}": {of_connection(error, self._address(url))}') from None
        except ValueError:  # a malformed URL, or a host that IDNA cannot encode
            raise CallError(f'Post "{shown}": {_undialled(url)}') from None
        _check_kind(answer, review)
        return answer

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _check_service(self, config: Object) -> None:
        service = config.get("service")
        if service:
            self._services.resolve(service["namespace"], service["name"], service.get("port") or _HTTPS)

    async def _exchange(self, target: str, body: bytes, context: ssl.SSLContext, seconds: float) -> Object:
        import aiohttp
        from yarl import URL

        headers = {**_HEADERS, "Host": urlsplit(target).netloc}  # Go keeps a port that goes without saying
        timeout, url = aiohttp.ClientTimeout(total=seconds), URL(target, encoded=True)
        async with self.session().post(url, data=body, headers=headers, ssl=context, timeout=timeout) as got:
            try:
                answer = await _whole(got.content)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise CallError(of_body(error)) from None
        return _read(got.status, answer, got.headers.get("Content-Type", ""))

    def session(self) -> "aiohttp.ClientSession":
        """Services are reached by `NAME.NAMESPACE.svc`; the session is made when first asked for."""
        if self._session is None:
            import aiohttp

            from kubeskew.apiserver.webhooks.service_map import Resolver

            connector = aiohttp.TCPConnector(
                resolver=Resolver(self._services),
                use_dns_cache=False,
                limit=0,
                keepalive_timeout=60.0,
                socket_factory=self._socket,
            )
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _socket(self, address: "aiohttp.AddrInfoType") -> socket.socket:
        """A socket for an address, in the network where that is. Raises OSError."""
        family, kind, protocol, _, (host, *_) = address
        network = self._services.network_of(str(host))
        return socket.socket(family, kind, protocol) if network is None else network.open_socket()

    def _address(self, url: str) -> Address:
        host, port = _dialled(url)
        try:
            return self._services.lookup(host, port) or Address(host, port)
        except ResolutionError:
            return Address(host, port)

    async def _distrust(self, url: str, error: Exception) -> str:
        host = urlsplit(url).hostname or ""
        if not isinstance(error, ssl.SSLCertVerificationError):
            return str(error)
        address = self._address(url)
        shown = await shown_by(address, host, self._services.network_of(address.host))
        return of_certificate(error, shown, host, self._clock.now())


async def _whole(content: "aiohttp.StreamReader") -> bytes:
    answer = bytearray()
    async for chunk in content.iter_any():
        answer += chunk
        if len(answer) > _MAX_ANSWER:
            raise CallError("http: request body too large")
    return bytes(answer)


def url_of(config: Object) -> str:
    """Raises ConfigError if there is neither service nor URL."""
    service = config.get("service")
    if service:
        path = service.get("path") or "/"
        path = path if path.startswith("/") else f"/{path}"
        return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or _HTTPS}{path}"
    if not config.get("url"):
        raise ConfigError("webhook configuration must have either service or URL")
    split = urlsplit(config["url"])
    return f"{split.scheme}://{split.netloc}{split.path}"


def _dialled(url: str) -> tuple[str, int]:
    split = urlsplit(url)
    return split.hostname or "", _HTTPS if split.port is None else split.port


def _undialled(url: str) -> str:
    """The address leads nowhere before anybody is asked; the name server's address is left out."""
    try:
        host, port = _dialled(url)
    except ValueError:
        return f"dial tcp: address {urlsplit(url).netloc.rpartition(':')[2]}: invalid port"
    if not host:  # Go takes it for this machine, where nobody listens
        return f"dial tcp :{port}: connect: connection refused"
    return f"dial tcp: lookup {host}: no such host"


def _with_timeout(url: str, seconds: float) -> str:
    """Adds the timeout as the REST client writes it: whole seconds, rounded up."""
    return f"{url}?timeout={math.ceil(seconds)}s"


def _context(ca_bundle: str) -> ssl.SSLContext:
    try:
        return trusting(base64.b64decode(ca_bundle).decode(errors="replace"))
    except ssl.SSLError:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        raise ConfigError(why) from None


def _read(code: int, body: bytes, content_type: str) -> Object:
    if not 200 <= code <= 206:
        status = _status(body)
        if status is not None:
            raise _answered(StatusError.from_status(status))
        raise _answered(unexpected_status(code, body, content_type))
    if not body:
        raise CallError(f"0-length response with status code: {code} and content type: {content_type}")
    value = _parsed(body)
    if value.get("kind") == "Status" and value.get("status") != "Success":
        raise _answered(StatusError.from_status(value))
    return value


def _parsed(body: bytes) -> Object:
    """The body is YAML unless it begins as an object of JSON does; raises CallError."""
    as_json = body.lstrip().startswith(b"{")
    try:
        value = decoder.parse(body, "application/json" if as_json else "application/yaml").value
    except ValueError as error:
        raise CallError(f"{_NO_KIND}{error}" if as_json else str(error)) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CallError(decoder.no_object(value))
    wrong = decoder.head_error(value)
    if wrong is not None:
        raise CallError(wrong)
    return value


def _check_kind(answer: Object, review: Object) -> None:
    """Raises CallError unless the answer can be decoded into a review like the one sent."""
    wanted, kind = review["apiVersion"], review["kind"]
    api_version, got = answer.get("apiVersion") or wanted, answer.get("kind") or kind
    group, _, version = wanted.partition("/")
    if got != kind or api_version not in {f"{group}/{known}" for known in _REVIEW_VERSIONS}:
        raise CallError(f'no kind "{got}" is registered for version "{api_version}" in scheme "{_SCHEME}"')
    if api_version != wanted:
        own = api_version.partition("/")[2]
        raise CallError(f"converting ({own}.{kind}) to ({version}.{kind}): unknown conversion")


def _answered(error: StatusError) -> CallError:
    return CallError(error.message, error)


def _status(body: bytes) -> Object | None:
    try:
        value = decoder.parse(body, "application/json").value
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("kind") == "Status" else None
