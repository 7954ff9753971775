"""Calls webhooks over HTTPS: one POST of a review, one JSON answer.

Source: k8s.io/apiserver/pkg/util/webhook/client.go and k8s.io/client-go/rest/request.go, 1.36.
"""

import base64
import math
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.webhooks import failures
from kubeskew.apiserver.webhooks.endpoints import Address, ResolutionError, ServiceResolver
from kubeskew.apiserver.webhooks.trust import shown_by, trusting

if TYPE_CHECKING:
    import aiohttp

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


class CallError(Exception):
    """A call that brought no usable answer, in Go's words (`Post "https://…": dial tcp …`).

    `status` is what the webhook's server itself answered, if it did.
    """

    def __init__(self, message: str, status: StatusError | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ConfigError(CallError):
    """A clientConfig with which no call can be made."""


class WebhookClient:
    """Calls webhooks by their `clientConfig` (url or service, caBundle). Connections are kept.

    `close` ends them; a client that was closed opens again when it is used.
    """

    def __init__(self, services: ServiceResolver, clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        """Returns the review that the webhook answers to `review` within `seconds`; raises CallError."""
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
            raise CallError(f'Post "{shown}": {failures.of_connection(error, self._address(url))}') from None
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
                raise CallError(failures.of_body(error)) from None
        return _read(got.status, answer, got.headers.get("Content-Type", ""))

    def session(self) -> "aiohttp.ClientSession":
        """Returns the session that reaches services by `NAME.NAMESPACE.svc`; made when first asked for."""
        if self._session is None:
            import aiohttp

            from kubeskew.apiserver.webhooks.resolving import Resolver

            connector = aiohttp.TCPConnector(
                resolver=Resolver(self._services), use_dns_cache=False, limit=0, keepalive_timeout=60.0
            )
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

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
        shown = await shown_by(self._address(url), host)
        return failures.of_certificate(error, shown, host, self._clock.now())


async def _whole(content: "aiohttp.StreamReader") -> bytes:
    answer = bytearray()
    async for chunk in content.iter_any():
        answer += chunk
        if len(answer) > _MAX_ANSWER:
            raise CallError("http: request body too large")
    return bytes(answer)


def url_of(config: Object) -> str:
    """Returns the URL of a clientConfig; raises ConfigError."""
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
    """Returns Go's error for an address that leads nowhere before anybody is asked (from memory)."""
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
        raise _answered(failures.unexpected_status(code, body, content_type))
    if not body:
        raise CallError(f"0-length response with status code: {code} and content type: {content_type}")
    value = _parsed(body)
    if value.get("kind") == "Status" and value.get("status") != "Success":
        raise _answered(StatusError.from_status(value))
    return value


def _parsed(body: bytes) -> Object:
    """Returns an object in JSON, or in YAML, which all is that does not begin as an object of JSON does."""
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
    """Raise CallError for what cannot be decoded into a review like the one that was sent."""
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
