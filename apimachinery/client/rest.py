"""The API client: verbs on `Ref`s, answers as plain dicts, failures as `StatusError`.

A connection that breaks raises `aiohttp.ClientError` (or `OSError`, `TimeoutError`): see `CONNECTION_ERRORS`.
Requests that the server refused for load (429, 503 with Retry-After) are sent again. Reads are also repeated
when the connection was reset, because servers restart often here. A `FailureLog` logs failures of retried
calls: each when it is new, and then every half minute.

An answer that is no success may come from something in front of the API server. The newest revision that
answers and watch events have named is kept.
"""

import logging
import platform
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import aiohttp
import orjson

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, load_kubeconfig
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.transport import (
    MAX_REQUESTS,
    HTTPTransport,
    Request,
    Response,
    Transport,
    failing_over,
)
from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang import raw_extensions
from kubeskew.apimachinery.golang.known_fields import Decode, as_is
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version

_REPEAT_SECONDS = 30.0  # the longest wait of client-go's reflectors, which log every attempt
# Reasons for answers that carry no Status (client-go, NewGenericServerResponse).
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
            405: "MethodNotAllowed", 406: "NotAcceptable", 409: "Conflict", 410: "Gone",
            415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
            503: "ServiceUnavailable", 504: "Timeout"}  # fmt: skip
_escaped = lru_cache(maxsize=1024)(quote_plus)  # few names and selectors come again and again

Dial = Callable[[Kubeconfig, int], Transport]

CONNECTION_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_MAX_RETRIES = 10  # client-go rest.Request.maxRetries
_RESET_RETRY_SECONDS = 0.05
_REQUEST_TIMEOUT_SECONDS = 60.0


class FailureLog:
    """Logs errors of one activity; the same text again only after half a minute, or after a success."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._last = ""
        self._at = 0.0

    def failed(self, text: str) -> None:
        now = self._clock.monotonic()
        if text != self._last or now - self._at >= _REPEAT_SECONDS:
            self._last, self._at = text, now
            self._log.error("%s", text)

    def succeeded(self) -> None:
        """Has the next failure logged, even if its text is the same."""
        self._last = ""


def retry_after(response: Response) -> float | None:
    """Seconds of Retry-After on 429 and 5xx, as client-go reads it; None without the header."""
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("Retry-After") or ""
    return float(text) if text.isdigit() else None


async def failure(response: Response) -> StatusError:
    """Reads a refusal as an error, and closes the response."""
    try:
        content = await response.body()
    finally:
        await response.close()
    try:
        status = orjson.loads(content)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return StatusError.from_status(status)
    text = content.decode(errors="replace").strip() or "unknown"
    return StatusError(response.status, _REASONS.get(response.status, "InternalError"), text)


class SeenRevisions:
    """The resourceVersions that a client has seen; a server's revisions count all its writes."""

    def __init__(self) -> None:
        self.newest = 0

    def note(self, obj: Any) -> None:
        """Notes the resourceVersion of an object or a list, if it has one."""
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        text = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(text, str) and text.isdecimal():
            self.newest = max(self.newest, int(text))


def user_agent(component: str, version: Version) -> str:
    """Upstream's form: `kube-scheduler/v1.36.4 (linux/amd64) kubernetes/kubeskew`."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{component}/{version.git_version} ({platform.system().lower()}/{machine}) kubernetes/kubeskew"


def dial(config: Kubeconfig, max_requests: int = MAX_REQUESTS) -> Transport:
    """Connects over HTTPS to a kubeconfig's server, or to those that may take its place."""
    tls = config.ssl_context()
    return failing_over(
        [HTTPTransport(each.server, tls, max_requests=max_requests) for each in config.each()]
    )


