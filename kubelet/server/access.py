"""Authenticates and authorizes requests to a node's server: client certificates, then reviews by the API
server.

Texts before 1.32, when a request had one subresource, are from memory.

Source: k8s.io/kubernetes/pkg/kubelet/server/{auth.go,server.go} (InstallAuthFilter, GetRequestAttributes) and
k8s.io/apiserver's delegating authenticator and authorizer, 1.36.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError

log = logging.getLogger(__name__)
T = TypeVar("T")

_TOKEN_REVIEWS = Ref("authentication.k8s.io", "v1", "tokenreviews", False, "TokenReview")
_ACCESS_REVIEWS = Ref("authorization.k8s.io", "v1", "subjectaccessreviews", False, "SubjectAccessReview")
_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES = {"/stats": "stats", "/metrics": "metrics", "/logs": "log", "/checkpoint": "checkpoint"}
_FINE = {"/healthz": "healthz", "/pods": "pods", "/runningpods": "pods", "/configz": "configz"}
_AUTHENTICATED = "system:authenticated"
_REMEMBERED = 4096
_FAILURES = (StatusError, *CONNECTION_ERRORS)


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """The kubelet's flags; the defaults are those of a KubeletConfiguration. Times are seconds."""

    anonymous: bool = False
    token_webhook: bool = True
    token_ttl: float = 120.0
    authorization_webhook: bool = True  # else every authenticated user may do everything
    authorized_ttl: float = 300.0
    unauthorized_ttl: float = 30.0


@dataclass(frozen=True, slots=True)
class Requester:
    """The user of a request."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


_ANONYMOUS = Requester("system:anonymous", ("system:unauthenticated",))


class _Remembered(Generic[T]):
    """Answers that are valid for some time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Any, tuple[float, T]] = OrderedDict()

    def get(self, key: Any) -> tuple[T] | None:
        """Returns the answer in a tuple of one; None if there is none any more."""
        entry = self._entries.get(key)
        return (entry[1],) if entry is not None and self._clock.monotonic() < entry[0] else None

    def put(self, key: Any, value: T, seconds: float) -> None:
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)


class Access:
    """Decides about requests to one node's server, by reviews with the node's own client."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        node: str,
        options: AccessOptions,
        *,
        fine_grained: bool,
        plural: bool,
    ) -> None:
        """`fine_grained`: some paths have separate subresources; `plural`: refusals name all of them."""
        self._client = client
        self._node = node
        self._options = options
        self._fine_grained = fine_grained
        self._plural = plural
        self._tokens: _Remembered[Requester | None] = _Remembered(clock)
        self._decisions: _Remembered[bool] = _Remembered(clock)

    async def refusal(self, request: web.BaseRequest, path: str) -> web.Response | None:
        """Returns the answer to a request that is not allowed; None if it is. `path` is decoded."""
        requester = await self._authenticate(request)
        if requester is None:
            return web.Response(status=401, text="Unauthorized")
        verb, subresources = _VERBS.get(request.method, ""), self._subresources(path)
        about = f"(user={requester.name}, verb={verb}, resource=nodes, {self._shown(subresources)})"
        if not self._options.authorization_webhook:
            return None
        try:
            for subresource in subresources:
                if await self._allowed(requester, verb, subresource):
                    return None
        except _FAILURES as error:
            log.error("Authorization error %s: %s", about, error)
            return web.Response(status=500, text=f"Authorization error {about}")
        return web.Response(status=403, text=f"Forbidden {about}")

    def _subresources(self, path: str) -> list[str]:
        for root, name in _SUBRESOURCES.items():
            if _is_below(path, root):
                return [name]
        fine = next((name for root, name in _FINE.items() if _is_below(path, root)), "")
        return [fine, "proxy"] if fine and self._fine_grained else ["proxy"]

    def _shown(self, subresources: Sequence[str]) -> str:
        return (
            f"subresource(s)=[{' '.join(subresources)}]" if self._plural else f"subresource={subresources[0]}"
        )

    # -- who

    async def _authenticate(self, request: web.BaseRequest) -> Requester | None:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate:
            return _subject(certificate)
        token = _bearer_token(request)
        if token and self._options.token_webhook:
            return await self._review_token(token)
        return _ANONYMOUS if self._options.anonymous else None

    async def _review_token(self, token: str) -> Requester | None:
        known = self._tokens.get(token)
        if known is not None:
            return known[0]
        try:
            review = await self._client.create(_TOKEN_REVIEWS, _object(_TOKEN_REVIEWS, {"token": token}))
        except _FAILURES as error:
            log.error("Unable to authenticate the request due to an error: %s", error)
            return None
        status = review.get("status") or {}
        requester = _requester(status.get("user") or {}) if status.get("authenticated") else None
        self._tokens.put(token, requester, self._options.token_ttl)
        return requester

    # -- whether

    async def _allowed(self, requester: Requester, verb: str, subresource: str) -> bool:
        key = (requester, verb, subresource)
        known = self._decisions.get(key)
        if known is not None:
            return known[0]
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        spec: dict[str, Any] = {"resourceAttributes": attributes, "user": requester.name}
        spec["groups"] = list(requester.groups)
        if requester.uid:
            spec["uid"] = requester.uid
        if requester.extra:
            spec["extra"] = {name: list(values) for name, values in requester.extra}
        review = await self._client.create(_ACCESS_REVIEWS, _object(_ACCESS_REVIEWS, spec))
        status = review.get("status") or {}
        allowed = bool(status.get("allowed")) and not status.get("denied")
        options = self._options
        self._decisions.put(key, allowed, options.authorized_ttl if allowed else options.unauthorized_ttl)
        return allowed


def _object(ref: Ref, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {}, "spec": spec}


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _bearer_token(request: web.BaseRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip().split(" ")[0] if scheme.lower() == "bearer" else ""


def _subject(certificate: Any) -> Requester:
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = [value for kind, value in subject if kind == "organizationName"]
    return Requester(name, (*groups, _AUTHENTICATED))


def _requester(user: dict[str, Any]) -> Requester:
    extra = tuple((name, tuple(values)) for name, values in sorted((user.get("extra") or {}).items()))
    return Requester(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""), extra)
