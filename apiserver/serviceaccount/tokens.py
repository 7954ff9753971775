"""Keeps the keys of service accounts' tokens, and builds the claims of a token.

Source: k8s.io/kubernetes/pkg/serviceaccount/claims.go, 1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.web_tokens import SigningKey, VerifyingKey
from kubeskew.apiserver.serviceaccount import user_name

PRIVATE = "kubernetes.io"
WARN_SECONDS = 60 * 60 + 7  # asked for by the service account plugin: one hour, marked by 7 s
EXTENDED_SECONDS = 365 * 24 * 60 * 60


class AccountKeys:
    """Without a signing key file, a server makes a key of its own, which nobody else knows."""

    def __init__(
        self,
        issuers: Sequence[str],
        signing_key_file: str = "",
        key_files: Sequence[str] = (),
        audiences: Sequence[str] = (),
        keys_uri: str = "",
    ) -> None:
        """`keys_uri` is for those who verify tokens elsewhere; empty: the server's own address."""
        self.keys_uri = keys_uri
        self.issuers = tuple(issuers)
        self.audiences = tuple(audiences) or self.issuers[:1]
        self._signing_key_file = signing_key_file
        self._key_files = tuple(key_files)

    @property
    def issuer(self) -> str:
        return self.issuers[0]

    @cached_property
    def signing(self) -> SigningKey:
        if self._signing_key_file:
            return SigningKey(Path(self._signing_key_file).read_bytes())
        return SigningKey.generate()

    @cached_property
    def verifying(self) -> tuple[VerifyingKey, ...]:
        """Without key files, only tokens of the signing key are valid."""
        if not self._key_files:
            return (self.signing.public,)
        return tuple(VerifyingKey.load(Path(file).read_bytes()) for file in self._key_files)


@dataclass(frozen=True, slots=True)
class BoundObjects:
    """A token ends with the objects that are set; a pod's node is a claim as well."""

    pod: Object | None = None
    secret: Object | None = None
    node: Object | None = None


def claims(
    issuer: str,
    account: Object,
    bound: BoundObjects,
    audiences: Sequence[str],
    now: datetime,
    seconds: int,
    *,
    warn_after: int = 0,
    identifier: str = "",
) -> dict[str, Any]:
    """The token ends after `seconds`, and counts as stale after `warn_after` seconds."""
    metadata, issued = account["metadata"], int(now.timestamp())
    private: dict[str, Any] = {"namespace": metadata["namespace"]}
    if bound.node is not None:
        private["node"] = _reference(bound.node)
    if bound.pod is not None:
        private["pod"] = _reference(bound.pod)
    elif bound.secret is not None:
        private["secret"] = _reference(bound.secret)
    private["serviceaccount"] = _reference(account)
    if warn_after:
        private["warnafter"] = issued + warn_after
    made: dict[str, Any] = {"aud": list(audiences), "exp": issued + seconds, "iat": issued, "iss": issuer}
    if identifier:
        made["jti"] = identifier
    subject = user_name(metadata["namespace"], metadata["name"])
    return {**made, PRIVATE: private, "nbf": issued, "sub": subject}


def _reference(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    found = {"name": metadata.get("name") or "", "uid": metadata.get("uid") or ""}
    return {name: value for name, value in found.items() if value}
