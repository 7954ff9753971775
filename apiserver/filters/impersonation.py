"""Impersonation: users act as others, as far as they may.

Source: k8s.io/apiserver/pkg/endpoints/filters/impersonation, 1.36. The authorizer is asked for each
impersonation: for the verb `impersonate`, or with gate ConstrainedImpersonation one verb for the identity and
one for what is done with it; the former is tried last.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.field import listed
from kubeskew.apiserver.authorization import Authorizer, refusal
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, RequestInfo, Response
from kubeskew.apiserver.registry.shared.formats import prefixed_path_errors
from kubeskew.apiserver.serviceaccount import USER_PREFIX, group_names
from kubeskew.apiserver.user import ANONYMOUS, MASTERS_GROUP, UNAUTHENTICATED_GROUP, User, authenticated

_HEADER, _EXTRA = "impersonate-", "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE, _NODES = "system:node:", "system:nodes"
_NODE_NAME = "authentication.kubernetes.io/node-name"


def with_impersonation(
    handler: Handler, authorizer: Authorizer, *, constrained: bool = False, missing_user_is_400: bool = False
) -> Handler:
    """Replaces `request.user` by the user that the Impersonate headers name, or answers 403."""
    allowed = _Constrained(authorizer) if constrained else partial(_unconstrained, authorizer)

    async def impersonate(request: Request) -> Response:
        if any(name[:1] in "iI" and name.lower().startswith(_HEADER) for name in request.headers):
            wanted = _wanted(request.headers)
            if not wanted.name:
                return _nobody(request, wanted, constrained=constrained, bad=missing_user_is_400)
            try:
                request.user = allowed(request, wanted)
            except StatusError as error:
                return statuses.response(request, error)
        return await handler(request)

    return impersonate


def _wanted(headers: Mapping[str, str]) -> User:
    """Each header may come several times."""
    pairs = [(name.lower(), value) for name, value in headers.items()]
    groups = tuple(value for name, value in pairs if name == "impersonate-group")
    extra: dict[str, list[str]] = {}
    for name, value in pairs:
        if name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA))
            extra.setdefault(key, []).append(value)
    together = {key: tuple(values) for key, values in extra.items()}
    return User(headers.get("impersonate-user", ""), headers.get("impersonate-uid", ""), groups, together)


def _nobody(request: Request, wanted: User, *, constrained: bool, bad: bool) -> Response:
    """Names what was asked for as Go prints it. `bad` answers 400, else 500."""
    if constrained:
        groups = f"[]string{{{', '.join(map(_quoted, wanted.groups))}}}" if wanted.groups else "[]string(nil)"
        what = (
            f'&user.DefaultInfo{{Name:"", UID:{_quoted(wanted.uid)}, Groups:{groups}, Extra:{_map(wanted)}}}'
        )
        wrong = errors.bad_request(f"requested {what} without impersonating a user name")
        return statuses.response(request, wrong)
    asked = [f"{{Group  {group}    }}" for group in wanted.groups]
    asked += [
        f"{{UserExtra  {value}  {_AUTHENTICATION}/v1  {key}}}"
        for key, values in wanted.extra.items()
        for value in values
    ]
    if wanted.uid:
        asked.append(f"{{UID  {wanted.uid}  {_AUTHENTICATION}/v1  }}")
    why = f"requested [{' '.join(asked)}] without impersonating a user"
    return (
        statuses.response(request, errors.bad_request(why)) if bad else statuses.internal_error(request, why)
    )


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _map(wanted: User) -> str:
    if not wanted.extra:
        return "map[string][]string(nil)"
    shown = (
        f"{_quoted(key)}:[]string{{{', '.join(map(_quoted, values))}}}"
        for key, values in sorted(wanted.extra.items())
    )
    return f"map[string][]string{{{', '.join(shown)}}}"


# --- who may


@dataclass(frozen=True, slots=True)
class _Mode:
    """One way to impersonate; `applies` is called with the wanted user and the requesting one."""

    name: str
    applies: Callable[[User, User], bool]


# Tried in this order, and then without constraint, which always applies.
_MODES = (
    _Mode(
        "associated-node", lambda wanted, own: _only_named(wanted) and _is_on(own, _node_name(wanted.name))
    ),
    _Mode("arbitrary-node", lambda wanted, _: _only_named(wanted) and bool(_node_name(wanted.name))),
    _Mode("serviceaccount", lambda wanted, _: _only_named(wanted) and _account(wanted.name) is not None),
    _Mode(
        "user-info", lambda wanted, _: not _node_name(wanted.name) and _account(wanted.name) is None
    ),
)  # fmt: skip
_MANY = 4  # groups or extras, from which on it is asked for all at once first
_REMEMBERED = 5_000  # users, twice


class _Constrained:
    """Tries the modes of gate ConstrainedImpersonation, first the one that a user was last allowed by."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last = TwoGenerationCache[str, int](_REMEMBERED)

    def __call__(self, request: Request, wanted: User) -> User:
        """Raises the 403 of the first mode that was refused."""
        last = self._last.get(request.user.name)
        order = [number for number in range(len(_MODES) + 1) if number != last]
        refused = []
        for number in order if last is None else (last, *order):
            try:
                found = self._by_mode(number, request, wanted)
            except StatusError as error:
                refused.append(error)
                continue
            if found is not None:
                self._last.put(request.user.name, number)
                return found
        raise refused[0]  # the last mode applies to all

    def _by_mode(self, number: int, request: Request, wanted: User) -> User | None:
        """None if the mode does not apply."""
        if number == len(_MODES):
            for info in (_name(wanted, ""), *_uid(wanted), *_groups(wanted, ""), *_extra(wanted)):
                _check(self._authorizer, request.user, info._replace(verb="impersonate"))
            return _complete(wanted)
        mode = _MODES[number]
        if not mode.applies(wanted, request.user):
            return None
        action = request.info._replace(verb=f"impersonate-on:{mode.name}:{request.info.verb}")
        _check(self._authorizer, request.user, action)
        self._check_all(f"impersonate:{mode.name}", mode.name == "associated-node", request.user, wanted)
        return _complete(replace(wanted, groups=(_NODES,)) if _node_name(wanted.name) else wanted)

    def _check_all(self, verb: str, any_name: bool, own: User, wanted: User) -> None:
        def check(*infos: RequestInfo) -> None:
            for info in infos:
                _check(self._authorizer, own, info._replace(verb=verb))

        def refuse(info: RequestInfo, why: str) -> StatusError:
            return refusal(own, info._replace(verb=verb), why)

        name = _name(wanted, _AUTHENTICATION)
        check(name._replace(name="*") if any_name else name, *_uid(wanted))
        groups = _about("groups", "", _AUTHENTICATION)
        if "" in wanted.groups:
            raise refuse(groups, "impersonating the empty string group is not allowed")
        if MASTERS_GROUP in wanted.groups:
            named = groups._replace(name=MASTERS_GROUP)
            raise refuse(named, "impersonating the system:masters group is not allowed")
        if len(wanted.groups) < _MANY or not self._allows(own, groups._replace(verb=verb, name="*")):
            check(*_groups(wanted, _AUTHENTICATION))
        extra = _about("userextras", "", _AUTHENTICATION)
        if wrong := _wrong_extra(wanted.extra):
            raise refuse(extra, wrong)
        every = extra._replace(verb=verb, name="*", subresource="*")
        many = max(len(wanted.extra), sum(map(len, wanted.extra.values()))) >= _MANY
        if not many or not self._allows(own, every):
            check(*_extra(wanted))

    def _allows(self, own: User, info: RequestInfo) -> bool:
        return self._authorizer.authorize(own, info).allowed


