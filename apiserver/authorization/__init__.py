"""Defines the question and the answer of an authorizer, and the words of a refusal.

An authorizer answers from memory; it never waits. Source of the texts:
k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, 1.36.
"""

import html
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.errors import GroupResource, StatusError, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import User


class Decision(NamedTuple):
    """`reason` is empty if the authorizer has none; with `denied`, later authorizers are not asked."""

    allowed: bool
    reason: str = ""
    denied: bool = False


NO_OPINION = Decision(False)


class Rules(NamedTuple):
    """Items are ResourceRules and NonResourceRules of authorization.k8s.io."""

    resources: tuple[Object, ...] = ()
    paths: tuple[Object, ...] = ()
    incomplete: bool = False  # there may be more
    error: str = ""


class Authorizer(Protocol):
    """Answers from memory; it never waits."""

    def authorize(self, user: User, info: RequestInfo) -> Decision: ...

    def rules(self, user: User, namespace: str) -> Rules: ...


def refusal(user: User, info: RequestInfo, reason: str) -> StatusError:
    why = denial(user, info, reason)
    return forbidden(GroupResource(info.group, info.resource), info.name, why)


def denial(user: User, info: RequestInfo, reason: str) -> str:
    name = _escaped(user.name)
    if not info.is_resource:
        text = f'User "{name}" cannot {info.verb} path "{_escaped(info.path)}"'
    else:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        text = f'User "{name}" cannot {info.verb} resource "{resource}" in API group "{info.group}"'
        text += f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
    return f"{text}: {reason}" if reason else text


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
