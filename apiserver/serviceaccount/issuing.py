"""Makes the claims of a service account token.

Source: k8s.io/kubernetes/pkg/serviceaccount/claims.go, 1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.serviceaccount import user_name

PRIVATE = "kubernetes.io"
WARN_SECONDS = 60 * 60 + 7  # asked for by the service account plugin: one hour, told apart from others
EXTENDED_SECONDS = 365 * 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class BoundObjects:
    """Holds the objects with which a token ends, or None each; a pod's node is a claim as well."""

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
    """Returns the claims of a token for `account` that ends in `seconds`."""
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
