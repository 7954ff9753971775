"""Token and access reviews: a server asks the API server whose a token is and what a user may do.

Answers are remembered for some time, as upstream.
Source: k8s.io/apiserver's delegating authenticator and authorizer, 1.36.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError

log = logging.getLogger(__name__)
T = TypeVar("T")

FAILURES = (StatusError, *CONNECTION_ERRORS)
AUTHENTICATED = "system:authenticated"
_TOKEN_REVIEWS = Ref("authentication.k8s.io", "v1", "tokenreviews", False, "TokenReview")
_ACCESS_REVIEWS = Ref("authorization.k8s.io", "v1", "subjectaccessreviews", False, "SubjectAccessReview")
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Requester:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = Requester("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds for which answers are remembered: of tokens, and of decisions that allow or deny."""

    tokens: float
    allowed: float
    denied: float


class _Remembered(Generic[T]):
    """Answers that are valid for some time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Any, tuple[float, T]] = OrderedDict()

    def get(self, key: Any) -> tuple[T] | None:
        """The answer in a tuple of one; None if there is none or its time is over."""
        entry = self._entries.get(key)
        return (entry[1],) if entry is not None and self._clock.monotonic() < entry[0] else None

    def put(self, key: Any, value: T, seconds: float) -> None:
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)


class Reviews:
    """Asks with the client of the server that needs the answers."""

    def __init__(self, client: APIClient, clock: Clock, lifetimes: Lifetimes) -> None:
        self._client = client
        self._lifetimes = lifetimes
        self._tokens: _Remembered[Requester | None] = _Remembered(clock)
        self._decisions: _Remembered[bool] = _Remembered(clock)

    async def user_of(self, token: str) -> Requester | None:
        """None if the token is nobody's, or the API server does not answer."""
        known = self._tokens.get(token)
        if known is not None:
            return known[0]
        try:
            review = await self._client.create(_TOKEN_REVIEWS, _object(_TOKEN_REVIEWS, {"token": token}))
        except FAILURES as error:
            log.error("Unable to authenticate the request due to an error: %s", error)
            return None
        status = review.get("status") or {}
        requester = _requester(status.get("user") or {}) if status.get("authenticated") else None
        self._tokens.put(token, requester, self._lifetimes.tokens)
        return requester

    async def allows(
        self, requester: Requester, attributes: Mapping[str, str], *, of_resource: bool = True
    ) -> bool:
        """`attributes` are those of a resource, or of another path unless `of_resource`. Raises one of
        FAILURES."""
        key = (requester, of_resource, tuple(sorted(attributes.items())))
        known = self._decisions.get(key)
        if known is not None:
            return known[0]
        kind = "resourceAttributes" if of_resource else "nonResourceAttributes"
        spec: dict[str, Any] = {kind: dict(attributes), "user": requester.name}
        spec["groups"] = list(requester.groups)
        if requester.uid:
            spec["uid"] = requester.uid
        if requester.extra:
            spec["extra"] = {name: list(values) for name, values in requester.extra}
        review = await self._client.create(_ACCESS_REVIEWS, _object(_ACCESS_REVIEWS, spec))
        status = review.get("status") or {}
        allowed = bool(status.get("allowed")) and not status.get("denied")
        self._decisions.put(key, allowed, self._lifetimes.allowed if allowed else self._lifetimes.denied)
        return allowed


def bearer_token(authorization: str) -> str:
    """Empty if the header `Authorization` has no bearer token."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip().split(" ")[0] if scheme.lower() == "bearer" else ""


def user_of_certificate(certificate: Any) -> Requester:
    """Takes the name and groups from a client's certificate in the form of `getpeercert`."""
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = [value for kind, value in subject if kind == "organizationName"]
    return Requester(name, (*groups, AUTHENTICATED))


def _object(ref: Ref, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {}, "spec": spec}


def _requester(user: dict[str, Any]) -> Requester:
    extra = tuple((name, tuple(values)) for name, values in sorted((user.get("extra") or {}).items()))
    return Requester(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""), extra)
