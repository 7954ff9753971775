"""Who may do what: the question, and the simple answer until roles decide.

Source of the texts: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, 1.36.
"""

import html
from typing import NamedTuple, Protocol

from apimachinery.errors import Object
from apiserver.request_info import RequestInfo
from apiserver.user import AUTHENTICATED_GROUP, MASTERS_GROUP, User


class Decision(NamedTuple):
    """`reason` is the authorizer's own, empty if it has none."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """What somebody may do: ResourceRules and NonResourceRules of authorization.k8s.io."""

    resources: tuple[Object, ...] = ()
    paths: tuple[Object, ...] = ()
    incomplete: bool = False  # there may be more


class Authorizer(Protocol):
    """Answers from memory; it never waits."""

    def authorize(self, user: User, info: RequestInfo) -> Decision: ...

    def rules(self, user: User, namespace: str) -> Rules: ...


# ClusterRole system:public-info-viewer, bound to authenticated and unauthenticated users.
_PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})


class AuthenticatedMayAll:
    """Masters and every authenticated user may do anything, anonymous ones ask how the server is.

    Only masters may impersonate.
    """

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        if MASTERS_GROUP in user.groups:
            return Decision(True)
        if AUTHENTICATED_GROUP in user.groups:
            return Decision(info.verb != "impersonate")
        return Decision(not info.is_resource and info.verb == "get" and info.path in _PUBLIC_PATHS)

    def rules(self, user: User, namespace: str) -> Rules:
        if not {MASTERS_GROUP, AUTHENTICATED_GROUP}.isdisjoint(user.groups):
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            return Rules((everything,), ({"verbs": ["*"], "nonResourceURLs": ["*"]},))
        return Rules(paths=({"verbs": ["get"], "nonResourceURLs": sorted(_PUBLIC_PATHS)},))


def denial(user: User, info: RequestInfo, reason: str) -> str:
    """Why a request is forbidden, in upstream's words."""
    name = _escaped(user.name)
    if not info.is_resource:
        text = f'User "{name}" cannot {info.verb} path "{_escaped(info.path)}"'
    else:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        text = f'User "{name}" cannot {info.verb} resource "{resource}" in API group "{info.group}"'
        text += f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
    return f"{text}: {_escaped(reason)}" if reason else text


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
