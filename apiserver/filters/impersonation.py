"""Impersonation: users act as others, as far as they may.

Source: k8s.io/apiserver/pkg/endpoints/filters/impersonation, 1.36. The authorizer is asked for each
impersonation: for the verb `impersonate`, or with gate ConstrainedImpersonation one verb for the identity and
one for what is done with it; the former is tried last.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.authorization import Authorizer, refusal
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, RequestInfo, Response
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
    modes = _CONSTRAINED if constrained else ()

    async def impersonate(request: Request) -> Response:
        if any(name[:1] in "iI" and name.lower().startswith(_HEADER) for name in request.headers):
            wanted = _wanted(request.headers)
            if not wanted.name:
                return _nobody(request, wanted, constrained=constrained, bad=missing_user_is_400)
            try:
                request.user = _allowed(authorizer, modes, request, wanted)
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


_CONSTRAINED = (
    _Mode(
        "associated-node", lambda wanted, own: _only_named(wanted) and _is_on(own, _node_name(wanted.name))
    ),
    _Mode("arbitrary-node", lambda wanted, _: _only_named(wanted) and bool(_node_name(wanted.name))),
    _Mode("serviceaccount", lambda wanted, _: _only_named(wanted) and _account(wanted.name) is not None),
    _Mode(
        "user-info", lambda wanted, _: not _node_name(wanted.name) and _account(wanted.name) is None
    ),
)  # fmt: skip


def _allowed(authorizer: Authorizer, modes: tuple[_Mode, ...], request: Request, wanted: User) -> User:
    """Raises the 403 of the first way that was refused."""
    refused: StatusError | None = None
    for mode in modes:
        if not mode.applies(wanted, request.user):
            continue
        try:
            return _by_mode(authorizer, mode, request, wanted)
        except StatusError as error:
            refused = refused or error
    try:
        for info in _questions(wanted, "impersonate", ""):
            _check(authorizer, request.user, info)
    except StatusError as error:
        raise refused or error from None
    return _complete(wanted)


def _by_mode(authorizer: Authorizer, mode: _Mode, request: Request, wanted: User) -> User:
    action = request.info._replace(verb=f"impersonate-on:{mode.name}:{request.info.verb}")
    _check(authorizer, request.user, action)
    verb = f"impersonate:{mode.name}"
    if MASTERS_GROUP in wanted.groups:
        info = RequestInfo(True, "", verb, _AUTHENTICATION, "v1", "groups", name=MASTERS_GROUP)
        raise refusal(request.user, info, "impersonating the system:masters group is not allowed")
    for info in _questions(wanted, verb, _AUTHENTICATION):
        asked = info._replace(name="*") if mode.name == "associated-node" else info
        _check(authorizer, request.user, asked)
    return _complete(replace(wanted, groups=(_NODES,)) if _node_name(wanted.name) else wanted)


def _check(authorizer: Authorizer, user: User, info: RequestInfo) -> None:
    decision = authorizer.authorize(user, info)
    if not decision.allowed:
        raise refusal(user, info, decision.reason)


def _questions(wanted: User, verb: str, group: str) -> Iterator[RequestInfo]:
    """Each thing that is impersonated needs one access check. `group` is the API group of users and
    groups.
    """

    def about(
        resource: str, name: str, group: str, namespace: str = "", subresource: str = ""
    ) -> RequestInfo:
        return RequestInfo(True, "", verb, group, "v1", resource, subresource, namespace, name)

    account = _account(wanted.name)
    if account is not None:
        yield about("serviceaccounts", account[1], group, account[0])
    elif group and (node := _node_name(wanted.name)):
        yield about("nodes", node, group)
    else:
        yield about("users", wanted.name, group)
    if group and wanted.uid:
        yield about("uids", wanted.uid, _AUTHENTICATION)
    for name in wanted.groups:
        yield about("groups", name, group)
    for key, values in wanted.extra.items():
        for value in values:
            yield about("userextras", value, _AUTHENTICATION, subresource=key)
    if not group and wanted.uid:
        yield about("uids", wanted.uid, _AUTHENTICATION)


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