def _wrong_extra(extra: Mapping[str, tuple[str, ...]]) -> str:
    """Empty if all keys and values can be impersonated."""
    for key, values in sorted(extra.items()):
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if wrong := listed(prefixed_path_errors("extra.key", key)):
            return f"impersonating an invalid key in extra is not allowed: {wrong}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {_quoted(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _unconstrained(authorizer: Authorizer, request: Request, wanted: User) -> User:
    """Raises the 403 of the first thing that may not be impersonated. The uid comes last."""
    for info in (_name(wanted, ""), *_groups(wanted, ""), *_extra(wanted), *_uid(wanted)):
        _check(authorizer, request.user, info._replace(verb="impersonate"))
    return _complete(wanted)


def _check(authorizer: Authorizer, user: User, info: RequestInfo) -> None:
    decision = authorizer.authorize(user, info)
    if not decision.allowed:
        raise refusal(user, info, decision.reason)


# --- what is asked for each thing that is impersonated; `group` is the API group of users and groups


def _about(resource: str, name: str, group: str, namespace: str = "", subresource: str = "") -> RequestInfo:
    return RequestInfo(True, "", "", group, "v1", resource, subresource, namespace, name)


def _name(wanted: User, group: str) -> RequestInfo:
    if account := _account(wanted.name):
        return _about("serviceaccounts", account[1], group, account[0])
    if group and (node := _node_name(wanted.name)):
        return _about("nodes", node, group)
    return _about("users", wanted.name, group)


def _uid(wanted: User) -> Iterator[RequestInfo]:
    if wanted.uid:
        yield _about("uids", wanted.uid, _AUTHENTICATION)


def _groups(wanted: User, group: str) -> Iterator[RequestInfo]:
    for name in wanted.groups:
        yield _about("groups", name, group)


def _extra(wanted: User) -> Iterator[RequestInfo]:
    for key, values in wanted.extra.items():
        for value in values:
            yield _about("userextras", value, _AUTHENTICATION, subresource=key)


def _complete(user: User) -> User:
    account = _account(user.name)
    groups = user.groups or (group_names(account[0]) if account else ())
    if user.name != ANONYMOUS:
        return replace(user, groups=authenticated(groups))
    added = () if UNAUTHENTICATED_GROUP in groups else (UNAUTHENTICATED_GROUP,)
    return replace(user, groups=(*groups, *added))


def _only_named(user: User) -> bool:
    return not (user.uid or user.groups or user.extra)


def _node_name(name: str) -> str:
    """Users that are no nodes have an empty one."""
    node = name.removeprefix(_NODE) if name.startswith(_NODE) else ""
    return "" if not node or names.dns1123_subdomain(node, False) else node


def _is_on(user: User, node: str) -> bool:
    """Service accounts are on the node that their token is bound to."""
    return bool(node) and _account(user.name) is not None and user.extra.get(_NODE_NAME) == (node,)


def _account(name: str) -> tuple[str, str] | None:
    """The pair is namespace and name; None for users that are no service accounts."""
    if not name.startswith(USER_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(USER_PREFIX).partition(":")
    if not colon or ":" in account:
        return None
    if names.dns1123_label(namespace, False) or names.dns1123_subdomain(account, False):
        return None
    return namespace, account