class APIClient:
    """Speaks to one API server through a transport. Close it when done."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        headers: Mapping[str, str] | None = None,
        revisions: SeenRevisions | None = None,
        decode: Decode = as_is,
    ) -> None:
        """`decode` reduces each object that a verb or a watch returns to the fields that the client's types
        have."""
        self._transport = transport
        self._decode = decode
        self._revisions = revisions if revisions is not None else SeenRevisions()
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._headers = {"Accept": JSON, **(headers or {})}

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path,
        user_agent: str,
        *,
        clock: Clock | None = None,
        context: str = "",
        max_requests: int = MAX_REQUESTS,
        dial: Dial = dial,
        wrap: Callable[[Transport], Transport] | None = None,
        decode: Decode = as_is,
    ) -> "APIClient":
        """Connects by `dial` to the server of the kubeconfig's context; raises KubeconfigError.

        At most `max_requests` are under way at a time, watches not counted. `wrap` may put something in front
        of the transport. `decode` is that of `APIClient`.
        """
        config = load_kubeconfig(path, context)
        headers = {"User-Agent": user_agent}
        if config.token:
            headers["Authorization"] = f"Bearer {config.token}"
        transport = dial(config, max_requests)
        if wrap is not None:
            transport = wrap(transport)
        return cls(transport, clock=clock, headers=headers, decode=decode)

    async def close(self) -> None:
        await self._transport.close()

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of each request: a token, and the user that the client impersonates."""
        return self._headers

    def impersonating(self, user: str, extra: Mapping[str, str], group: str = "") -> "APIClient":
        """Impersonates another user on the same transport, with one `group` more.

        `extra` has more facts about the user, such as `authentication.kubernetes.io/node-name`.
        """
        known = {f"Impersonate-Extra-{quote(key, safe='')}": value for key, value in extra.items()}
        groups = {"Impersonate-Group": group} if group else {}
        return APIClient(
            self._transport,
            clock=self._clock,
            headers={**self._headers, "Impersonate-User": user, **groups, **known},
            revisions=self._revisions,
            decode=self._decode,
        )

    def newest_revision(self) -> int:
        """The newest revision that an answer or an event of a watch has named; 0 before any has."""
        return self._revisions.newest

    # -- verbs

    async def get(
        self, ref: Ref, name: str, namespace: str = "", *, subresource: str = "", metadata_only: bool = False
    ) -> Object:
        accept = _METADATA if metadata_only else JSON
        return await self._object("GET", ref.path(namespace, name, subresource), accept=accept)

    async def list(
        self,
        ref: Ref,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> Object:
        """Items have their apiVersion and kind even where the server omits them."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        accept = _METADATA_LIST if metadata_only else JSON
        found: Object = await self.request("GET", ref.path(namespace), query=query, accept=accept)
        items = found["items"] = found.get("items") or []
        if not metadata_only:
            kind = {"kind": ref.kind, "apiVersion": ref.api_version}
            named = items if items and "kind" in items[0] else [{**kind, **item} for item in items]
            found["items"] = [self._decode(item) for item in named]
        return found

    async def create(
        self,
        ref: Ref,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
    ) -> Object:
        """Creates an object by POST. `name` is given only with a subresource (binding, eviction, token)."""
        path = ref.path(namespace or _namespace(obj), name, subresource)
        query = {"fieldManager": field_manager, "fieldValidation": field_validation}
        return await self._object("POST", path, query=query, body=obj)

    async def update(
        self,
        ref: Ref,
        obj: Object,
        subresource: str = "",
        *,
        field_manager: str = "",
        field_validation: str = "",
    ) -> Object:
        path = ref.path(_namespace(obj), obj["metadata"]["name"], subresource)
        query = {"fieldManager": field_manager, "fieldValidation": field_validation}
        return await self._object("PUT", path, query=query, body=obj)

    async def patch(
        self,
        ref: Ref,
        name: str,
        namespace: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        *,
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        force: bool = False,
    ) -> Object:
        """Patches an object; the body is a dict, a list or bytes."""
        query = {
            "fieldManager": field_manager,
            "fieldValidation": field_validation,
            "force": "true" if force else "",
        }
        path = ref.path(namespace, name, subresource)
        return await self._object("PATCH", path, query=query, body=body, content_type=content_type)

    async def apply(
        self, ref: Ref, obj: Object, *, field_manager: str, force: bool = False, subresource: str = ""
    ) -> Object:
        """Applies an object (server-side apply); apiVersion and kind are filled in from the ref."""
        body = {"apiVersion": ref.api_version, "kind": ref.kind, **obj}
        return await self.patch(
            ref,
            obj["metadata"]["name"],
            _namespace(obj),
            body,
            APPLY_PATCH,
            subresource=subresource,
            field_manager=field_manager,
            force=force,
        )

    async def delete(
        self,
        ref: Ref,
        name: str,
        namespace: str = "",
        *,
        grace_period: int | None = None,
        propagation: str | None = None,
        preconditions: Mapping[str, str] | None = None,
    ) -> Object:
        """Deletes an object.

        `propagation` is Background, Foreground or Orphan; `preconditions` holds uid, resourceVersion.
        """
        body = _delete_options(grace_period, propagation, preconditions)
        return await self._object("DELETE", ref.path(namespace, name), body=body)

    async def delete_collection(
        self,
        ref: Ref,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        grace_period: int | None = None,
        propagation: str | None = None,
    ) -> Object:
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        body = _delete_options(grace_period, propagation, None)
        return await self._object("DELETE", ref.path(namespace), query=query, body=body)

    async def watch(
        self,
        ref: Ref,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        resource_version: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
        metadata_only: bool = False,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yields (type, object) until the server ends the stream; raises an ERROR event as StatusError."""
        query = {
            "watch": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": str(timeout_seconds) if timeout_seconds else "",
        }
        request = self._request(
            "GET", ref.path(namespace), query, None, JSON, _METADATA if metadata_only else JSON, timeout=None
        )
        response = await self._answered(request)
        try:
            async for line in response.lines():
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise StatusError.from_status(event["object"])
                self._revisions.note(event["object"])
                yield event["type"], self._decode(event["object"])
        finally:
            await response.close()

    # -- raw

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Sends any request; the answer is parsed JSON, or text. Empty query values are left out."""
        request = self._request(
            method, path, query or {}, body, content_type, accept, timeout=_REQUEST_TIMEOUT_SECONDS
        )
        response = await self._answered(request)
        try:
            content = await response.body()
        finally:
            await response.close()
        if "json" in response.headers.get("Content-Type", JSON):
            answer = orjson.loads(content) if content else None
            self._revisions.note(answer)
            return answer
        return content.decode()

    async def exchange(
        self, method: str, path: str, *, body: Any = None, content_type: str = JSON, accept: str = JSON
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Sends a request once; a refusal is returned like any other answer: status, headers and body."""
        request = self._request(
            method, path, {}, body, content_type, accept, timeout=_REQUEST_TIMEOUT_SECONDS
        )
        response = await self._transport(request)
        try:
            return response.status, response.headers, await response.body()
        finally:
            await response.close()

    async def _object(self, method: str, path: str, **arguments: Any) -> Object:
        found: Object = await self.request(method, path, **arguments)
        return self._decode(found) if found else found

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        content_type: str,
        accept: str,
        *,
        timeout: float | None,
    ) -> Request:
        chosen = {name: value for name, value in query.items() if value}
        headers = {**self._headers, "Accept": accept}
        content: bytes | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = body if isinstance(body, bytes) else raw_extensions.dumps(body)[0]
        if chosen:
            path += "?" + "&".join([f"{_escaped(name)}={_escaped(value)}" for name, value in chosen.items()])
        return Request(method, path, headers, content, timeout)

    async def _answered(self, request: Request) -> Response:
        """Attempts as often as is allowed; raises StatusError if the last answer is no success."""
        for attempt in range(_MAX_RETRIES + 1):
            try:
                response = await self._transport(request)
            except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                if request.method != "GET" or attempt == _MAX_RETRIES:
                    raise
                await self._clock.sleep(_RESET_RETRY_SECONDS)
                continue
            if response.status < 400:
                return response
            wait = retry_after(response)
            if wait is None or attempt == _MAX_RETRIES:
                raise await failure(response)
            await response.close()
            await self._clock.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")


def _namespace(obj: Object) -> str:
    return obj.get("metadata", {}).get("namespace") or ""


def _delete_options(
    grace_period: int | None, propagation: str | None, preconditions: Mapping[str, str] | None
) -> Object | None:
    options: Object = {}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if preconditions:
        options["preconditions"] = dict(preconditions)
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
