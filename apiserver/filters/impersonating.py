"""Let a master act as somebody else.

Source: k8s.io/apiserver/pkg/endpoints/filters/impersonation.go, 1.36. Who may impersonate whom is a question
to the authorizer, with the verb `impersonate`.
"""

from dataclasses import replace
from urllib.parse import unquote

from apimachinery import errors
from apiserver.authorization import Authorizer, denial
from apiserver.request import Handler, Request, Response
from apiserver.request_info import RequestInfo
from apiserver.user import ANONYMOUS, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, User

_EXTRA = "impersonate-extra-"


def with_impersonation(handler: Handler, authorizer: Authorizer) -> Handler:
    """Replace `request.user` by the one that the Impersonate headers name, if that is allowed."""

    async def impersonate(request: Request) -> Response:
        if "impersonate-user" in request.headers:
            wanted = _wanted(request)
            for resource, name in _subjects(wanted):
                info = RequestInfo(True, "", "impersonate", "", "v1", resource, name=name)
                decision = authorizer.authorize(request.user, info)
                if not decision.allowed:
                    why = denial(request.user, info, decision.reason)
                    raise errors.forbidden(errors.GroupResource("", resource), name, why)
            request.user = _complete(wanted)
        elif any(name.lower().startswith("impersonate-") for name in request.headers):
            raise errors.internal("requested impersonation without impersonating a user")
        return await handler(request)

    return impersonate


def _wanted(request: Request) -> User:
    headers = request.headers
    pairs = [(name.lower(), value) for name, value in headers.items()]  # a header may come several times
    groups = tuple(value for name, value in pairs if name == "impersonate-group")
    extra = {unquote(name.removeprefix(_EXTRA)): (value,) for name, value in pairs if name.startswith(_EXTRA)}
    return User(headers["impersonate-user"], headers.get("impersonate-uid", ""), groups, extra)


def _subjects(user: User) -> list[tuple[str, str]]:
    subjects = [("users", user.name), *(("groups", group) for group in user.groups)]
    return [*subjects, ("uids", user.uid)] if user.uid else subjects


def _complete(user: User) -> User:
    group = UNAUTHENTICATED_GROUP if user.name == ANONYMOUS else AUTHENTICATED_GROUP
    return user if group in user.groups else replace(user, groups=(*user.groups, group))
