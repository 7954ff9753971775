"""Authenticates tokens of service accounts, bound ones and those in secrets.

Source: k8s.io/kubernetes/pkg/serviceaccount/{jwt,claims,legacy}.go, 1.36.
"""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.clock import Clock, parse_timestamp
from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.apimachinery.metrics.series import unseen_families
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.web_tokens import Token, WrongTokenError, verified
from kubeskew.apiserver.authentication import Identity, TokenError
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.features import AccountFeatures
from kubeskew.apiserver.metrics import TokenMetrics
from kubeskew.apiserver.serviceaccount import group_names, user_name
from kubeskew.apiserver.serviceaccount.tokens import PRIVATE, AccountKeys
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import object_of
from kubeskew.apiserver.user import AUTHENTICATED_GROUP, User

LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY = "kubernetes.io/serviceaccount/"
_LEEWAY = timedelta(minutes=1)
_EXTRA = "authentication.kubernetes.io/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_REMEMBERED = 5_000
_INVALIDATED = "service account token has been invalidated"


class AccountTokens:
    """Authenticates tokens issued for this cluster, while the objects that they are bound to exist."""

    def __init__(
        self,
        keys: AccountKeys,
        store: Store,
        clock: Clock,
        features: AccountFeatures,
        metrics: TokenMetrics | None = None,
    ) -> None:
        self._metrics = metrics or TokenMetrics(unseen_families())
        self._keys = keys
        self._store = store
        self._clock = clock
        self._adds_id = features.token_ids
        self._adds_node = features.pod_node_info
        self._checks_node = features.checks_node_binding
        self._heeds_label = features.invalid_label
        self._verified: TwoGenerationCache[str, Token] = TwoGenerationCache(_REMEMBERED)

    def identify(self, text: str, audiences: Sequence[str]) -> Identity | None:
        """None if the token is not of this cluster; raises TokenError if it is no longer valid."""
        token = self._verified.get(text)
        if token is None:
            if text.count(".") != 2:
                return None
            try:
                token = verified(text, self._keys.verifying)
            except WrongTokenError:
                self._metrics.wrong += 1
                return None
            self._metrics.verified += 1
            self._verified.put(text, token)
        else:
            self._metrics.hits += 1
        issuer = token.claims.get("iss")
        if issuer == LEGACY_ISSUER:
            return self._legacy(text, token.claims, audiences)
        if issuer not in self._keys.issuers:
            return None
        common = _audiences(token.claims, audiences, self._keys)  # an error of its own, before all others
        return Identity(self._bound(token.claims), common)

    # -- bound tokens

    def _count_legacy(self, namespace: str, account: str, secret: str) -> None:
        """A token in a Secret counts as automatic if the account lists the Secret."""
        entry = self._store.get(Key("serviceaccounts", namespace, account))
        listed = (object_of(entry).get("secrets") or ()) if entry is not None else ()
        automatic = any(one.get("name") == secret for one in listed)
        (self._metrics.automatic if automatic else self._metrics.manual).inc()
        self._metrics.legacy.inc()

    def _bound(self, claims: dict[str, Any]) -> User:
        now = self._clock.now()
        _check_time(claims, now)
        private = claims.get(PRIVATE) or {}
        namespace, account = private.get("namespace") or "", private.get("serviceaccount") or {}
        self._check_account(namespace, account, now)
        if secret := private.get("secret"):
            self._check_reference("secrets", namespace, secret, now, "secret")
        if pod := private.get("pod"):
            self._check_reference("pods", namespace, pod, now, "pod")
        if (node := private.get("node")) and self._checks_node and not pod:
            self._check_reference("nodes", "", node, now, "node")
        if renewed_by := private.get("warnafter"):
            is_stale = int(now.timestamp()) > renewed_by
            (self._metrics.stale if is_stale else self._metrics.valid).inc()
        return User(
            user_name(namespace, account["name"]),
            account.get("uid") or "",
            (*group_names(namespace), AUTHENTICATED_GROUP),
            self._extra(claims, private),
        )

    def _extra(self, claims: dict[str, Any], private: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        if self._adds_id and claims.get("jti"):
            extra[f"{_EXTRA}credential-id"] = (f"JTI={claims['jti']}",)
        kinds = ["pod", "node"] if self._adds_node else ["pod"]
        for kind in kinds:
            reference = private.get(kind) or {}
            for field in ("name", "uid"):
                if reference.get(field):
                    extra[f"{_EXTRA}{kind}-{field}"] = (reference[field],)
        return extra

    def _check_account(self, namespace: str, reference: dict[str, str], now: datetime) -> None:
        name = reference.get("name") or ""
        entry = self._store.get(Key("serviceaccounts", namespace, name))
        if entry is None:
            raise TokenError(str(not_found(GroupResource("", "serviceaccounts"), name)))
        if _is_gone(entry, now):
            raise TokenError(f"service account {namespace}/{name} has been deleted")
        if entry.uid != reference.get("uid"):
            uid = reference.get("uid") or ""
            raise TokenError(f"service account UID ({entry.uid}) does not match claim ({uid})")

    def _check_reference(
        self, resource: str, namespace: str, reference: dict[str, str], now: datetime, what: str
    ) -> None:
        entry = self._store.get(Key(resource, namespace, reference.get("name") or ""))
        if entry is None or _is_gone(entry, now):
            raise TokenError(_INVALIDATED)
        uid = reference.get("uid") or ""
        if uid and entry.uid != uid:
            claim = f"service account {what} ref claim ({uid})"
            raise TokenError(f"{what} UID ({entry.uid}) does not match {claim}")

    # -- tokens in secrets

    def _legacy(self, text: str, claims: dict[str, Any], audiences: Sequence[str]) -> Identity:
        common = _audiences({}, audiences, self._keys)
        namespace, secret, account, uid = (
            str(claims.get(_LEGACY + name) or "")
            for name in ("namespace", "secret.name", "service-account.name", "service-account.uid")
        )
        for value, name in (
            (namespace, "namespace"), (secret, "secretName"),
            (account, "serviceAccountName"), (uid, "serviceAccountUID"),
        ):  # fmt: skip
            if not value:
                raise TokenError(f"{name} claim is missing")
        if claims.get("sub") != user_name(namespace, account):
            raise TokenError("sub claim is invalid")
        entry = self._store.get(Key("secrets", namespace, secret))
        stored = object_of(entry) if entry is not None else None
        if stored is None or stored["metadata"].get("deletionTimestamp"):
            raise TokenError("Token has been invalidated")
        if _secret_token(stored) != text:
            raise TokenError("Token does not match server's copy")
        self._check_legacy_account(namespace, account, uid)
        if self._heeds_label and (stored["metadata"].get("labels") or {}).get(_INVALID_SINCE):
            self._metrics.invalidated.inc()
            raise TokenError(_marked(f"{namespace}/{secret}", f"{namespace}/{account}"))
        self._count_legacy(namespace, account, secret)
        user = User(user_name(namespace, account), uid, (*group_names(namespace), AUTHENTICATED_GROUP))
        return Identity(user, common)

    def _check_legacy_account(self, namespace: str, name: str, uid: str) -> None:
        entry = self._store.get(Key("serviceaccounts", namespace, name))
        if entry is None:
            raise TokenError(str(not_found(GroupResource("", "serviceaccounts"), name)))
        if object_of(entry)["metadata"].get("deletionTimestamp"):
            raise TokenError(f"ServiceAccount {namespace}/{name} has been deleted")
        if entry.uid != uid:
            raise TokenError(f"ServiceAccount UID ({entry.uid}) does not match claim ({uid})")


def _marked(secret: str, account: str) -> str:
    """The token was found to be unused."""
    return (
        f"the token in secret {secret} for service account {account} has been marked invalid. Use tokens "
        "from the TokenRequest API or manually created secret-based tokens, or remove the "
        f"'{_INVALID_SINCE}' label from the secret to temporarily allow use of this token"
    )


def _check_time(claims: dict[str, Any], now: datetime) -> None:
    seconds, leeway = now.timestamp(), _LEEWAY.total_seconds()
    if isinstance(claims.get("nbf"), int | float) and seconds + leeway < claims["nbf"]:
        raise TokenError("service account token is not valid yet")
    if isinstance(claims.get("exp"), int | float) and seconds - leeway > claims["exp"]:
        raise TokenError("service account token has expired")


def _audiences(claims: dict[str, Any], wanted: Sequence[str], keys: AccountKeys) -> tuple[str, ...]:
    """Audiences of the token that were not asked for are left out; raises TokenError if none is left."""
    named = claims.get("aud") or keys.audiences
    own = (named,) if isinstance(named, str) else tuple(named)
    found = tuple(audience for audience in own if audience in wanted)
    if not found:
        shown = [" ".join(f'"{audience}"' for audience in some) for some in (own, wanted)]
        raise TokenError(f"token audiences [{shown[0]}] is invalid for the target audiences [{shown[1]}]")
    return found


def _is_gone(entry: Entry, now: datetime) -> bool:
    """Objects count as gone a minute after their deletionTimestamp."""
    if b'"deletionTimestamp"' not in entry.value:
        return False
    marked = object_of(entry)["metadata"].get("deletionTimestamp")
    return bool(marked) and parse_timestamp(marked) < now - _LEEWAY


def _secret_token(secret: Object) -> str:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "").decode()
    except (binascii.Error, ValueError):
        return ""
