"""Tokens of service accounts for volumes, asked for again before they expire.

Source: pkg/kubelet/token/token_manager.go, 1.36.
"""

import logging
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, Entropy, parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError

log = logging.getLogger(__name__)

_OLDEST = timedelta(hours=24)  # a token is replaced after that, however long it is valid
_JITTER_SECONDS = 10
_DEFAULT_SECONDS = 3600


class _Key(NamedTuple):
    uid: str  # of the pod
    namespace: str
    account: str
    audience: str
    seconds: int


class _Token(NamedTuple):
    text: str
    expires: datetime
    lifetime: timedelta


class TokenManager:
    """The tokens of one node's pods."""

    def __init__(self, client: APIClient, clock: Clock, entropy: Entropy) -> None:
        self._client = client
        self._clock = clock
        self._entropy = entropy
        self._tokens: dict[_Key, _Token] = {}

    async def token(self, pod: Object, source: Object) -> str:
        """The token of a serviceAccountToken source. Raises ConfigError."""
        key = _Key(
            pod_spec.uid_of(pod),
            pod_spec.namespace_of(pod),
            pod["spec"].get("serviceAccountName") or "",
            source.get("audience") or "",
            int(source.get("expirationSeconds") or _DEFAULT_SECONDS),
        )
        known = self._tokens.get(key)
        if known is not None and not self._is_due(known):
            return known.text
        try:
            token = await self._request(pod, key)
        except (StatusError, *CONNECTION_ERRORS) as error:
            text = error.message if isinstance(error, StatusError) else str(error)
            if known is None:
                raise ConfigError(f"failed to fetch token: {text}") from None
            if self._clock.now() > known.expires:
                raise ConfigError(f"token {_text(key, pod)} expired and refresh failed: {text}") from None
            log.error("cannot update token %s: %s", _text(key, pod), text)
            return known.text
        self._tokens[key] = token
        return token.text

    def forget(self, uid: str) -> None:
        for key in [key for key in self._tokens if key.uid == uid]:
            del self._tokens[key]

    def _is_due(self, token: _Token) -> bool:
        now = self._clock.now()
        jitter = timedelta(seconds=int(self._entropy.random() * _JITTER_SECONDS))
        if now > token.expires - token.lifetime + _OLDEST - jitter:
            return True
        fifth = timedelta(seconds=int(token.lifetime.total_seconds()) * 20 // 100)
        return now > token.expires - fifth - jitter

    async def _request(self, pod: Object, key: _Key) -> _Token:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [key.audience] if key.audience else [],
                "expirationSeconds": key.seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod_spec.name_of(pod),
                    "uid": key.uid,
                },
            },
        }
        path = f"/api/v1/namespaces/{key.namespace}/serviceaccounts/{key.account or 'default'}/token"
        answer = await self._client.request("POST", path, body=body)
        status = answer["status"]
        seconds = int((answer.get("spec") or {}).get("expirationSeconds") or key.seconds)
        expires = parse_timestamp(status["expirationTimestamp"])
        return _Token(str(status["token"]), expires, timedelta(seconds=seconds))


def _text(key: _Key, pod: Object) -> str:
    """Words the key of a token about as Go prints it."""
    audiences = f'[]string{{"{key.audience}"}}' if key.audience else "[]string(nil)"
    bound = (
        'v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", '
        f'Name:"{pod_spec.name_of(pod)}", UID:"{key.uid}"}}'
    )
    return f'"{key.account}"/"{key.namespace}"/{audiences}/{key.seconds}/{bound}/""'
